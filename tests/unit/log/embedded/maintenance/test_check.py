"""`log check` finds every kind of damage to a data folder, and reports nothing else."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from headrace.clock import ManualClock
from headrace.contracts import Append, Subscription, TopicSpec
from headrace.errors import NotADataFolder
from headrace.log.embedded import EmbeddedLog
from headrace.log.embedded.maintenance.check import check
from headrace.schema import Schema
from headrace.settings import Settings, Size

SETTINGS = Settings.of(
    storage_inline_bytes=Size(2_000), storage_maintenance_interval=timedelta(0), storage_file_delete_delay=timedelta(0)
)


def rows(start: int, count: int) -> pa.RecordBatch:
    values = [b"%d" % i for i in range(start, start + count)]
    return pa.RecordBatch.from_pydict(
        {"key": values, "value": values}, schema=pa.schema({"key": pa.binary(), "value": pa.binary()})
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with inline and file extents in two topics, and a group."""
    with EmbeddedLog(tmp_path / "data", SETTINGS) as log:
        log.create_topic("a")
        log.create_topic("b", TopicSpec(partitions=2))
        for i in range(4):
            log.append([Append("a", rows(i * 10, 10)), Append("b", rows(i, 7))])
        log.append([Append("a", rows(40, 500))])
        consumer = log.consumer("g", Subscription(("a",)))
        consumer.poll()
        consumer.commit()
        consumer.close()
    return tmp_path / "data"


def change(folder: Path, sql: str, database: str = "log.db") -> None:
    with closing(sqlite3.connect(folder / database)) as db, db:
        assert db.execute(sql).rowcount != 0


def kinds(folder: Path) -> set[str]:
    return {finding.kind for finding in check(folder).damage}


def test_a_sound_folder_has_no_findings(folder: Path) -> None:
    result = check(folder)
    assert result.findings == []
    assert result.rows == 4 * 17 + 500


def test_progress_reaches_the_end(folder: Path) -> None:
    seen: list[tuple[int, int]] = []
    check(folder, lambda done, total: seen.append((done, total)))
    assert seen[-1][0] == seen[-1][1] > 0


def test_maintenance_truncation_and_deletion_are_no_damage(folder: Path) -> None:
    with EmbeddedLog(folder, SETTINGS) as log:
        for i in range(20):
            log.append([Append("a", rows(i, 3)), Append("b", rows(i, 3))])
        log.maintenance.run()
        assert check(folder).findings == []
        log.truncate("a", 0, 25)
        log.delete_topic("b")
        log.maintenance.run()
        assert check(folder).findings == []
        log.truncate("a", 0, log.bounds("a")[0].end)
        log.maintenance.run()
        assert check(folder).findings == []


def test_compaction_and_archiving_are_no_damage(tmp_path: Path) -> None:
    clock = ManualClock(1_000_000)
    with EmbeddedLog(tmp_path, SETTINGS, clock) as log:
        log.create_topic("c", TopicSpec(schema=Schema.parse("id bigint key, v string"), compact=True))
        spec = TopicSpec(retention_time=timedelta(hours=1), archive=True)
        log.create_topic("old", spec)
        for i in range(30):
            row = {"id": i % 3, "v": str(i), "$deleted": i >= 27}
            log.append([Append("c", pa.RecordBatch.from_pylist([row])), Append("old", rows(i, 100))])
        log.maintenance.run(force_compaction=True)
        clock.advance(timedelta(days=2))
        log.maintenance.run(force_compaction=True)
        clock.advance(timedelta(days=2))
        log.maintenance.run(force_compaction=True)
        assert list((tmp_path / "archive").iterdir())
        assert check(tmp_path).findings == []
        log.append([Append("c", pa.RecordBatch.from_pylist([{"id": 9, "v": "x"}]))])
        assert check(tmp_path).findings == []


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("UPDATE extents SET payload = zeroblob(length(payload)) WHERE id = 1", "checksum"),
        ("UPDATE extents SET bytes = bytes + 1 WHERE id = 1", "size"),
        ("UPDATE extents SET rows = rows - 1 WHERE id = 1", "count"),
        ("UPDATE extents SET max_time = max_time + 1 WHERE id = 1", "times"),
        ("DELETE FROM extents WHERE topic = 1 AND base_offset = 10", "offsets"),
        ("DELETE FROM extents WHERE id = (SELECT min(id) FROM extents WHERE topic = 1)", "offsets"),
        ("DELETE FROM extents WHERE id = (SELECT max(id) FROM extents WHERE topic = 1)", "offsets"),
        ("UPDATE extents SET base_offset = 5, last_offset = 14 WHERE topic = 1 AND base_offset = 10", "offsets"),
        ("UPDATE extents SET base_sequence = 1, last_sequence = 10 WHERE topic = 1 AND base_offset = 20", "sequences"),
        ("UPDATE meta SET value = 3 WHERE name = 'sequence'", "sequences"),
        ("UPDATE partitions SET end_offset = 100 WHERE topic = 1", "offsets"),
        ("UPDATE partitions SET bytes = 0 WHERE topic = 1", "size"),
        ("UPDATE extents SET topic = 77 WHERE id = 1", "partition"),
    ],
)
def test_every_contradiction_is_found(folder: Path, sql: str, kind: str) -> None:
    change(folder, sql)
    assert kind in kinds(folder)


def test_a_committed_offset_beyond_the_end_is_found(folder: Path) -> None:
    change(folder, "UPDATE offsets SET offset = 100000", "groups.db")
    assert kinds(folder) == {"group"}


def large(folder: Path) -> Path:
    return max((folder / "extents").iterdir(), key=lambda path: path.stat().st_size)


def test_a_missing_file_is_found(folder: Path) -> None:
    large(folder).unlink()
    assert kinds(folder) == {"missing-file"}


@pytest.mark.parametrize("keep", [0, 1, 1000])
def test_a_truncated_file_is_found(folder: Path, keep: int) -> None:
    path = large(folder)
    path.write_bytes(path.read_bytes()[:keep])
    assert {"size", "checksum"} == kinds(folder)


def test_a_flipped_bit_is_found(folder: Path) -> None:
    path = large(folder)
    content = bytearray(path.read_bytes())
    content[-100] ^= 1
    path.write_bytes(content)
    (finding,) = check(folder).damage
    assert finding.kind == "checksum"
    assert finding.where == f"a/0, offsets 40 to 539, file {path.name}"


def test_all_damage_is_listed(folder: Path) -> None:
    large(folder).unlink()
    change(folder, "UPDATE extents SET payload = zeroblob(length(payload)) WHERE file IS NULL")
    inline = 12
    assert len([f for f in check(folder).damage if f.kind == "checksum"]) == inline
    assert "missing-file" in kinds(folder)


def test_an_orphaned_file_is_reported_but_is_no_damage(folder: Path) -> None:
    (folder / "extents" / "0123456789ab-left.arrow").write_bytes(b"x")
    (finding,) = check(folder).findings
    assert (finding.kind, finding.damage) == ("orphan", False)


def test_a_file_of_a_live_writer_is_no_orphan(folder: Path) -> None:
    with EmbeddedLog(folder, SETTINGS) as log:
        log.encoder.new_path("arrow").write_bytes(b"x")
        assert check(folder).findings == []


def test_a_broken_database_is_found(folder: Path) -> None:
    with open(folder / "log.db", "r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 4096)
    assert "database" in kinds(folder)
    (folder / "log.db").write_bytes(b"not a database at all" * 100)
    assert kinds(folder) == {"database"}


def test_a_folder_without_a_log_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(NotADataFolder):
        check(tmp_path)
