"""The contents of a support bundle: each part is a function; a part that fails contains its error instead."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import shutil
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace import __version__
from headrace.cli.commands.logs import read_log_lines
from headrace.cli.context import CommandContext
from headrace.cli.io.redaction import MASK, redact_properties, redact_values, redactor_for
from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from headrace.contracts import Log
    from headrace.control.verify.targets import VerifyTarget

_README = """This was gathered by `headrace support-bundle`. It has no records and no secrets: what
stands in quotes in messages of the log, and is no name that is known, was taken out. Statements are
as they were given, but for passwords. What Spark said is not here, since it may show records: it is
in logs/spark.log of the data folder.
"""


@dataclass
class BundleSources:
    """What the parts read from. The log is opened lazily: a bundle is most needed when something does not work."""

    call: CommandContext
    lines: int
    stack: ExitStack

    @cached_property
    def log(self) -> Log:
        return self.stack.enter_context(self.call.log())

    @property
    def data(self) -> Path:
        return self.call.settings().storage.data

    @cached_property
    def targets(self) -> list[VerifyTarget]:
        from headrace.control.verify.targets import server_targets

        return server_targets(self.log, self.data)

    @cached_property
    def names(self) -> set[str]:
        """Names that may appear in messages."""
        names = {origin.name for origin in self.call.origins()}
        with suppress(HeadraceError):
            names |= {topic.name for topic in self.log.topics()}
            for target in self.targets:
                sink = target.query.sink
                names |= {target.query.id, sink.name, *(field.name for field in sink.relation.columns)}
        return names


def collect_bundle(call: CommandContext, lines: int) -> Iterator[tuple[str, str]]:
    """The files of the bundle: names and contents."""
    mask = redactor_for(call.origins(), call.settings().storage.data)
    yield "README.txt", _README
    with ExitStack() as stack:
        sources = BundleSources(call, lines, stack)
        for name, part in PARTS.items():
            yield name, mask.text(_text(_collected(part, sources)))


def _collected(part: Callable[[BundleSources], Any], sources: BundleSources) -> Any:
    try:
        return part(sources)
    except HeadraceError as error:
        return {"not gathered": error.as_dict()}
    except Exception as error:  # a bundle without a part is better than none
        return {"not gathered": type(error).__name__}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, indent=2, default=str) + "\n"


# -- parts ----------------------------------------------------------------------------------------------------------


def versions(sources: BundleSources) -> Mapping[str, Any]:
    installed = {one.metadata["Name"]: one.version for one in metadata.distributions()}
    system = {"python": platform.python_version(), "system": platform.platform(), "cores": os.cpu_count()}
    return {"headrace": __version__, **system, "packages": dict(sorted(installed.items()))}


def settings(sources: BundleSources) -> list[Any]:
    return [
        {"name": one.name, "value": MASK if one.secret and one.value else str(one.value), "origin": one.origin}
        for one in sources.call.origins()
    ]


def doctor(sources: BundleSources) -> list[Any]:
    from headrace.control.admin.doctor import CHECKS

    return [dataclasses.asdict(one) for check in CHECKS for one in check(sources.call.settings())]


def status(sources: BundleSources) -> Mapping[str, Any]:
    """The server's status document, without the values that its errors quote."""
    from headrace.cli.commands.status import fetch_status
    from headrace.control.admin.discovery import get_server

    server = get_server(sources.data)
    document = fetch_status(sources.call, server)
    for one in (*document["queries"], *document["views"]):
        if one["failure"]:
            one["failure"]["what"] = redact_values(one["failure"]["what"], sources.names)
    return {"pid": server.pid, "since": server.since, "address": server.address, **document}


def statements(sources: BundleSources) -> list[Any]:
    from headrace.control.statements.journal import read_journal

    return [
        {"number": one.number, "text": one.text, "properties": redact_properties(one.properties), "at": one.at}
        for one in read_journal(sources.log)[0]
        if one.app is None
    ]


def plans(sources: BundleSources) -> str:
    """The plans of the server's queries, as `headrace explain` prints them."""
    from headrace.engine.planning.mode import choose_execution_on
    from headrace.plan.explain import tree

    parts: list[str] = []
    for target in sources.targets:
        query = target.query
        choice = choose_execution_on(sources.log, query, sources.call.settings()).lines()
        parts.append("\n".join([f"-- {query.id}", *(f"--   {line}" for line in choice), tree(query)]))
    return "\n\n".join(parts) + "\n"


def checkpoints(sources: BundleSources) -> list[Any]:
    from headrace.control.admin.checkpoints import describe_checkpoints

    return [dataclasses.asdict(one) for one in describe_checkpoints(sources.data / "checkpoints")]


def topics(sources: BundleSources) -> list[Any]:
    """Sizes and options of the topics, and nothing of their records."""
    log = sources.log
    return [
        {"name": topic.name, "spec": dataclasses.asdict(topic.spec), "bounds": log.bounds(topic.name)}
        for topic in log.topics()
    ]


def machine(sources: BundleSources) -> Mapping[str, Any]:
    sizes = {path.name: _size(path) for path in sorted(sources.data.iterdir())}
    usage = shutil.disk_usage(sources.data)._asdict()
    memory = Path("/proc/meminfo").read_text().splitlines()[:5]
    return {"data": sizes, "disk": usage, "memory": memory, "load": os.getloadavg(), "processes": _processes()}


def _size(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else [path]
    total = 0
    for file in files:
        with suppress(OSError):  # files in use may disappear
            total += file.stat().st_size if file.is_file() else 0
    return total


def _processes() -> list[dict[str, Any]]:
    """The processes of headrace and of Spark, by name only: a command line may contain secrets."""
    processes: list[dict[str, Any]] = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            fields = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines() if ":" in line)
            if fields["Name"].strip().startswith(("python", "java", "headrace")):
                field_names = ("Name", "Pid", "PPid", "VmRSS", "VmPeak", "Threads")
                processes.append({name: fields.get(name, "").strip() for name in field_names})
    return processes


def log_tail(sources: BundleSources) -> str:
    lines = deque(read_log_lines(sources.data / "logs" / "headrace.log"), sources.lines)
    return "".join(json.dumps(_plain(line, sources.names)) + "\n" for line in lines)


def _plain(line: dict[str, Any], names: set[str]) -> dict[str, Any]:
    """A log line without values of records: of an unexpected error, only its code and location remain."""
    reduced = {name: line[name] for name in ("time", "level", "logger", "pid") if name in line}
    reduced["message"] = redact_values(str(line.get("message", "")), names)
    if isinstance(error := line.get("error"), dict):
        reduced["error"] = {"code": error.get("code"), "where": error.get("where")}
        if "trace" not in error:
            reduced["error"]["what"] = redact_values(str(error.get("what")), names)
    return reduced


PARTS: Mapping[str, Callable[[BundleSources], Any]] = {
    "versions.json": versions,
    "settings.json": settings,
    "doctor.json": doctor,
    "status.json": status,
    "statements.json": statements,
    "plans.txt": plans,
    "checkpoints.json": checkpoints,
    "topics.json": topics,
    "machine.json": machine,
    "headrace.log": log_tail,
}
