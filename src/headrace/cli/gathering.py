"""What a support bundle is made of: each part is a function, and one that fails says so in its place."""

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
from headrace.cli.call import Call
from headrace.cli.logs import written
from headrace.cli.masking import MASK, mask_of, masked_properties, without_values
from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from headrace.contracts import Log
    from headrace.control.subjects import Subject

_README = """This was gathered by `headrace support-bundle`. It has no records and no secrets: what
stands in quotes in messages of the log, and is no name that is known, was taken out. Statements are
as they were given, but for passwords. What Spark said is not here, since it may show records: it is
in logs/spark.log of the data folder.
"""


@dataclass
class Gathering:
    """One call's. The log is opened late: a bundle is wanted most when something does not work."""

    call: Call
    lines: int
    closing: ExitStack

    @cached_property
    def log(self) -> Log:
        return self.closing.enter_context(self.call.log())

    @property
    def data(self) -> Path:
        return self.call.settings().data

    @cached_property
    def subjects(self) -> list[Subject]:
        from headrace.control.subjects import of_server

        return of_server(self.log, self.data)

    @cached_property
    def names(self) -> set[str]:
        """That may stand in messages."""
        found = {origin.name for origin in self.call.origins()}
        with suppress(HeadraceError):
            found |= {topic.name for topic in self.log.topics()}
            for subject in self.subjects:
                sink = subject.query.sink
                found |= {subject.query.id, sink.name, *(field.name for field in sink.relation.columns)}
        return found


def gathered(call: Call, lines: int) -> Iterator[tuple[str, str]]:
    """Names of files, and what stands in them."""
    mask = mask_of(call.origins(), call.settings().data)
    yield "README.txt", _README
    with ExitStack() as closing:
        gathering = Gathering(call, lines, closing)
        for name, part in PARTS.items():
            yield name, mask.text(_text(_tried(part, gathering)))


def _tried(part: Callable[[Gathering], Any], gathering: Gathering) -> Any:
    try:
        return part(gathering)
    except HeadraceError as error:
        return {"not gathered": error.as_dict()}
    except Exception as error:  # a bundle without a part is better than none
        return {"not gathered": type(error).__name__}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, indent=2, default=str) + "\n"


# -- parts ----------------------------------------------------------------------------------------------------------


def versions(gathering: Gathering) -> Mapping[str, Any]:
    installed = {one.metadata["Name"]: one.version for one in metadata.distributions()}
    system = {"python": platform.python_version(), "system": platform.platform(), "cores": os.cpu_count()}
    return {"headrace": __version__, **system, "packages": dict(sorted(installed.items()))}


def settings(gathering: Gathering) -> list[Any]:
    return [
        {"name": one.name, "value": MASK if one.secret and one.value else str(one.value), "origin": one.origin}
        for one in gathering.call.origins()
    ]


def doctor(gathering: Gathering) -> list[Any]:
    from headrace.control.checks import CHECKS

    return [dataclasses.asdict(one) for check in CHECKS for one in check(gathering.call.settings())]


def status(gathering: Gathering) -> Mapping[str, Any]:
    """What the server says of itself, without what its errors quote."""
    from headrace.cli.status import asked
    from headrace.control.presence import server_of

    there = server_of(gathering.data)
    told = asked(gathering.call, there)
    for one in (*told["queries"], *told["views"]):
        if one["failure"]:
            one["failure"]["what"] = without_values(one["failure"]["what"], gathering.names)
    return {"pid": there.pid, "since": there.since, "address": there.address, **told}


def statements(gathering: Gathering) -> list[Any]:
    from headrace.control.journal import journalled

    return [
        {"number": one.number, "text": one.text, "properties": masked_properties(one.properties), "at": one.at}
        for one in journalled(gathering.log)[0]
        if one.app is None
    ]


def plans(gathering: Gathering) -> str:
    """Of the server's queries, as `headrace explain` shows them."""
    from headrace.engine.outlook import outlook_on
    from headrace.plan.explain import tree

    parts: list[str] = []
    for subject in gathering.subjects:
        query = subject.query
        told = outlook_on(gathering.log, query, gathering.call.settings()).lines()
        parts.append("\n".join([f"-- {query.id}", *(f"--   {line}" for line in told), tree(query)]))
    return "\n\n".join(parts) + "\n"


def checkpoints(gathering: Gathering) -> list[Any]:
    from headrace.control.remains import remains

    return [dataclasses.asdict(one) for one in remains(gathering.data / "checkpoints")]


def topics(gathering: Gathering) -> list[Any]:
    """How large they are and what they were asked to be, and nothing of what is in them."""
    log = gathering.log
    return [
        {"name": topic.name, "spec": dataclasses.asdict(topic.spec), "bounds": log.bounds(topic.name)}
        for topic in log.topics()
    ]


def machine(gathering: Gathering) -> Mapping[str, Any]:
    sizes = {path.name: _size(path) for path in sorted(gathering.data.iterdir())}
    usage = shutil.disk_usage(gathering.data)._asdict()
    memory = Path("/proc/meminfo").read_text().splitlines()[:5]
    return {"data": sizes, "disk": usage, "memory": memory, "load": os.getloadavg(), "processes": _processes()}


def _size(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else [path]
    total = 0
    for file in files:
        with suppress(OSError):  # those in use come and go
            total += file.stat().st_size if file.is_file() else 0
    return total


def _processes() -> list[dict[str, Any]]:
    """Those of headrace and of Spark, by their names: a command line may hold anything."""
    found: list[dict[str, Any]] = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            facts = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines() if ":" in line)
            if facts["Name"].strip().startswith(("python", "java", "headrace")):
                wanted = ("Name", "Pid", "PPid", "VmRSS", "VmPeak", "Threads")
                found.append({name: facts.get(name, "").strip() for name in wanted})
    return found


def last_logs(gathering: Gathering) -> str:
    lines = deque(written(gathering.data / "logs" / "headrace.log"), gathering.lines)
    return "".join(json.dumps(_plain(line, gathering.names)) + "\n" for line in lines)


def _plain(line: dict[str, Any], names: set[str]) -> dict[str, Any]:
    """A line without what may be a record's: of errors that are not ours only the kind."""
    kept = {name: line[name] for name in ("time", "level", "logger", "pid") if name in line}
    kept["message"] = without_values(str(line.get("message", "")), names)
    if isinstance(error := line.get("error"), dict):
        kept["error"] = {"code": error.get("code"), "where": error.get("where")}
        if "trace" not in error:
            kept["error"]["what"] = without_values(str(error.get("what")), names)
    return kept


PARTS: Mapping[str, Callable[[Gathering], Any]] = {
    "versions.json": versions,
    "settings.json": settings,
    "doctor.json": doctor,
    "status.json": status,
    "statements.json": statements,
    "plans.txt": plans,
    "checkpoints.json": checkpoints,
    "topics.json": topics,
    "machine.json": machine,
    "headrace.log": last_logs,
}
