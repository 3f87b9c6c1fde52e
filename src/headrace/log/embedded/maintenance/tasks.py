"""Maintenance: merges small extents, applies retention and compaction, and removes unused files.

Runs in the background, in one process at a time, and on demand. Each step is safe to repeat, to interrupt and to run
concurrently.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import math
import os
import sqlite3
import threading
from dataclasses import dataclass
from pathlib import Path

from headrace.clock import millis
from headrace.errors import DamagedExtent, OffsetOutOfRange, UnknownTopic
from headrace.faultpoints import reach
from headrace.log.embedded.ipc.owners import is_alive
from headrace.log.embedded.maintenance.compaction import compact
from headrace.log.embedded.maintenance.maintained_log import MaintainedLog
from headrace.log.embedded.maintenance.rewrite import COMPACTED, EXPLICIT, LiveExtent, live_extents, replace, rows_of
from headrace.log.embedded.storage.extents import ARCHIVE, GONE
from headrace.log.embedded.storage.topic_catalog import TopicEntry

_RUN = 8  # number of adjacent extents of similar size that are merged into one
_PURGED = 10_000  # extents removed in one transaction
_WAL_LIMIT = 64 << 20
_logger = logging.getLogger(__name__)


@dataclass
class MaintenanceReport:
    """What a maintenance run did, in extents."""

    merged: int = 0
    expired: int = 0
    archived: int = 0
    compacted: int = 0
    purged: int = 0
    orphans: int = 0


class Maintenance:
    """The background task of one log."""

    def __init__(self, log: MaintainedLog) -> None:
        self._log = log
        self._stop = threading.Event()
        self._interval = log.settings.storage.maintenance_interval.total_seconds()
        self._thread: threading.Thread | None = None
        if self._interval:
            self._thread = threading.Thread(target=self._run, name="headrace-upkeep", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(self._interval):
            try:
                self.run()
            except Exception:
                _logger.exception("maintenance failed; it will be retried")

    def run(self, *, force_compaction: bool = False, topics: list[str] | None = None) -> MaintenanceReport | None:
        """One run; None if another process is running it."""
        fd = os.open(self._log.folder / "upkeep.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return None
        else:
            return self._run_once(force_compaction, topics)
        finally:
            os.close(fd)

    def _run_once(self, force_compaction: bool, topics: list[str] | None) -> MaintenanceReport:
        report = MaintenanceReport()
        for name, entry in self._log.catalog.entries().items():
            if topics is not None and name not in topics:
                continue
            for partition in range(entry.topic.partitions):
                try:
                    self._maintain(entry, partition, report, force_compaction)
                except DamagedExtent as error:  # the other partitions are maintained
                    _logger.warning("partition %s/%s cannot be maintained: %s", name, partition, error)
        purge(self._log, report)
        if self._log.store.wal_bytes() > _WAL_LIMIT:
            self._log.store.checkpoint()
        return report

    def _maintain(self, entry: TopicEntry, partition: int, report: MaintenanceReport, force_compaction: bool) -> None:
        # The topic was deleted or truncated meanwhile: nothing left to do for it.
        with contextlib.suppress(UnknownTopic, OffsetOutOfRange):
            apply_retention(self._log, entry, partition, report)
        if entry.topic.spec.compact:
            report.compacted += compact(self._log, entry, partition, force=force_compaction)
        merge(self._log, entry, partition, report)

    def close(self) -> None:
        self._stop.set()
        if self._thread:
            self._thread.join()


# -- retention --------------------------------------------------------------------------------------------------------


def apply_retention(log: MaintainedLog, entry: TopicEntry, partition: int, report: MaintenanceReport) -> None:
    """Remove or archive the extents beyond the retention time or size, oldest first."""
    live = [item for item in live_extents(log, entry, partition) if item.extent.kind != ARCHIVE]
    expired = live[: _count_expired(log, entry, live)]
    if not expired:
        return
    if entry.topic.spec.archive:
        for run in _chunks(expired, log.settings.storage.extent_file_bytes):
            rows = rows_of(log, entry, run)
            report.archived += len(run) * replace(log, entry, partition, run, rows, archive=True, why=EXPLICIT)
    else:
        truncate(log, entry, partition, expired[-1].extent.last_offset + 1)
        report.expired += len(expired)


def _count_expired(log: MaintainedLog, entry: TopicEntry, live: list[LiveExtent]) -> int:
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


def _chunks(items: list[LiveExtent], limit: int) -> list[list[LiveExtent]]:
    chunks: list[list[LiveExtent]] = [[]]
    size = 0
    for item in items:
        if chunks[-1] and size + item.bytes > limit:
            chunks.append([])
            size = 0
        chunks[-1].append(item)
        size += item.bytes
    return chunks


def truncate(log: MaintainedLog, entry: TopicEntry, partition: int, before: int) -> None:
    """Remove all rows below an offset; readers positioned there get an error."""
    log.reader.check_offset(entry, partition, before)
    removed = log.reader.last_sequence_below(entry, partition, before)
    now = log.clock.now()

    def change(db: sqlite3.Connection) -> None:
        removed_range = (entry.id, partition, before)
        ((freed,),) = db.execute(
            "SELECT coalesce(sum(bytes), 0) FROM extents WHERE topic = ? AND partition = ? AND last_offset < ? "
            f"AND replaced_at IS NULL AND kind <> '{ARCHIVE}'",
            removed_range,
        )
        db.execute(
            "UPDATE extents SET replaced_at = ? WHERE topic = ? AND partition = ? AND last_offset < ? "
            "AND replaced_at IS NULL",
            (now, *removed_range),
        )
        db.execute(
            "UPDATE partitions SET start_offset = max(start_offset, ?), removed_sequence = max(removed_sequence, ?), "
            "bytes = bytes - ? WHERE topic = ? AND partition = ?",
            (before, removed, freed, entry.id, partition),
        )

    log.committer.change(change)


# -- merging ----------------------------------------------------------------------------------------------------------


def merge(log: MaintainedLog, entry: TopicEntry, partition: int, report: MaintenanceReport) -> None:
    """Merge runs of small adjacent extents; a row is rewritten at most once per size class."""
    limit = _merge_limit(log, entry)
    extents = live_extents(log, entry, partition)
    for size_class in range(_size_class(limit) + 1):
        for run in _runs(extents, size_class, limit):
            rows = rows_of(log, entry, run)
            report.merged += len(run) * replace(log, entry, partition, run, rows, archive=False, why=_why(run))
        extents = live_extents(log, entry, partition)


def _why(run: list[LiveExtent]) -> int:
    """Compacted extents merge into a compacted one; any other mix counts as not compacted."""
    return COMPACTED if all(item.extent.merged == COMPACTED for item in run) else EXPLICIT


def _merge_limit(log: MaintainedLog, entry: TopicEntry) -> int:
    """Retention removes whole extents, so they must stay well below the retained amount."""
    limit = int(log.settings.storage.extent_file_bytes)
    keep = entry.topic.spec.retention_bytes
    return limit if keep is None else max(min(limit, keep // _RUN), 4096)


def _size_class(size: int) -> int:
    return max(0, int(math.log(max(size, 1) / 4096, _RUN)) + 1) if size > 4096 else 0


def _runs(extents: list[LiveExtent], size_class: int, limit: int) -> list[list[LiveExtent]]:
    runs: list[list[LiveExtent]] = []
    run: list[LiveExtent] = []
    size = 0
    for item in [*extents, None]:
        fits = item is not None and item.extent.kind not in (ARCHIVE, *GONE) and _size_class(item.bytes) <= size_class
        if item is not None and fits and size + item.bytes <= limit:
            run.append(item)
            size += item.bytes
            continue
        # Merging must pay off: a large extent is not rewritten for a few small ones behind it.
        if len(run) >= _RUN and size >= 2 * max(member.bytes for member in run):
            runs.append(run)
        run, size = ([item], item.bytes) if item is not None and fits else ([], 0)
    return runs


# -- removal ----------------------------------------------------------------------------------------------------------


def purge(log: MaintainedLog, report: MaintenanceReport) -> None:
    """Remove replaced extents that no reader can be using any more, and what dead writers left."""
    until = log.clock.now() - millis(log.settings.storage.file_delete_delay)
    while replaced := log.store.query(
        f"SELECT id, file, kind FROM extents WHERE replaced_at <= ? LIMIT {_PURGED}", until
    ):
        ids = [(extent_id,) for extent_id, *_ in replaced]
        log.committer.change(lambda db, ids=ids: db.executemany("DELETE FROM extents WHERE id = ?", ids).rowcount)
        report.purged += len(replaced)
        reach("purge.deleted")
        # Files that a crash leaves here are orphans once their writer is dead, too.
        for _, file, kind in replaced:
            if file is not None:
                (log.folder / ("archive" if kind == ARCHIVE else "extents") / file).unlink(missing_ok=True)
                reach("purge.unlinked")
    dead = {owner for owner in _owners(log) if not is_alive(log.folder / "owners", owner)}
    if dead:
        report.orphans += log.committer.change(lambda db: _release_dead_owners(log, db, dead))


def _files(log: MaintainedLog) -> list[Path]:
    return [path for folder in ("extents", "archive") for path in sorted((log.folder / folder).iterdir())]


def _owners(log: MaintainedLog) -> set[str]:
    """Writers whose leftovers might be removed: owners of unreferenced files, and of posts."""
    known = {file for (file,) in log.store.query("SELECT file FROM extents WHERE file IS NOT NULL")}
    posters = {owner for (owner,) in log.store.query("SELECT owner FROM mail")}
    return posters | {path.name.partition("-")[0] for path in _files(log) if path.name not in known}


def _release_dead_owners(log: MaintainedLog, db: sqlite3.Connection, dead: set[str]) -> int:
    """Remove what dead writers left. Runs under the lock, where it is certain which files are referenced."""
    db.executemany("DELETE FROM mail WHERE owner = ?", [(owner,) for owner in dead])
    known = {file for (file,) in db.execute("SELECT file FROM extents WHERE file IS NOT NULL")}
    orphans = [p for p in _files(log) if p.name not in known and p.name.partition("-")[0] in dead]
    for path in orphans:
        path.unlink(missing_ok=True)
        reach("purge.unlinked")
    return len(orphans)
