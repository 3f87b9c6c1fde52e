"""Secrets in files of the data folder."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headrace.access.secret_files import LOCAL_SECRET, find_local_secret, load_secret
from headrace.errors import SecretDamaged


def test_a_folder_without_a_secret_gets_one_that_its_owner_alone_can_read(tmp_path: Path) -> None:
    assert find_local_secret(tmp_path / "data") is None
    secret = load_secret(tmp_path / "data" / LOCAL_SECRET)
    assert find_local_secret(tmp_path / "data") == secret.decode()
    assert stat.S_IMODE((tmp_path / "data" / LOCAL_SECRET).stat().st_mode) == 0o600


def test_of_several_that_create_it_at_once_all_read_the_same_secret(tmp_path: Path) -> None:
    for number in range(20):
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(load_secret, [tmp_path / str(number) / LOCAL_SECRET] * 8))
        assert len(set(found)) == 1
        assert [one.name for one in (tmp_path / str(number)).iterdir()] == [LOCAL_SECRET]


@pytest.mark.parametrize("content", [b"", b"short", b"\xff" * 64])
def test_a_damaged_secret_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / LOCAL_SECRET).write_bytes(content)
    with pytest.raises(SecretDamaged):
        load_secret(tmp_path / LOCAL_SECRET)
    with pytest.raises(SecretDamaged):
        find_local_secret(tmp_path)
