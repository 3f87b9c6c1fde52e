"""The checkpoint of a query: Spark's checkpoint, and a manifest that says which plan it belongs to.

    <folder>/manifest.json    written once, before the first batch
    <folder>/spark/           Spark's: offsets, commits, and the state

A changed plan may resume if its state has the same shape. Otherwise it is refused, with the difference: state that is
read by another plan silently gives wrong results. The same holds for Python code that produced state; other code may
change, and the change is logged.
"""

from __future__ import annotations

import json
import logging
import os
import re
import secrets
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from headrace.errors import PlanChanged, StateUnreadable
from headrace.plan.analysis.state_shape import state_shape, stateful_code_versions, user_code_versions
from headrace.plan.nodes import Query

VERSION = 4
_SCHEMAS = re.compile(r'"file:[^"]*(/_stateSchema/[^"]*)"')
_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Manifest:
    """What must not change while a query resumes."""

    query: str
    way: str
    pages: int
    topics: tuple[str, ...]
    state: dict[str, str]
    text: str
    run: str
    """The id of this run of the query, which names its writer and its ticks. A query that starts over gets another."""
    start: dict[str, Any] | None = None
    """The position after which it began to read; None is the beginning."""
    code: dict[str, str] = field(default_factory=dict)
    """The user's functions and operators, each with its version."""
    since: int = 0
    """The first batch of this statement: earlier ones ran another statement, with state of the same shape."""
    version: int = VERSION


class Checkpoint:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.spark = folder / "spark"

    @property
    def manifest(self) -> Manifest | None:
        """The stored manifest; None if the query has not started yet."""
        path = self.folder / "manifest.json"
        if not path.exists():
            return None
        try:
            document = json.loads(path.read_text())
            known = document["version"] == VERSION
        except (ValueError, KeyError, TypeError) as error:
            raise StateUnreadable("the manifest is damaged", where=str(path), fix=_ANEW) from error
        if not known:
            raise StateUnreadable(
                f"the checkpoint has version {document['version']}, but this program supports {VERSION}",
                where=str(self.folder),
                fix=f"run the version that wrote it, or {_ANEW}",
            )
        return Manifest(**{**document, "topics": tuple(document["topics"])})

    def way(self) -> str | None:
        """The execution mode that the query has used so far; None if it has not started yet."""
        return None if (there := self.manifest) is None else there.way

    def opened(
        self, query: Query, way: str, pages: int, topics: tuple[str, ...], start: Mapping[str, Any] | None = None
    ) -> Manifest:
        """Returns the manifest to run with: a new one, or the stored one if the plan fits it."""
        there = self.manifest
        if there is None:
            shape, begin = state_shape(query), None if start is None else dict(start)
            there = Manifest(
                query.id, way, pages, topics, shape, query.text, _life_of(query), begin, user_code_versions(query)
            )
            self._write(there)
            return there
        self._check(there, query, way, topics)
        code = user_code_versions(query)
        since = there.since if (there.text, there.code) == (query.text, code) else self.begun() + 1
        now = replace(there, query=query.id, text=query.text, code=code, since=since)
        if now != there:
            self._write(now)
        return now

    def _check(self, there: Manifest, query: Query, way: str, topics: tuple[str, ...]) -> None:
        for what, before, now in (
            ("execution mode", there.way, way),
            ("topics", sorted(there.topics), sorted(topics)),
            *_steps(there.state, state_shape(query)),
        ):
            if before != now:
                raise PlanChanged(
                    f"query {query.id} has changed: its {what} was {before or 'absent'}, now it is {now or 'absent'}",
                    where=str(self.folder),
                    fix=f"give the statement another name, or {_ANEW}",
                )
        self._check_code(there.code, query)

    def check_code(self, query: Query) -> None:
        """Raises PlanChanged if the state was produced by another version of the user's functions and operators."""
        if (there := self.manifest) is not None:
            self._check_code(there.code, query)

    def _check_code(self, before: dict[str, str], query: Query) -> None:
        kept = stateful_code_versions(query)
        for name, version in user_code_versions(query).items():
            was = before.get(name, version)
            if was != version and name in kept:
                raise PlanChanged(
                    f"query {query.id} has changed: other code of {name} created its state",
                    where=str(self.folder),
                    fix=f'if the new code can use the state, declare it there with version = "{was}"; otherwise '
                    f"give the statement another name, or {_ANEW}",
                )
            if was != version:
                _logger.warning("query %s resumes with changed code of %s", query.id, name)

    def _write(self, manifest: Manifest) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / "manifest.json"
        new = path.with_suffix(".new")
        with new.open("w") as file:
            json.dump(asdict(manifest), file, indent=2)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)

    def position(self, batch: int | None = None) -> Any:
        """The source's offset after the last committed batch, or after a given one; None before the first."""
        done = self.done() if batch is None else batch
        if done < 0:
            return None
        lines = (self.spark / "offsets" / str(done)).read_text().splitlines()
        return json.loads(lines[-1])

    def done(self) -> int:
        """The number of the last batch that is committed; -1 before the first."""
        return self._last("commits")

    def begun(self) -> int:
        """The number of the last batch whose offsets are stored; -1 before the first."""
        return self._last("offsets")

    def _last(self, kind: str) -> int:
        names = [path.name for path in (self.spark / kind).glob("[0-9]*")]
        return max((int(name) for name in names if name.isdigit()), default=-1)

    def forget(self, batch: int) -> None:
        """Removes a batch as if it had not started. It must be the last one, and not committed."""
        if batch == 0:  # Spark starts no new query if its state exists already
            shutil.rmtree(self.spark / "state", ignore_errors=True)
        for name in (f".{batch}.crc", str(batch)):  # the checksum first: without it the file is still valid
            (self.spark / "offsets" / name).unlink(missing_ok=True)

    def settle(self) -> None:
        """Repairs paths after the folder was moved or renamed: Spark stores absolute paths of its state's schemas."""
        for note in (self.spark / "state").glob("*/_metadata/v2/[0-9]*"):
            text = note.read_text()
            if (now := _placed(text, note.parents[2])) != text:
                new = note.with_name(f".{note.name}.new")
                new.write_text(now)
                note.with_name(f".{note.name}.crc").unlink(missing_ok=True)  # first: without it the file is still valid
                new.replace(note)

    def remove(self, forget: Callable[[str], object]) -> None:
        """Removes the checkpoint; `forget` gets the run's id, to remove what belongs to it elsewhere.

        The folder is renamed first, so that no query resumes from half of it; after a crash `finish_removals` completes
        the removal.
        """
        if self.folder.exists():
            gone = self.folder.with_name(f"{_REMOVED}{secrets.token_hex(4)}")
            self.folder.rename(gone)
            _finish(gone, forget)


def _placed(note: str, folder: Path) -> str:
    """Spark's metadata file, with its schemas in this folder."""
    return _SCHEMAS.sub(lambda found: json.dumps(f"file:{folder.absolute()}{found[1]}", ensure_ascii=False), note)


def list_checkpoints(folder: Path) -> list[Checkpoint]:
    """The checkpoints directly in a folder, by name."""
    found = (path.parent for path in folder.glob("*/manifest.json"))
    return [Checkpoint(path) for path in sorted(found) if not path.name.startswith(_REMOVED)]


def finish_removals(folder: Path, forget: Callable[[str], object]) -> None:
    """Finishes interrupted removals."""
    for gone in folder.glob(f"{_REMOVED}*"):
        _finish(gone, forget)


def _finish(gone: Path, forget: Callable[[str], object]) -> None:
    if (run := _life_in(gone)) is not None:
        forget(run)
    shutil.rmtree(gone, ignore_errors=True)


def _life_in(gone: Path) -> str | None:
    with suppress(OSError, ValueError, KeyError, TypeError):  # the manifest is damaged, or already removed
        return json.loads((gone / "manifest.json").read_text())["run"]
    return None


_REMOVED = ".removed-"


def ticks_topic(run: str) -> str:
    """The topic of the ticks of one run of a query."""
    return f"__ticks.{run}"


def cuts_topic(run: str) -> str:
    """The topic in which one run of a query records how its input was cut into batches, on Kafka."""
    return f"__cuts.{run}"


def _life_of(query: Query) -> str:
    """A run id that is valid in a topic's name, which is shorter than an id may be and has no special characters."""
    return f"{re.sub(r'[^A-Za-z0-9._-]', '-', query.id)[:150]}.{secrets.token_hex(4)}"


_ANEW = "remove its state with `headrace state remove`; the query then starts from scratch"


def _steps(before: dict[str, str], now: dict[str, str]) -> list[tuple[str, str | None, str | None]]:
    names = list(dict.fromkeys([*before, *now]))
    return [(f"step {name}", before.get(name), now.get(name)) for name in names]
