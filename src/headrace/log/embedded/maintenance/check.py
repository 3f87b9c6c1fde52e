"""Integrity check: reads a whole data folder and lists everything that is wrong, also while it is in use.

Damage is what loses or falsifies rows. Unreferenced files are reported too, but are not damage: a killed process leaves
them behind, and maintenance removes them.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from headrace.errors import DamagedExtent, HeadraceError, NotADataFolder
from headrace.log.embedded.ipc.commit_signal import durable_sequence
from headrace.log.embedded.ipc.owners import is_alive
from headrace.log.embedded.maintenance import consistency
from headrace.log.embedded.maintenance.rewrite import IMPLICIT
from headrace.log.embedded.storage.damage import missing_database
from headrace.log.embedded.storage.extent_reader import COLUMNS, ExtentRow
from headrace.log.embedded.storage.extents import ARCHIVE, GONE, LOST, ExtentDecoder

Progress = Callable[[int, int], None]
_PAGE = 64
_UNREADABLE = (HeadraceError, ValueError, TypeError, KeyError, AttributeError)
"""What is raised for a value of the database that has another type, or another meaning, than was written."""
_MOST_FROM_SQLITE = 20


@dataclass(frozen=True)
class CheckFinding:
    kind: str
    what: str
    where: str
    damage: bool = True
    extent: int | None = None
    """The id of the damaged extent."""


@dataclass
class CheckResult:
    """What was read, and the findings."""

    extents: int = 0
    rows: int = 0
    bytes: int = 0
    findings: list[CheckFinding] = field(default_factory=list)

    @property
    def damage(self) -> list[CheckFinding]:
        return [finding for finding in self.findings if finding.damage]


def check(folder: Path, progress: Progress | None = None) -> CheckResult:
    """Check a data folder without changing it."""
    missing = missing_database(folder)
    if missing is None and not (folder / "log.db").is_file():
        raise NotADataFolder(f'folder "{folder}" does not contain a log', fix="pass the data folder with --data")
    result = CheckResult()
    if missing is not None:
        result.findings.append(CheckFinding("database", missing, str(folder / "log.db")))
        return result
    with contextlib.ExitStack() as stack:
        read = folder / "groups.db"
        try:
            groups = _committed(folder, stack, result)
            durable = durable_sequence(folder / "bell")  # before the log, which only grows
            read = folder / "log.db"
            log = _open(read, stack, result)
            result.findings += _lost(log, durable, folder)
            result.findings += [CheckFinding(*problem) for problem in consistency.find_inconsistencies(log, groups)]
            _Contents(folder, log, result, progress or (lambda done, total: None)).read()
            result.findings += _orphans(folder, log)
        except sqlite3.Error as error:
            result.findings.append(CheckFinding("database", f"SQLite reports: {error}", str(read)))
        except _UNREADABLE as error:
            result.findings.append(CheckFinding("database", f"a value cannot be read: {error}", str(read)))
    return result


def _lost(log: sqlite3.Connection, durable: int, folder: Path) -> Iterator[CheckFinding]:
    ((last_sequence,),) = log.execute("SELECT value FROM meta WHERE name = 'sequence'")
    if durable > last_sequence:
        what = f"the log ends at sequence {last_sequence}, but rows up to {durable} were stored"
        yield CheckFinding("sequences", what, str(folder / "log.db"))


def _open(path: Path, stack: contextlib.ExitStack, result: CheckResult) -> sqlite3.Connection:
    connection = stack.enter_context(contextlib.closing(sqlite3.connect(path, timeout=30, isolation_level=None)))
    connection.execute("PRAGMA query_only = ON")
    for (text,) in connection.execute(f"PRAGMA integrity_check({_MOST_FROM_SQLITE})"):
        if text != "ok":
            result.findings.append(CheckFinding("database", f"SQLite reports: {text}", str(path)))
    return connection


def _committed(folder: Path, stack: contextlib.ExitStack, result: CheckResult) -> dict[tuple[str, int, int], int]:
    """Offsets of all groups. Read before the log, whose end offsets only grow."""
    if not (folder / "groups.db").is_file():
        return {}
    groups = _open(folder / "groups.db", stack, result)
    rows = groups.execute("SELECT grp, topic_id, partition, offset FROM offsets").fetchall()
    return {(group, topic_id, partition): offset for group, topic_id, partition, offset in rows}


class _Contents:
    """Reads extents in batches, so that no transaction stays open meanwhile."""

    def __init__(self, folder: Path, log: sqlite3.Connection, result: CheckResult, progress: Progress) -> None:
        self._folder = folder
        self._log = log
        self._result = result
        self._progress = progress
        self._decoder = ExtentDecoder(folder / "extents", folder / "archive", keep=1)
        self._names: dict[int, str] = dict(log.execute("SELECT id, name FROM topics").fetchall())

    def read(self) -> None:
        ((total,),) = self._log.execute("SELECT coalesce(sum(bytes), 0) FROM extents")
        for extent, topic, times, size in self._extents():
            where = f"{self._names.get(topic, f'topic id {topic}')}/{extent.partition}"
            where += f", offsets {extent.base_offset} to {extent.last_offset}"
            where += f", file {extent.file}" if extent.file else ""
            if extent.kind in GONE:
                what = "the rows were lost to damage; readers " + (
                    "stop" if extent.kind == LOST else "go on after them"
                )
                self._result.findings.append(CheckFinding("lost", what, where, damage=False))
            else:
                problems = self._problems(extent, times, size)
                self._result.findings += [CheckFinding(k, what, where, extent=extent.id) for k, what in problems]
            self._result.extents += 1
            self._result.rows += extent.rows
            self._result.bytes += size
            self._progress(self._result.bytes, total)

    def _extents(self) -> Iterator[tuple[ExtentRow, int, tuple[int, int], int]]:
        last = -1
        while True:
            rows = self._log.execute(
                f"SELECT {COLUMNS}, topic, min_time, max_time, bytes FROM extents "
                f"WHERE id > ? ORDER BY id LIMIT {_PAGE}",
                (last,),
            ).fetchall()
            if not rows:
                return
            for *columns, topic, earliest, latest, size in rows:
                yield ExtentRow(*columns), topic, (earliest, latest), size
            last = rows[-1][0]

    def _problems(self, extent: ExtentRow, times: tuple[int, int], size: int) -> Iterator[tuple[str, str]]:
        try:
            stored = self._size(extent)
            if stored != size:
                yield "size", f"{stored} bytes are stored, not {size}"
            batches = self._decoder.decode(extent.kind, extent.payload, extent.file, extent.checksum, "")
        except FileNotFoundError:
            if self._exists(extent):
                yield "missing-file", "the file is missing"
        except (DamagedExtent, OSError, pa.ArrowException) as error:
            yield "checksum", error.what if isinstance(error, DamagedExtent) else f"it cannot be read: {error}"
        else:
            try:
                yield from _row_problems(extent, times, pa.Table.from_batches(batches) if batches else None)
            except (pa.ArrowException, *_UNREADABLE) as error:
                yield "contents", f"the rows cannot be read: {error}"

    def _size(self, extent: ExtentRow) -> int:
        if extent.file is None:
            return len(extent.payload or b"")
        return (self._folder / ("archive" if extent.kind == ARCHIVE else "extents") / extent.file).stat().st_size

    def _exists(self, extent: ExtentRow) -> bool:
        """Whether the commit log still references it: maintenance may have removed it after it was listed."""
        return self._log.execute("SELECT 1 FROM extents WHERE id = ?", (extent.id,)).fetchone() is not None


def _row_problems(extent: ExtentRow, times: tuple[int, int], rows: pa.Table | None) -> Iterator[tuple[str, str]]:
    count = rows.num_rows if rows is not None else 0
    if count != extent.rows:
        yield "count", f"{count} rows are stored, not {extent.rows}"
    if rows is None or not count:
        return
    stamps = rows.column("$timestamp").to_numpy()
    if (int(stamps.min()), int(stamps.max())) != times:
        yield "times", "the rows' times are not those that the commit log names"
    if extent.merged == IMPLICIT:
        return
    for name, base, last in (
        ("$offset", extent.base_offset, extent.last_offset),
        ("$sequence", extent.base_sequence, extent.last_sequence),
    ):
        numbers = rows.column(name).to_numpy()
        if numbers[0] < base or numbers[-1] > last or (np.diff(numbers) <= 0).any():
            yield f"{name[1:]}s", f"the rows' {name[1:]}s do not rise from {base} to {last}"


def _orphans(folder: Path, log: sqlite3.Connection) -> Iterator[CheckFinding]:
    # Listed before the commit log is read, so that a file committed in between is known.
    paths = [path for name in ("extents", "archive") for path in sorted((folder / name).glob("*"))]
    known = {file for (file,) in log.execute("SELECT file FROM extents WHERE file IS NOT NULL")}
    for path in paths:
        owner = path.name.partition("-")[0]
        if path.name not in known and not is_alive(folder / "owners", owner) and path.exists():
            yield CheckFinding(
                "orphan", "nothing refers to the file; maintenance will remove it", str(path), damage=False
            )
