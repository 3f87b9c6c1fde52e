"""What only the embedded log promises: dense offsets, one total order, whole files, honest accounts; and its queues."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from tests.faults.log.ack_log import AckEntry, read_acks
from tests.faults.log.verify import DAMAGE, DUPLICATE, LOST, Findings, Told, by_kind, check_log
from tests.faults.log.worker import SETTINGS

from headrace.errors import HeadraceError
from headrace.log.embedded import EmbeddedLog
from headrace.log.embedded.storage.extents import ARCHIVE
from headrace.log.queues import Queue

COMPACTED = ("keyed", "counted")


def check_folder(folder: Path, notes: Path) -> Findings:
    """Everything about a data folder whose workers are dead."""
    return check_facts(folder, read_acks(notes))


def check_facts(folder: Path, facts: Iterable[AckEntry]) -> Findings:
    told = by_kind(facts)
    found = Findings()
    with EmbeddedLog(folder, SETTINGS) as log:
        try:
            found.join(check_log(log, told))
            check_order(log, found)
            check_writer(log, told, found)
            check_queue(log, told, found)
            check_store(log, found)
        except HeadraceError as error:  # the log itself says that it cannot give what it held
            found.add(DAMAGE, str(error))
    return found


def check_order(log: EmbeddedLog, found: Findings) -> None:
    """Offsets are dense where nothing is compacted; sequences rise with them and are never given twice."""
    names = [topic.name for topic in log.topics()]
    every: list[np.ndarray] = []
    for name in names:
        for partition, (start, end) in log.bounds(name).items():
            rows = [b.rows for b in log.scan([name], 0, log.head(names)) if b.partition == partition]
            offsets, sequences = (
                np.concatenate([np.zeros(0, np.int64), *(r.column(c).to_numpy() for r in rows)])
                for c in ("$offset", "$sequence")
            )
            dense = name in COMPACTED or np.array_equal(offsets, np.arange(start, end))
            if not dense or (np.diff(offsets) <= 0).any() or (np.diff(sequences) <= 0).any():
                found.add(DAMAGE, f"{name}/{partition}: offsets {start} to {end} are not dense and in order")
            every.append(sequences)
    numbers = np.concatenate(every)
    if len(np.unique(numbers)) != len(numbers):
        found.add(DUPLICATE, "a sequence was given twice")


def check_writer(log: EmbeddedLog, told: Told, found: Findings) -> None:
    rows = log.store.query("SELECT coalesce(last, -1) FROM writers WHERE name = 'exact'")
    last = rows[0][0] if rows else -1
    reached = max((int(number) for (number,) in told["number"]), default=-1)
    if last < reached:
        found.add(LOST, f"the writer was told of number {reached}, the log knows of {last}")


def check_queue(log: EmbeddedLog, told: Told, found: Findings) -> None:
    """A message that was acknowledged is not taken again; every other one is done or still to come."""
    done = {(partition, offset): int(at) for at, partition, offset in told["done"]}
    for begun_at, partition, offset in told["taken"]:
        if int(begun_at) > done.get((partition, offset), int(begun_at)):
            found.add(DUPLICATE, f"message {partition}/{offset} came again after it was acknowledged")
    if not told["taken"]:
        return
    stats = Queue(log, "jobs", "crew").stats()
    total = sum(end - start for start, end in log.bounds("jobs").values())
    if stats.ready + stats.in_flight + stats.done != total or stats.dead or stats.lost or stats.done < len(done):
        found.add(LOST, f"the queue accounts for {stats} of {total} messages, {len(done)} were acknowledged")


def check_store(log: EmbeddedLog, found: Findings) -> None:
    """The database is whole; it accounts for all rows and bytes; files are there, and no others are left."""
    (answer,) = log.store.query("PRAGMA integrity_check")
    if answer != ("ok",):
        found.add(DAMAGE, f"SQLite says: {answer[0]}")
    off = log.store.query(
        "SELECT p.topic, p.partition, p.bytes, coalesce(sum(e.bytes), 0) FROM partitions p LEFT JOIN extents e "
        f"ON e.topic = p.topic AND e.partition = p.partition AND e.replaced_at IS NULL AND e.kind <> '{ARCHIVE}' "
        "GROUP BY 1, 2 HAVING p.bytes <> coalesce(sum(e.bytes), 0)"
    )
    if off:
        found.add(DAMAGE, f"bytes of partitions do not add up: {off}")
    log.maintenance.run()
    named = {file for (file,) in log.store.query("SELECT file FROM extents WHERE file IS NOT NULL")}
    held = {path.name for part in ("extents", "archive") for path in (log.folder / part).iterdir()}
    if named != held:
        found.add(DAMAGE, f"files without rows: {sorted(held - named)}, rows without files: {sorted(named - held)}")
