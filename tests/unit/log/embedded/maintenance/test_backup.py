"""Backups of a data folder in use: complete, consistent, and unusable if interrupted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from headrace.contracts import Append, Subscription, TopicPartition, TopicSpec
from headrace.errors import BackupFailed, NotADataFolder
from headrace.log.embedded import EmbeddedLog
from headrace.log.embedded.maintenance.backup import backup, restore
from headrace.log.embedded.maintenance.check import check
from headrace.settings import Settings, Size

SETTINGS = Settings.of(
    storage_inline_bytes=Size(500), storage_maintenance_interval=timedelta(0), storage_file_delete_delay=timedelta(0)
)
RAW = pa.schema({"key": pa.binary(), "value": pa.binary()})

# Appends numbers for ever, merges all the time, and removes what it merged at once.
BUSY = """
import sys
from pathlib import Path
from headrace.contracts import Append, Subscription
from headrace.log.embedded import EmbeddedLog
from tests.unit.log.embedded.maintenance.test_backup import SETTINGS, numbered

with EmbeddedLog(Path(sys.argv[1]), SETTINGS) as log:
    consumer = log.consumer("g", Subscription(("a",)))
    at = 0
    while True:
        for size in (1, 1, 1, 1, 1, 1, 1, 1, 200):
            log.append([Append("a", numbered(at, size))])
            at += size
        log.maintenance.run()
        consumer.poll()
        consumer.commit()
        print(at, flush=True)
"""

# Stops in the middle of its files and says so.
STUCK = """
import sys, time
from pathlib import Path
from headrace.log.embedded.maintenance.backup import backup

def stop(done, total):
    print("half", flush=True)
    time.sleep(1000)

backup(Path(sys.argv[1]), Path(sys.argv[2]), stop)
"""


def numbered(start: int, count: int) -> pa.RecordBatch:
    values = [b"%d" % i for i in range(start, start + count)]
    return pa.RecordBatch.from_arrays([pa.nulls(count, pa.binary()), pa.array(values, pa.binary())], schema=RAW)


def values(folder: Path, topic: str = "a") -> list[int]:
    with EmbeddedLog(folder, SETTINGS) as log:
        start, end = log.bounds(topic)[0]
        found: list[int] = []
        while start < end:
            batch = log.read(topic, 0, start)
            found += [int(v) for v in batch.rows.column("value").to_pylist()]
            start = batch.next_offset
        return found


def filled(folder: Path) -> Path:
    with EmbeddedLog(folder, SETTINGS) as log:
        log.create_topic("a")
        for start in range(0, 1_000, 100):
            log.append([Append("a", numbered(start, 100))])
        log.writer("w").append(5, [Append("a", numbered(1_000, 1))])
    return folder


@pytest.fixture
def busy(tmp_path: Path) -> Iterator[tuple[Path, subprocess.Popen[str]]]:
    folder = tmp_path / "data"
    with EmbeddedLog(folder, SETTINGS) as log:
        log.create_topic("a", TopicSpec())
    process = subprocess.Popen([sys.executable, "-c", BUSY, str(folder)], stdout=subprocess.PIPE, text=True)
    try:
        yield folder, process
    finally:
        process.kill()
        process.wait()
        assert process.stdout
        process.stdout.close()


def test_a_backup_of_a_busy_log_is_a_prefix_of_it(tmp_path: Path, busy: tuple[Path, subprocess.Popen[str]]) -> None:
    folder, process = busy
    assert process.stdout
    for number in range(5):
        acknowledged = int(process.stdout.readline())
        dest = tmp_path / f"copy-{number}"
        copied = backup(folder, dest)
        assert check(dest).findings == []
        found = values(dest)
        assert found == list(range(len(found)))
        assert len(found) == copied.rows >= acknowledged
        with EmbeddedLog(dest, SETTINGS) as log:
            group = log.group("g")
            assert 0 < group.offsets[TopicPartition("a", 0)] <= len(found)
            assert group.members == ()


def test_a_backup_opens_as_a_data_folder(tmp_path: Path) -> None:
    source = filled(tmp_path / "data")
    backup(source, tmp_path / "copy")
    with EmbeddedLog(tmp_path / "copy", SETTINGS) as log:
        writer = log.writer("w")
        assert writer.last == 5
        assert writer.append(6, [Append("a", numbered(1_001, 1))]) is not None
        consumer = log.consumer("g", Subscription(("a",)))
        assert consumer.poll()
        consumer.close()
    assert values(tmp_path / "copy") == list(range(1_002))
    assert values(source) == list(range(1_001))


def test_files_are_shared_by_a_backup_and_copied_by_a_restore(tmp_path: Path) -> None:
    source = filled(tmp_path / "data")
    backup(source, tmp_path / "copy")
    restore(tmp_path / "copy", tmp_path / "new")
    for path in (source / "extents").iterdir():
        assert path.samefile(tmp_path / "copy" / "extents" / path.name)
        assert not path.samefile(tmp_path / "new" / "extents" / path.name)
    assert values(tmp_path / "new") == list(range(1_001))


def test_a_backup_does_not_depend_on_the_original(tmp_path: Path) -> None:
    source = filled(tmp_path / "data")
    backup(source, tmp_path / "copy")
    with EmbeddedLog(source, SETTINGS) as log:
        log.delete_topic("a")
        log.maintenance.run()
    assert not list((source / "extents").iterdir())
    assert values(tmp_path / "copy") == list(range(1_001))


def test_progress_reaches_the_end(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    backup(filled(tmp_path / "data"), tmp_path / "copy", lambda done, total: seen.append((done, total)))
    assert seen[-1][0] == seen[-1][1] > 0


def test_an_interrupted_backup_is_not_restored(tmp_path: Path) -> None:
    source, dest = filled(tmp_path / "data"), tmp_path / "copy"
    process = subprocess.Popen([sys.executable, "-c", STUCK, str(source), str(dest)], stdout=subprocess.PIPE, text=True)
    assert process.stdout
    assert process.stdout.readline() == "half\n"
    with pytest.raises(BackupFailed, match="in progress"):
        backup(source, dest)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert not dest.exists()
    (left,) = tmp_path.glob(".copy*")
    assert not (left / "FORMAT").exists()
    with pytest.raises(NotADataFolder):
        restore(left, tmp_path / "new")
    backup(source, dest)
    assert not list(tmp_path.glob(".copy*"))
    assert values(dest) == list(range(1_001))


def test_a_failed_backup_leaves_no_files(tmp_path: Path) -> None:
    source = filled(tmp_path / "data")

    def fail(done: int, total: int) -> None:
        raise RuntimeError

    with pytest.raises(RuntimeError):
        backup(source, tmp_path / "copy", fail)
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_an_empty_folder_may_be_the_target(tmp_path: Path) -> None:
    source = filled(tmp_path / "data")
    (tmp_path / "copy").mkdir()
    backup(source, tmp_path / "copy")
    assert values(tmp_path / "copy") == list(range(1_001))
    assert not (tmp_path / "copy" / ".partial").exists()


def test_invalid_targets_and_sources_are_refused(tmp_path: Path) -> None:
    source = filled(tmp_path / "data")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter").touch()
    with pytest.raises(BackupFailed, match="not empty"):
        backup(source, tmp_path / "full")
    with pytest.raises(BackupFailed, match="not empty"):
        restore(source, source)
    with pytest.raises(NotADataFolder):
        backup(tmp_path / "full", tmp_path / "copy")


def test_a_damaged_backup_is_not_restored(tmp_path: Path) -> None:
    backup(filled(tmp_path / "data"), tmp_path / "copy")
    path = next((tmp_path / "copy" / "extents").iterdir())
    content = bytearray(path.read_bytes())
    content[-100] ^= 1
    path.write_bytes(content)
    with pytest.raises(BackupFailed, match="damaged"):
        restore(tmp_path / "copy", tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_files_removed_during_a_backup_are_copied_in_another_round(tmp_path: Path) -> None:
    """Merging between the copy of the commit log and the copy of its files."""
    source = filled(tmp_path / "data")
    rounds: list[int] = []
    with EmbeddedLog(source, SETTINGS) as log:

        def merge(done: int, total: int) -> None:
            if not rounds:
                rounds.append(1)
                log.append([Append("a", numbered(1_001, 1))])
                assert log.maintenance.run().merged  # type: ignore[union-attr]

        backup(source, tmp_path / "copy", merge)
    assert check(tmp_path / "copy").findings == []
    assert values(tmp_path / "copy") == list(range(1_002))
