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
from headrace.private_folder import make_private

VERSION = 4
_STATE_FILE = re.compile(r"\.?(\d+)[._]")
"""Changes and snapshots of a store, and their checksums: 8.changelog, .8.zip.crc. Batch 7 writes version 8."""
_SCHEMAS = re.compile(r'"file:[^"]*(/_stateSchema/[^"]*)"')
_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Manifest:
    """What must not change while a query resumes."""

    query: str
    execution_mode: str
    key_groups: int
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
            raise self._damaged("the manifest is damaged", path) from error
        if not known:
            raise StateUnreadable(
                f"the checkpoint has version {document['version']}, but this program supports {VERSION}",
                where=str(self.folder),
                fix=f"run the version that wrote it, or {_START_OVER}",
            )
        return _parse(document)

    @property
    def execution_mode(self) -> str | None:
        """The execution mode that the query has used so far; None if it has not started yet."""
        return None if (stored := self.manifest) is None else stored.execution_mode

    def open(
        self,
        query: Query,
        execution_mode: str,
        key_groups: int,
        topics: tuple[str, ...],
        start: Mapping[str, Any] | None = None,
    ) -> Manifest:
        """Returns the manifest to run with: a new one, or the stored one if the plan fits it."""
        stored, code = self.manifest, user_code_versions(query)
        if stored is None:
            shape, begin = state_shape(query), None if start is None else dict(start)
            new = Manifest(
                query.id, execution_mode, key_groups, topics, shape, query.text, _new_run_id(query), begin, code
            )
            self._write(new)
            return new
        self._check(stored, query, execution_mode, topics)
        since = stored.since if (stored.text, stored.code) == (query.text, code) else self.last_started() + 1
        current = replace(stored, query=query.id, text=query.text, code=code, since=since)
        if current != stored:
            self._write(current)
        return current

    def _check(self, stored: Manifest, query: Query, execution_mode: str, topics: tuple[str, ...]) -> None:
        for what, before, now in (
            ("execution mode", stored.execution_mode, execution_mode),
            ("topics", sorted(stored.topics), sorted(topics)),
            *_changed_steps(stored.state, state_shape(query)),
        ):
            if before != now:
                raise PlanChanged(
                    f"query {query.id} has changed: its {what} was {before or 'absent'}, now it is {now or 'absent'}",
                    where=str(self.folder),
                    fix=f"give the statement another name, or {_START_OVER}",
                )
        self._check_code(stored.code, query)

    def check_code(self, query: Query) -> None:
        """Raises PlanChanged if the state was produced by another version of the user's functions and operators."""
        if (stored := self.manifest) is not None:
            self._check_code(stored.code, query)

    def _check_code(self, before: dict[str, str], query: Query) -> None:
        stateful = stateful_code_versions(query)
        for name, version in user_code_versions(query).items():
            was = before.get(name, version)
            if was != version and name in stateful:
                raise PlanChanged(
                    f"query {query.id} has changed: other code of {name} created its state",
                    where=str(self.folder),
                    fix=f'if the new code can use the state, declare it there with version = "{was}"; otherwise '
                    f"give the statement another name, or {_START_OVER}",
                )
            if was != version:
                _logger.warning("query %s resumes with changed code of %s", query.id, name)

    def _write(self, manifest: Manifest) -> None:
        make_private(self.folder)
        _replace(self.folder / "manifest.json", json.dumps(_document(manifest), indent=2))

    def read_note(self, name: str) -> Any:
        """A JSON document beside the manifest; None if there is none. Raises StateUnreadable if it is damaged."""
        path = self.folder / name
        try:
            return json.loads(path.read_text()) if path.exists() else None
        except ValueError as error:
            raise self.unreadable_note(name) from error

    def unreadable_note(self, name: str) -> StateUnreadable:
        return self._damaged(f"its file {name} is damaged", self.folder / name)

    def write_note(self, name: str, document: Any) -> None:
        """Stores a JSON document beside the manifest; None removes it."""
        path = self.folder / name
        path.unlink(missing_ok=True) if document is None else _replace(path, json.dumps(document))

    def position(self, batch: int | None = None) -> Any:
        """The source's offset after the last committed batch, or after a given one; None before the first."""
        number = self.last_committed() if batch is None else batch
        if number < 0:
            return None
        return self._read_entry("offsets", number)

    def check_readable(self) -> None:
        """Raises StateUnreadable if a file that Spark resumes from is missing, empty or damaged."""
        committed, started = self.last_committed(), self.last_started()
        for number in {committed, started} - {-1}:
            self._read_entry("offsets", number)
        if committed >= 0:
            self._read_entry("commits", committed)
        metadata = self.spark / "metadata"
        if metadata.exists():
            try:
                json.loads(metadata.read_text())["id"]
            except _UNREADABLE as error:
                raise self._damaged("the metadata of its checkpoint is damaged", metadata) from error

    def _read_entry(self, kind: str, batch: int) -> Any:
        """The last line of a batch's entry in one of Spark's logs: lines of JSON after one with a version."""
        path = self.spark / kind / str(batch)
        try:
            version, *lines = path.read_text().splitlines()
            if not version.startswith("v"):
                raise ValueError(version)
            return json.loads(lines[-1])
        except _UNREADABLE as error:
            what = "missing" if isinstance(error, FileNotFoundError) else "damaged"
            raise self._damaged(f"the {kind} of batch {batch} are {what}", path) from error

    def _damaged(self, what: str, path: Path) -> StateUnreadable:
        return StateUnreadable(
            f"query {self.folder.name} cannot resume: {what}", where=str(path), fix=state_cures(self.folder)
        )

    def last_committed(self) -> int:
        """The number of the last batch that is committed; -1 before the first."""
        return self._last("commits")

    def last_started(self) -> int:
        """The number of the last batch whose offsets are stored; -1 before the first."""
        return self._last("offsets")

    def _last(self, kind: str) -> int:
        names = [path.name for path in (self.spark / kind).glob("[0-9]*")]
        return max((int(name) for name in names if name.isdigit()), default=-1)

    def discard_batch(self, batch: int) -> None:
        """Removes a batch as if it had not started. It must be the last one, and not committed."""
        if batch == 0:  # Spark starts no new query if its state exists already
            shutil.rmtree(self.spark / "state", ignore_errors=True)
        self._remove_state_of(batch)
        for name in (f".{batch}.crc", str(batch)):  # the checksum first: without it the file is still valid
            (self.spark / "offsets" / name).unlink(missing_ok=True)

    def shorten_batch(self, batch: int, position: Any) -> None:
        """Lets a batch end at an earlier position. It must be the last one, and not committed; no query may run."""
        self._remove_state_of(batch)
        self.write_position(batch, position)

    def cut_back(self, batch: int) -> None:
        """Removes all batches after one (-1: all of them), and their state. For a copy, which no query runs."""
        if batch < 0:
            shutil.rmtree(self.spark, ignore_errors=True)
            return
        self._remove_state_of(batch + 1)
        for path in [*(self.spark / "offsets").iterdir(), *(self.spark / "commits").glob("*")]:
            number = path.name.removeprefix(".").removesuffix(".crc")
            if not number.isdigit() or int(number) > batch:
                path.unlink()

    def _remove_state_of(self, batch: int) -> None:
        """Removes what the tasks of a batch have stored, before the batch is changed.

        The tasks that come to their end store the state after the batch, and Spark may write a snapshot of it, although
        the batch fails. The next attempt reads other records under the same number and replaces the changes, but not
        that snapshot, from which a later start would resume.
        """
        for path in list((self.spark / "state").glob("[0-9]*/[0-9]*/**/*")):
            version = _STATE_FILE.match(path.name)
            if version is not None and int(version[1]) > batch:
                path.unlink(missing_ok=True)

    def write_position(self, batch: int, position: Any) -> None:
        """Changes the source's offset at the end of a batch. No query may run."""
        path = self.spark / "offsets" / str(batch)
        lines = [*path.read_text().splitlines()[:-1], json.dumps(position)]
        path.with_name(f".{batch}.crc").unlink(missing_ok=True)  # first: without it the file is still valid
        _replace(path, "\n".join(lines))

    def move_start(self, position: Any) -> None:
        """Lets the batch after the last committed one begin at a later position. No query may run."""
        committed, started = self.last_committed(), self.last_started()
        if started > committed:
            self.discard_batch(started)
        if committed >= 0:
            self.write_position(committed, {**self.position(committed), **position})
        elif (manifest := self.manifest) is not None:
            shutil.rmtree(self.spark / "sources", ignore_errors=True)  # Kafka's first offsets
            self._write(replace(manifest, start={**(manifest.start or {}), **position}))

    def repair_paths(self) -> None:
        """Repairs paths after the folder was moved or renamed: Spark stores absolute paths of its state's schemas."""
        for path in (self.spark / "state").glob("*/_metadata/v2/[0-9]*"):
            text = path.read_text()
            if (repaired := _with_schemas_in(path.parents[2], text)) != text:
                new = path.with_name(f".{path.name}.new")
                new.write_text(repaired)
                path.with_name(f".{path.name}.crc").unlink(missing_ok=True)  # first: without it the file is still valid
                new.replace(path)

    def remove(self, forget: Callable[[str], object]) -> None:
        """Removes the checkpoint; `forget` gets the run's id, to remove what belongs to it elsewhere.

        The folder is renamed first, so that no query resumes from half of it; after a crash `finish_removals` completes
        the removal.
        """
        if self.folder.exists():
            renamed = self.folder.with_name(f"{_REMOVED}{secrets.token_hex(4)}")
            self.folder.rename(renamed)
            _finish_removal(renamed, forget)


def _replace(path: Path, text: str) -> None:
    """Writes a file as a whole or not at all."""
    new = path.with_name(f".{path.name}.new")
    with new.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)


# The stored names of fields whose names have changed.
_STORED_NAMES = {"execution_mode": "way", "key_groups": "pages"}


def _document(manifest: Manifest) -> dict[str, Any]:
    """The manifest as it is stored."""
    return {_STORED_NAMES.get(name, name): value for name, value in asdict(manifest).items()}


def _parse(document: Mapping[str, Any]) -> Manifest:
    names = {stored: name for name, stored in _STORED_NAMES.items()}
    values = {names.get(stored, stored): value for stored, value in document.items()}
    return Manifest(**{**values, "topics": tuple(values["topics"])})


def _with_schemas_in(folder: Path, metadata: str) -> str:
    """Spark's metadata file, with its schemas in this folder."""
    return _SCHEMAS.sub(lambda path: json.dumps(f"file:{folder.absolute()}{path[1]}", ensure_ascii=False), metadata)


def list_checkpoints(folder: Path) -> list[Checkpoint]:
    """The checkpoints directly in a folder, by name."""
    folders = (path.parent for path in folder.glob("*/manifest.json"))
    return [Checkpoint(path) for path in sorted(folders) if not path.name.startswith(_REMOVED)]


def run_ids(folder: Path) -> set[str]:
    """The run ids of all checkpoints, of all programs in a folder."""
    manifests = folder.glob("*/*/manifest.json")
    return {run for path in manifests if not path.parent.name.startswith(_REMOVED) and (run := _run_id_in(path.parent))}


def finish_removals(folder: Path, forget: Callable[[str], object]) -> None:
    """Finishes interrupted removals."""
    for renamed in folder.glob(f"{_REMOVED}*"):
        _finish_removal(renamed, forget)


def _finish_removal(folder: Path, forget: Callable[[str], object]) -> None:
    if (run := _run_id_in(folder)) is not None:
        forget(run)
    shutil.rmtree(folder, ignore_errors=True)


def _run_id_in(folder: Path) -> str | None:
    with suppress(OSError, ValueError, KeyError, TypeError):  # the manifest is damaged, or already removed
        return json.loads((folder / "manifest.json").read_text())["run"]
    return None


_REMOVED = ".removed-"


def writer_name(run: str) -> str:
    """The name of the writer of a query's batches: opening it fences any earlier one."""
    return f"query.{run}"


def ticks_topic(run: str) -> str:
    """The topic of the ticks of one run of a query."""
    return f"__ticks.{run}"


def cuts_topic(run: str) -> str:
    """The topic in which one run of a query records how its input was cut into batches, on Kafka."""
    return f"__cuts.{run}"


def _new_run_id(query: Query) -> str:
    """A run id that is valid in a topic's name, which is shorter than an id may be and has no special characters."""
    return f"{re.sub(r'[^A-Za-z0-9._-]', '-', query.id)[:150]}.{secrets.token_hex(4)}"


def state_cures(folder: Path) -> str:
    """What a person can do about a checkpoint that is damaged."""
    recover = f"headrace state recover {folder.parent.name}/{folder.name}"
    return f"put back a copy of the checkpoint; or empty the output and start over: `{recover} --reprocess`"


_UNREADABLE = (OSError, ValueError, KeyError, TypeError, IndexError)
"""What is raised for a file that is missing, emptied or overwritten."""
_START_OVER = "remove its state with `headrace state remove`; the query then starts from scratch"


def _changed_steps(before: dict[str, str], now: dict[str, str]) -> list[tuple[str, str | None, str | None]]:
    names = list(dict.fromkeys([*before, *now]))
    return [(f"step {name}", before.get(name), now.get(name)) for name in names]
