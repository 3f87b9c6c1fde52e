"""A hostile backup can neither write nor read outside of its folder."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from headrace.contracts import Append
from headrace.errors import BackupFailed
from headrace.log.embedded import EmbeddedLog
from headrace.log.embedded.maintenance.backup import backup, restore
from tests.unit.log.embedded.maintenance.test_backup import SETTINGS, numbered


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """With one file of rows."""
    with EmbeddedLog(tmp_path / "data", SETTINGS) as log:
        log.create_topic("a")
        log.append([Append("a", numbered(0, 200))])
    backup(tmp_path / "data", tmp_path / "copy")
    return tmp_path / "copy"


def the_file(copy: Path) -> Path:
    (file,) = (copy / "extents").iterdir()
    return file


def files(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", ["../../../escaped", "{}/escaped", "..", "a-b.arrow/../../escaped", "a-b.arrow\0"])
def test_a_file_path_outside_the_folder_is_refused(copy: Path, tmp_path: Path, name: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    content = the_file(copy).read_bytes()
    with closing(sqlite3.connect(copy / "log.db")) as db, db:
        db.execute("UPDATE extents SET file = ?", (name.format(outside),))
    (tmp_path / "escaped").write_bytes(content)
    before = files(tmp_path)
    with pytest.raises(BackupFailed):
        restore(copy, tmp_path / "deep" / "new")
    assert files(tmp_path) == before
    assert not any(outside.iterdir())


def test_a_symbolic_link_is_not_followed(copy: Path, tmp_path: Path) -> None:
    rows = the_file(copy)
    (tmp_path / "private").write_bytes(rows.read_bytes())
    rows.unlink()
    rows.symlink_to(tmp_path / "private")
    with pytest.raises(BackupFailed):
        restore(copy, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_valid_backup_is_restored(copy: Path, tmp_path: Path) -> None:
    assert restore(copy, tmp_path / "new").rows == 200
