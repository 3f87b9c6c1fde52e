"""Folders that only their owner can enter."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.access.secret_files import LOCAL_SECRET, load_secret
from headrace.control.admin.doctor import OK, WARN, check_data_access
from headrace.control.admin.lock import ProgramLock
from headrace.log.embedded import EmbeddedLog
from headrace.log.embedded.maintenance.backup import backup
from headrace.private_folder import make_private, open_to_others
from headrace.settings import Settings


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=oct, autouse=True)
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_missing_folders_above_are_private_too(tmp_path: Path) -> None:
    make_private(tmp_path / "above" / "data")
    make_private(tmp_path / "above" / "data")
    assert (_mode(tmp_path / "above"), _mode(tmp_path / "above" / "data")) == (0o700, 0o700)


def test_an_existing_folder_is_not_changed(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o750)
    make_private(tmp_path / "shared" / "own")
    assert (_mode(tmp_path / "shared"), _mode(tmp_path / "shared" / "own")) == (0o750, 0o700)
    assert open_to_others(tmp_path / "shared") == "drwxr-x---"


def test_a_file_in_place_of_a_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError):
        make_private(tmp_path / "file")


@pytest.mark.parametrize("exists", [False, True])
def test_a_data_folder_and_its_backup_are_private(tmp_path: Path, exists: bool) -> None:
    data, copy = tmp_path / "data", tmp_path / "copy"
    if exists:  # empty, as an operator or a container creates it
        for folder in (data, copy):
            folder.mkdir()
            folder.chmod(0o755)
    EmbeddedLog(data).close()
    load_secret(data / LOCAL_SECRET)
    ProgramLock(data / "checkpoints" / "server", "server").close()
    backup(data, copy)
    folders = [data, copy, *(path for top in (data, copy) for path in top.rglob("*") if path.is_dir())]
    assert {str(path): oct(_mode(path)) for path in folders if _mode(path) != 0o700} == {}
    assert _mode(data / LOCAL_SECRET) == 0o600


def test_doctor_warns_of_a_data_folder_that_others_can_enter(tmp_path: Path) -> None:
    data = tmp_path / "my data"
    settings = Settings.of(storage_data=data)
    assert list(check_data_access(settings)) == []  # none yet
    make_private(data)
    assert [one.state for one in check_data_access(settings)] == [OK]
    data.chmod(0o755)
    (warning,) = check_data_access(settings)
    assert (warning.state, warning.fix) == (WARN, f"chmod 700 '{data}'")
    assert "drwxr-xr-x" in warning.found
