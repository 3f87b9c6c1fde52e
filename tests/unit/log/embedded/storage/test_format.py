"""A data folder of format 1 is read completely by this version."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path

import pytest

from headrace.clock import ManualClock
from headrace.contracts import Append, Subscription, TopicPartition
from headrace.log.embedded import EmbeddedLog
from headrace.record import Record
from headrace.settings import Settings
from tests.unit.log.embedded.data_folder import extents, raw, read

FIXTURE = Path(__file__).parents[4] / "fixtures" / "data-v1"
NOW = 1_800_000_000_000


@pytest.fixture
def old(tmp_path: Path):
    shutil.copytree(FIXTURE, tmp_path / "data")
    clock = ManualClock(NOW + 7_200_000)
    with EmbeddedLog(tmp_path / "data", Settings.of(storage_maintenance_interval=timedelta(0)), clock) as log:
        yield log


def test_the_fixture_contains_every_kind_of_extent(old: EmbeddedLog) -> None:
    assert {kind for kind, _ in extents(old)} == {"inline", "file", "archive"}
    assert {merged for (merged,) in old.store.query("SELECT merged FROM extents")} == {0, 1, 2}


def test_all_rows_are_read(old: EmbeddedLog) -> None:
    pairs = [(i, b"k%d" % (i % 3), b"%d" % i) for i in range(10)]
    found = {
        name: [(r.offset, r.key, r.value) for r in read(old, name).records()]
        for name in ("archived", "compacted", "merged")
    }
    assert found == {"archived": pairs, "compacted": pairs[-3:], "merged": pairs[2:]}
    first, second = read(old, "plain", old.bounds("plain")[0].end == 0).records()
    assert first.record == Record(b"inline", b"k", (("h", b"1"),), NOW - 500, NOW - 100, NOW)
    assert (first.timestamp, second.value) == (NOW - 400, None)
    assert {r.value for p in range(2) for r in read(old, "plain", p).records()} == {
        b"inline",
        None,
        b"file" * 1000,
        b"written",
    }
    typed = read(old, "typed").rows.to_pylist()
    assert [(r["id"], r["note"], r["$deleted"]) for r in typed] == [
        (1, "none", None),
        (2, "none", None),
        (3, "new", True),
    ]
    sequences = [
        s for b in old.scan(["archived", "compacted", "merged"], 0, 30) for s in b.rows.column("$sequence").to_pylist()
    ]
    assert len(set(sequences)) == 21


def test_writers_and_groups_resume(old: EmbeddedLog) -> None:
    writer = old.writer("writer")
    assert writer.last == 41
    assert writer.append(41, [Append("plain", raw(b"again"), 1)]) is None
    assert old.group("group").offsets == {TopicPartition("merged", 0): 5}
    assert old.group("other").offsets == {TopicPartition("plain", 1): 1}
    consumer = old.consumer("group", Subscription(("merged",)))
    (batch,) = consumer.poll(timedelta(0))
    assert [r.value for r in batch.records()] == [b"5", b"6", b"7", b"8", b"9"]


def test_an_old_folder_can_be_written_and_maintained(old: EmbeddedLog) -> None:
    before = {name: read(old, name).rows for name in ("archived", "compacted", "merged", "typed")}
    for _ in range(10):
        old.append([Append(name, raw(b"new", key=b"n")) for name in ("archived", "compacted", "merged")])
    old.maintenance.run(force_compaction=True)
    for name in ("archived", "merged"):
        assert read(old, name).rows.slice(0, before[name].num_rows) == before[name]
        assert read(old, name).rows.num_rows == before[name].num_rows + 10
    assert read(old, "compacted").rows.num_rows == 4
    assert read(old, "typed").rows == before["typed"]
