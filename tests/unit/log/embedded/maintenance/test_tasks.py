"""Merging, retention, archiving, compaction and purging keep rows, offsets and sequences."""

from __future__ import annotations

import sqlite3
import threading
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from headrace.clock import ManualClock
from headrace.contracts import Append, TopicSpec
from headrace.errors import OffsetOutOfRange
from headrace.log.embedded import EmbeddedLog
from headrace.log.embedded.ipc.owners import Owner
from headrace.log.embedded.maintenance import tasks as rules
from headrace.log.embedded.maintenance.rewrite import _retire, live_extents, rows_of
from headrace.log.embedded.maintenance.tasks import MaintenanceReport
from headrace.schema import Schema
from headrace.settings import Size
from tests.unit.log.embedded.conftest import OpenLog
from tests.unit.log.embedded.data_folder import LARGE, extents, files, offsets, put, read, values

MINUTE = timedelta(minutes=1)


def test_merging_keeps_all_rows_in_fewer_extents(log: EmbeddedLog) -> None:
    log.create_topic("t")
    log.create_topic("other")
    for i in range(20):
        put(log, "t", b"%d" % i)
        if i % 3 == 0:
            put(log, "other", b"between")  # so that sequences have gaps
    before = read(log, "t").rows
    assert log.maintenance.run() == MaintenanceReport(merged=20)
    assert extents(log)[0] == ("inline", 20)
    assert read(log, "t").rows == before
    assert sorted(s for b in log.scan(["t"], 0, 99) for s in b.rows.column("$sequence").to_pylist()) == sorted(
        before.column("$sequence").to_pylist()
    )


def test_large_merged_extents_become_files(open_log: OpenLog, folder: Path) -> None:
    log = open_log(storage_inline_bytes=Size(1000))
    log.create_topic("t")
    for i in range(10):
        put(log, "t", b"%d" % i * 500)
    log.maintenance.run()
    assert extents(log) == [("file", 10)]
    assert len(files(folder)) == 1
    assert values(log, "t") == [b"%d" % i * 500 for i in range(10)]


def test_a_large_extent_is_not_rewritten_for_a_few_small_ones(log: EmbeddedLog) -> None:
    log.create_topic("t")
    put(log, "t", LARGE)
    for _ in range(7):
        put(log, "t", b"small")
    assert log.maintenance.run() == MaintenanceReport()


def test_merging_stops_at_the_size_of_a_file(open_log: OpenLog) -> None:
    log = open_log(storage_extent_file_bytes=Size(20_000))
    log.create_topic("t")
    for _ in range(60):
        put(log, "t", b"x" * 1000)
    log.maintenance.run()
    sizes = [size for (size,) in log.store.query("SELECT bytes FROM extents WHERE replaced_at IS NULL")]
    assert max(sizes) <= 20_000
    assert len(sizes) < 10
    assert len(values(log, "t")) == 60


def test_more_extents_can_be_replaced_than_sqlite_takes_parameters(log: EmbeddedLog) -> None:
    with log.store.transaction() as db:
        db.execute(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 33000) "
            "INSERT INTO extents (topic, partition, base_offset, last_offset, base_sequence, last_sequence, rows, "
            "min_time, max_time, bytes, kind, merged, checksum, created_at) "
            "SELECT 1, 0, i, i, i, i, 1, 0, 0, 10, 'inline', 0, 0, 0 FROM n"
        )
        assert _retire(db, list(range(1, 33_001)), 5)
        assert not _retire(db, [1], 6)
    assert log.store.query("SELECT replaced_at, count(*) FROM extents GROUP BY 1") == [(5, 33_000)]


def test_replaced_extents_are_purged_after_a_delay(open_log: OpenLog, clock: ManualClock, folder: Path) -> None:
    log = open_log(clock, storage_inline_bytes=Size(500), storage_file_delete_delay=MINUTE)
    log.create_topic("t")
    for i in range(8):
        put(log, "t", b"%d" % i * 1000)
    old = files(folder)
    log.maintenance.run()
    clock.advance(MINUTE - timedelta(milliseconds=1))
    assert log.maintenance.run() == MaintenanceReport()
    assert old < files(folder)
    clock.advance(timedelta(milliseconds=1))
    assert log.maintenance.run() == MaintenanceReport(purged=8)
    assert len(files(folder)) == 1
    assert len(extents(log, live=False)) == 1
    assert len(values(log, "t")) == 8


def test_retention_by_time_removes_old_rows(open_log: OpenLog, clock: ManualClock) -> None:
    log = open_log(clock)
    log.create_topic("t", TopicSpec(retention_time=MINUTE))
    for i in range(4):
        put(log, "t", b"%d" % i)
        clock.advance(timedelta(seconds=25))
    assert log.maintenance.run() == MaintenanceReport(expired=2)
    assert log.bounds("t") == {0: (2, 4)}
    assert values(log, "t") == [b"2", b"3"]
    assert log.removed(["t"]) == 2
    with pytest.raises(OffsetOutOfRange):
        log.read("t", 0, 1)


def test_retention_by_size_removes_the_oldest(log: EmbeddedLog) -> None:
    log.create_topic("t", TopicSpec(retention_bytes=Size(30_000)))
    for i in range(20):
        put(log, "t", b"%02d" % i * 1000)
    log.maintenance.run()
    ((size,),) = log.store.query("SELECT bytes FROM partitions")
    start, end = log.bounds("t")[0]
    assert 20_000 < size <= 30_000
    assert (end, values(log, "t")) == (20, [b"%02d" % i * 1000 for i in range(start, 20)])


@pytest.mark.parametrize("merged", [False, True])
def test_archived_rows_can_be_read(open_log: OpenLog, clock: ManualClock, folder: Path, merged: bool) -> None:
    log = open_log(clock, storage_file_delete_delay=timedelta(0))
    log.create_topic("t", TopicSpec(retention_time=MINUTE, archive=True))
    for i in range(10):
        put(log, "t", b"%d" % i)
    if merged:
        log.maintenance.run()
    clock.advance(2 * MINUTE)
    put(log, "t", b"new")
    before = read(log, "t").rows
    report = log.maintenance.run()
    assert report is not None
    assert report.archived == (1 if merged else 10)
    log.maintenance.run()
    assert extents(log) == [("archive", 10), ("inline", 1)]
    assert {name.rpartition(".")[2] for name in files(folder)} == {"parquet"}
    assert read(log, "t").rows == before
    assert log.bounds("t") == {0: (0, 11)}
    ((size,),) = log.store.query("SELECT bytes FROM partitions")
    ((live,),) = log.store.query("SELECT bytes FROM extents WHERE kind = 'inline' AND replaced_at IS NULL")
    assert size == live  # what is archived counts for no quota
    log.truncate("t", 0, 11)
    clock.advance(MINUTE)
    log.maintenance.run()
    assert files(folder) == set()


def test_compaction_keeps_the_latest_row_of_each_key_at_its_offset(log: EmbeddedLog) -> None:
    log.create_topic("t", TopicSpec(compact=True))
    for i, key in enumerate([b"a", b"b", None, b"a", b"c", b"b", None, b"b"]):
        put(log, "t", b"%d" % i, key=key)
    log.maintenance.run(force_compaction=True)
    assert offsets(log, "t") == [2, 3, 4, 6, 7]
    assert log.bounds("t") == {0: (0, 8)}
    assert log.read("t", 0, 0, max_records=1).next_offset == 3
    assert log.offset_at("t", 0, 0) == 2
    put(log, "t", b"8", key=b"c")
    log.maintenance.run(force_compaction=True)
    assert offsets(log, "t") == [2, 3, 6, 7, 8]


def test_tombstones_are_retained_from_the_first_compaction(open_log: OpenLog, clock: ManualClock) -> None:
    log = open_log(clock)
    log.create_topic("t", TopicSpec(compact=True, tombstone_time=MINUTE))
    put(log, "t", b"x", None, key=b"a")
    put(log, "t", None)  # without a key it deletes nothing and stays
    clock.advance(5 * MINUTE)
    log.maintenance.run(force_compaction=True)
    assert offsets(log, "t") == [1, 2]
    clock.advance(MINUTE - timedelta(milliseconds=1))
    log.maintenance.run(force_compaction=True)
    assert offsets(log, "t") == [1, 2]
    clock.advance(timedelta(milliseconds=1))
    log.maintenance.run(force_compaction=True)
    assert offsets(log, "t") == [2]


def test_compaction_may_remove_all_rows(open_log: OpenLog, clock: ManualClock) -> None:
    log = open_log(clock)
    log.create_topic("t", TopicSpec(compact=True, tombstone_time=timedelta(0)))
    put(log, "t", b"x", None, key=b"a")
    log.maintenance.run(force_compaction=True)
    assert (extents(log), log.bounds("t"), offsets(log, "t")) == ([], {0: (0, 2)}, [])
    assert log.offset_at("t", 0, 0) == 2
    assert log.read("t", 0, 1).next_offset == 2
    log.truncate("t", 0, 1)
    put(log, "t", b"new", key=b"a")
    assert offsets(log, "t") == [2]


def test_compaction_uses_key_columns_and_deletion_marks(log: EmbeddedLog) -> None:
    schema = Schema.parse("id int key, region string key, name string")
    log.create_topic("t", TopicSpec(compact=True, schema=schema, tombstone_time=timedelta(0)))
    rows = {
        "id": [1, 1, 2, 1, 2],
        "region": ["eu", "us", "eu", "eu", "eu"],
        "name": [*list("abcd"), None],
        "$deleted": [None, None, None, None, True],
    }
    log.append([Append("t", pa.RecordBatch.from_pydict(rows))])
    log.maintenance.run(force_compaction=True)
    assert read(log, "t").rows.column("name").to_pylist() == ["b", "d"]


def test_extents_after_a_gap_keep_their_offsets_when_merged_or_archived(open_log: OpenLog, clock: ManualClock) -> None:
    log = open_log(clock)
    log.create_topic("t", TopicSpec(compact=True))
    put(log, "t", b"old", b"new", key=b"a")
    log.maintenance.run(force_compaction=True)
    assert offsets(log, "t") == [1]
    log.alter_topic("t", compact=False, archive=True, retention_time=MINUTE)
    clock.advance(2 * MINUTE)
    log.maintenance.run()
    assert offsets(log, "t") == [1]
    put(log, "t", b"x")
    log.truncate("t", 0, 2)
    assert log.removed(["t"]) == 2


def test_a_column_added_during_a_merge_is_kept(log: EmbeddedLog) -> None:
    log.create_topic("t", TopicSpec(schema=Schema.parse("id int key")))
    stale = log.catalog.entry("t")
    log.alter_topic("t", schema=Schema.parse("id int key, name string"))
    for i in range(10):
        log.append([Append("t", pa.RecordBatch.from_pydict({"id": [i], "name": [str(i)]}))])
    report = MaintenanceReport()
    rules.merge(log, stale, 0, report)
    assert report == MaintenanceReport()
    assert read(log, "t").rows.column("name").to_pylist() == [str(i) for i in range(10)]
    rules.merge(log, log.catalog.entry("t"), 0, report)
    assert report == MaintenanceReport(merged=10)
    assert read(log, "t").rows.column("name").to_pylist() == [str(i) for i in range(10)]


def test_old_extents_are_read_and_merged_with_the_current_schema(log: EmbeddedLog) -> None:
    log.create_topic("t", TopicSpec(schema=Schema.parse("id int key, p float")))
    log.append([Append("t", pa.RecordBatch.from_pydict({"id": [1], "p": [1.5]}))])
    log.alter_topic("t", schema=Schema.parse("id bigint key, p double, s string default 'd'"))
    for i in range(9):
        log.append([Append("t", pa.RecordBatch.from_pydict({"id": [2**40 + i], "s": [None]}))])
    expected = [(1, 1.5, "d"), *((2**40 + i, None, None) for i in range(9))]
    for _ in range(2):
        rows = read(log, "t").rows.to_pylist()
        assert [(r["id"], r["p"], r["s"]) for r in rows] == expected
        log.maintenance.run()
    assert len(extents(log)) == 1


def test_a_second_replacement_of_an_extent_is_refused(log: EmbeddedLog, folder: Path) -> None:
    log.create_topic("t")
    for _ in range(8):
        put(log, "t", LARGE)
    entry = log.catalog.entry("t")
    old = live_extents(log, entry, 0)
    rows = rows_of(log, entry, old)
    assert rules.replace(log, entry, 0, old, rows, archive=False, why=rules.EXPLICIT)
    count = len(files(folder))
    assert not rules.replace(log, entry, 0, old, rows, archive=False, why=rules.EXPLICIT)
    assert len(files(folder)) == count
    assert len(values(log, "t")) == 8


def test_files_of_dead_processes_are_removed_and_of_live_ones_kept(log: EmbeddedLog, folder: Path) -> None:
    owner = Owner(folder / "owners")
    dead, alive = folder / "extents" / "0123456789ab-x.arrow", folder / "extents" / f"{owner.id}-x.arrow"
    archived = folder / "archive" / "0123456789ab-y.parquet"
    for path in (dead, alive, archived):
        path.write_bytes(b"")
    assert log.maintenance.run() == MaintenanceReport(orphans=2)
    assert files(folder) == {alive.name}
    owner.close()
    assert log.maintenance.run() == MaintenanceReport(orphans=1)
    assert files(folder) == set()


def test_posts_of_dead_processes_are_removed(log: EmbeddedLog) -> None:
    with log.store.transaction() as db:
        db.executemany("INSERT INTO mail VALUES (?, 1, x'')", [("0123456789ab",), (log.owner,)])
    log.maintenance.run()
    assert log.store.query("SELECT owner FROM mail") == [(log.owner,)]


def test_everything_due_is_purged_in_one_run(log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "_PURGED", 3)
    log.create_topic("t")
    for _ in range(10):
        put(log, "t", b"x")
    log.delete_topic("t")
    with log.store.transaction() as db:
        db.execute("UPDATE extents SET replaced_at = 0")
    assert log.maintenance.run() == MaintenanceReport(purged=10)


def test_only_one_process_runs_maintenance(log: EmbeddedLog, open_log: OpenLog) -> None:
    log.create_topic("t")
    other, entered, done, found = open_log(), threading.Event(), threading.Event(), []

    def slow(*_: object, **__: object) -> None:
        entered.set()
        done.wait(30)

    log.maintenance._run_once = slow  # type: ignore[method-assign]
    thread = threading.Thread(target=lambda: found.append(log.maintenance.run()))
    thread.start()
    entered.wait(30)
    assert other.maintenance.run() is None
    done.set()
    thread.join()
    assert other.maintenance.run() == MaintenanceReport()


def test_maintenance_runs_in_the_background(open_log: OpenLog) -> None:
    log = open_log(storage_maintenance_interval=timedelta(milliseconds=5))
    log.create_topic("t")
    for _ in range(10):
        put(log, "t", b"x")
    seen = log.store.commit_signal.commits
    while len(extents(log)) >= 8:
        seen = log.wait(seen, timedelta(seconds=1))
    assert len(values(log, "t")) == 10


def test_maintenance_does_not_affect_readers(open_log: OpenLog) -> None:
    log = open_log(storage_file_delete_delay=timedelta(0), storage_inline_bytes=Size(300))
    log.create_topic("t", TopicSpec(compact=True))
    done, wrong = threading.Event(), []

    def look() -> None:
        while not done.is_set():
            # Every second row has no key and stays, so all of them must be seen, up to the last.
            kept = [offset for offset in offsets(log, "t") if offset % 2]
            if kept != list(range(1, 2 * len(kept), 2)):
                wrong.append(kept)

    readers = [threading.Thread(target=look) for _ in range(2)]
    for reader in readers:
        reader.start()
    try:
        for i in range(30):
            put(log, "t", b"%d" % i * 100, key=b"%d" % (i % 3))
            put(log, "t", b"kept")
            log.maintenance.run(force_compaction=True)
    finally:
        done.set()
        for reader in readers:
            reader.join()
    assert wrong == []
    assert len(values(log, "t")) == 33


def test_a_failed_replacement_leaves_no_file(log: EmbeddedLog, folder: Path) -> None:
    log.create_topic("t")
    for _ in range(8):
        put(log, "t", LARGE)
    entry, before = log.catalog.entry("t"), files(folder)

    def fail(_: object) -> None:
        raise sqlite3.OperationalError("no")

    log.committer.change = fail  # type: ignore[method-assign]
    with pytest.raises(sqlite3.OperationalError):
        rules.merge(log, entry, 0, MaintenanceReport())
    assert files(folder) == before
