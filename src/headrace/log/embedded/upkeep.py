"""Upkeep: merging small extents, retention, compaction, and removing files that nobody needs any more.

Runs in the background in one of the processes at a time, and on demand. Each step is safe to repeat, to interrupt
and to run twice at once.
"""

from __future__ import annotations

import fcntl
import logging
import math
import os
import sqlite3
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.clock import millis
from headrace.log.embedded.catalog import Entry
from headrace.log.embedded.compaction import compact
from headrace.log.embedded.extents import ARCHIVE
from headrace.log.embedded.owners import is_alive
from headrace.log.embedded.rewrite import COMPACTED, EXPLICIT, Held, held, replace, rows_of

if TYPE_CHECKING:
    from headrace.log.embedded.log import EmbeddedLog

_RUN = 8  # so many neighbours of about one size are merged into one
_WAL_LIMIT = 64 << 20
_logger = logging.getLogger(__name__)


@dataclass
class Report:
    """What a round of upkeep did, in extents."""

    merged: int = 0
    expired: int = 0
    archived: int = 0
    compacted: int = 0
    purged: int = 0
    orphans: int = field(default=0)


class Upkeep:
    """The background task of one log."""

    def __init__(self, log: EmbeddedLog) -> None:
        self._log = log
        self._stop = threading.Event()
        self._every = log.settings.upkeep_every.total_seconds()
        self._thread: threading.Thread | None = None
        if self._every:
            self._thread = threading.Thread(target=self._run, name="headrace-upkeep", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(self._every):
            try:
                self.run()
            except Exception:
                _logger.exception("upkeep failed; it will be tried again")

    def run(self, *, force_compaction: bool = False, topics: list[str] | None = None) -> Report | None:
        """One round; None if another process is at it."""
        fd = os.open(self._log.folder / "upkeep.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return None
        else:
            return self._round(force_compaction, topics)
        finally:
            os.close(fd)

    def _round(self, force_compaction: bool, topics: list[str] | None) -> Report:
        report = Report()
        for name, entry in self._log.catalog.entries().items():
            if topics is not None and name not in topics:
                continue
            for partition in range(entry.topic.partitions):
                retain(self._log, entry, partition, report)
                if entry.topic.spec.compact:
                    report.compacted += compact(self._log, entry, partition, force=force_compaction)
                merge(self._log, entry, partition, report)
        purge(self._log, report)
        if self._log.store.wal_bytes() > _WAL_LIMIT:
            self._log.store.checkpoint()
        return report

    def close(self) -> None:
        self._stop.set()
        if self._thread:
            self._thread.join()


# -- retention --------------------------------------------------------------------------------------------------------


def retain(log: EmbeddedLog, entry: Entry, partition: int, report: Report) -> None:
    """Remove or archive the extents that time or size says must go, oldest first."""
    live = [item for item in held(log, entry, partition) if item.extent.kind != ARCHIVE]
    expired = live[: _count_expired(log, entry, live)]
    if not expired:
        return
    if entry.topic.spec.archive:
        for run in _chunks(expired, log.settings.file_bytes):
            rows = rows_of(log, entry, run)
            report.archived += len(run) * replace(log, entry, partition, run, rows, archive=True, why=EXPLICIT)
    else:
        truncate(log, entry, partition, expired[-1].extent.last_offset + 1)
        report.expired += len(expired)


def _count_expired(log: EmbeddedLog, entry: Entry, live: list[Held]) -> int:
    spec, count = entry.topic.spec, 0
    if spec.retention_time is not None:
        oldest = log.clock.now() - millis(spec.retention_time)
        while count < len(live) and live[count].max_time < oldest:
            count += 1
    if spec.retention_bytes is not None:
        left = sum(item.bytes for item in live[count:])
        while count < len(live) and left > spec.retention_bytes:
            left -= live[count].bytes
            count += 1
    return count


def _chunks(items: list[Held], limit: int) -> list[list[Held]]:
    chunks: list[list[Held]] = [[]]
    size = 0
    for item in items:
        if chunks[-1] and size + item.bytes > limit:
            chunks.append([])
            size = 0
        chunks[-1].append(item)
        size += item.bytes
    return chunks


def truncate(log: EmbeddedLog, entry: Entry, partition: int, before: int) -> None:
    """Remove all rows below an offset; readers who were there are told."""
    log.reader.check_offset(entry, partition, before)
    removed = log.reader.last_sequence_below(entry, partition, before)
    now = log.clock.now()

    def change(db: sqlite3.Connection) -> None:
        gone = (entry.id, partition, before)
        ((freed,),) = db.execute(
            "SELECT coalesce(sum(bytes), 0) FROM extents WHERE topic = ? AND partition = ? AND last_offset < ? "
            f"AND replaced_at IS NULL AND kind <> '{ARCHIVE}'",
            gone,
        )
        db.execute(
            "UPDATE extents SET replaced_at = ? WHERE topic = ? AND partition = ? AND last_offset < ? "
            "AND replaced_at IS NULL",
            (now, *gone),
        )
        db.execute(
            "UPDATE partitions SET start_offset = max(start_offset, ?), removed_sequence = max(removed_sequence, ?), "
            "bytes = bytes - ? WHERE topic = ? AND partition = ?",
            (before, removed, freed, entry.id, partition),
        )

    log.committer.change(change)


# -- merging ----------------------------------------------------------------------------------------------------------


def merge(log: EmbeddedLog, entry: Entry, partition: int, report: Report) -> None:
    """Join runs of small neighbours; a row is rewritten at most once per size class on its way up."""
    limit = _merge_limit(log, entry)
    extents = held(log, entry, partition)
    for size_class in range(_size_class(limit) + 1):
        for run in _runs(extents, size_class, limit):
            rows = rows_of(log, entry, run)
            report.merged += len(run) * replace(log, entry, partition, run, rows, archive=False, why=_why(run))
        extents = held(log, entry, partition)


def _why(run: list[Held]) -> int:
    """Compacted extents merge into a compacted one; anything else counts as not compacted."""
    return COMPACTED if all(item.extent.merged == COMPACTED for item in run) else EXPLICIT


def _merge_limit(log: EmbeddedLog, entry: Entry) -> int:
    """Retention removes whole extents, so they must stay well below what it keeps."""
    limit = int(log.settings.file_bytes)
    keep = entry.topic.spec.retention_bytes
    return limit if keep is None else max(min(limit, keep // _RUN), 4096)


def _size_class(size: int) -> int:
    return max(0, int(math.log(max(size, 1) / 4096, _RUN)) + 1) if size > 4096 else 0


def _runs(extents: list[Held], size_class: int, limit: int) -> list[list[Held]]:
    runs: list[list[Held]] = []
    run: list[Held] = []
    size = 0
    for item in [*extents, None]:
        fits = item is not None and item.extent.kind != ARCHIVE and _size_class(item.bytes) <= size_class
        if item is not None and fits and size + item.bytes <= limit:
            run.append(item)
            size += item.bytes
            continue
        if len(run) >= _RUN:
            runs.append(run)
        run, size = ([item], item.bytes) if item is not None and fits else ([], 0)
    return runs


# -- removing ---------------------------------------------------------------------------------------------------------


def purge(log: EmbeddedLog, report: Report) -> None:
    """Remove replaced extents that no reader can be at any more, and files of dead writers that no row names."""
    until = log.clock.now() - millis(log.settings.readable_after)
    gone = log.store.query("SELECT id, file FROM extents WHERE replaced_at <= ? LIMIT 10000", until)
    if gone:
        ids = [(extent_id,) for extent_id, _ in gone]
        log.committer.change(lambda db: db.executemany("DELETE FROM extents WHERE id = ?", ids).rowcount)
        report.purged += len(gone)
    # Whatever this crashes in between leaves is an orphan, found here the next time.
    for folder in ("extents", "archive"):
        known = {file for (file,) in log.store.query("SELECT file FROM extents WHERE file IS NOT NULL")}
        mine = {file for _, file in gone}
        for path in sorted((log.folder / folder).iterdir()):
            if path.name not in known and (path.name in mine or _is_orphan(log, path.name)):
                path.unlink(missing_ok=True)
                report.orphans += path.name not in mine


def _is_orphan(log: EmbeddedLog, name: str) -> bool:
    owner = name.partition("-")[0]
    return not is_alive(log.folder / "owners", owner)
