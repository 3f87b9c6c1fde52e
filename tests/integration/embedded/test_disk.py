"""A full disk, and a read-only folder. Needs root: a small file system is mounted."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from headrace.contracts import Append
from headrace.errors import DiskFull
from headrace.log.embedded import EmbeddedLog
from headrace.settings import Settings
from tests.unit.log.embedded.data_folder import extents, files, line, process, put, raw, values

NOBODY = 65534
QUIET = Settings.of(storage_maintenance_interval=timedelta(0))


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MB."""
    where = tmp_path / "small"
    where.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", where], check=True)
    yield where
    subprocess.run(["umount", "-l", where], check=True)


def fill(folder: Path) -> Path:
    """A file that takes all the space that is left."""
    ballast = folder.parent / "ballast"
    with open(ballast, "wb", buffering=0) as out:
        try:
            while out.write(b"\0" * 4096):
                pass
        except OSError:
            pass
    return ballast


@pytest.mark.parametrize("size", [100, 1000, 300_000])
def test_a_full_disk_raises_an_error_and_leaves_no_partial_append(small: Path, size: int) -> None:
    folder = small / "data"
    with EmbeddedLog(folder, QUIET) as log:
        log.create_topic("t")
        put(log, "t", b"before")
        ballast = fill(folder)
        before, kept = files(folder), 1
        while _appends(log, raw(b"x" * size, b"y")):  # there may be room inside files that exist already
            kept += 2
        for _ in range(3):
            with pytest.raises(DiskFull):
                log.append([Append("t", raw(b"x" * 300_000, b"y"))])
        assert files(folder) == before
        assert len(values(log, "t")) == kept
        assert log.bounds("t") == {0: (0, kept)}
        ballast.unlink()
        put(log, "t", b"after")
        assert values(log, "t")[-1] == b"after"
        log.maintenance.run()
        assert sum(rows for _, rows in extents(log)) == kept + 1
    with EmbeddedLog(folder, QUIET) as log:
        assert len(values(log, "t")) == kept + 1


def _appends(log: EmbeddedLog, rows: pa.RecordBatch) -> bool:
    try:
        log.append([Append("t", rows)])
    except DiskFull:
        return False
    return True


def test_opening_on_a_full_disk_raises_an_error(small: Path) -> None:
    folder = small / "data"
    folder.mkdir()
    ballast = fill(folder)
    with pytest.raises(DiskFull):
        EmbeddedLog(folder, QUIET)
    ballast.unlink()
    with EmbeddedLog(folder, QUIET) as log:
        log.create_topic("t")


OPEN_AS = """
import os, sys
from headrace.errors import HeadraceError
from headrace.log.embedded import EmbeddedLog
os.setgid(int(sys.argv[2]))
os.setuid(int(sys.argv[2]))
try:
    EmbeddedLog(sys.argv[1])
    print("opened")
except HeadraceError as error:
    print(error.code)
"""


@pytest.mark.parametrize("made", [False, True])
def test_a_read_only_folder_raises_an_error(made: bool) -> None:
    with tempfile.TemporaryDirectory() as parent:
        os.chmod(parent, 0o755)
        folder = Path(parent) / "data"
        if made:
            EmbeddedLog(folder, QUIET).close()
        with process(OPEN_AS, folder, NOBODY) as child:
            assert line(child) == "read-only"


def test_a_read_only_file_system_raises_an_error(small: Path) -> None:
    EmbeddedLog(small / "data", QUIET).close()
    (small / "view").mkdir()
    subprocess.run(["mount", "--bind", small / "data", small / "view"], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", small / "view"], check=True)
        with process(OPEN_AS, small / "view", 0) as child:
            assert line(child) == "read-only"
    finally:
        subprocess.run(["umount", small / "view"], check=True)
