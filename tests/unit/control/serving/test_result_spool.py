"""The result of a pull query between a worker and a slow client: where it is stored, and when that is deleted."""

from __future__ import annotations

import errno
import math
import os
import stat
import threading
from pathlib import Path

import pytest

from headrace.control.serving.result_spool import MEMORY_BYTES, ResultSpool, SpoolBudget
from headrace.errors import QueryKilled

PART = b"x" * MEMORY_BYTES
NOW = 0.0
"""A deadline: no waiting."""


def spool(folder: Path, limit: int = 8 * MEMORY_BYTES, user: str = "alice") -> tuple[ResultSpool, SpoolBudget]:
    budget = SpoolBudget(limit)
    return ResultSpool(folder, budget, user), budget


def open_files(folder: Path) -> list[os.stat_result]:
    """The files of a folder that this process has open, also those without a name."""
    links = [Path(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")]
    return [link.stat() for link in links if link.is_symlink() and os.readlink(link).startswith(f"{folder}/")]


def test_what_is_not_read_goes_to_a_file_without_a_name_and_comes_back_in_order(tmp_path: Path) -> None:
    result, budget = spool(tmp_path)
    parts = [bytes([n]) * MEMORY_BYTES for n in range(4)]
    for part in parts:
        assert result.put(part, NOW)
    (file,) = open_files(tmp_path)
    assert (stat.S_IMODE(file.st_mode), file.st_size, os.listdir(tmp_path)) == (0o600, 3 * MEMORY_BYTES, [])
    assert budget.used == 3 * MEMORY_BYTES
    result.end()
    assert [result.take() for _ in range(5)] == [*parts, None]
    assert (open_files(tmp_path), budget.used) == ([], 0)


def test_a_client_that_reads_in_time_needs_no_file(tmp_path: Path) -> None:
    result, budget = spool(tmp_path)
    for _ in range(20):
        assert result.put(PART, NOW)
        assert result.take() == PART
        assert budget.used == 0


def test_a_failure_follows_what_is_stored(tmp_path: Path) -> None:
    result, _ = spool(tmp_path)
    result.put(b"a", NOW)
    result.end(QueryKilled("x", fix="-"))
    assert result.take() == b"a"
    with pytest.raises(QueryKilled):
        result.take()


@pytest.mark.parametrize("fails", [True, False], ids=["killed", "closed"])
def test_the_file_is_deleted_when_the_query_ends(tmp_path: Path, fails: bool) -> None:
    result, budget = spool(tmp_path)
    for _ in range(3):
        result.put(PART, NOW)
    if fails:
        result.fail(QueryKilled("x", fix="-"))
        with pytest.raises(QueryKilled):
            result.take()
    else:
        result.close()
        assert result.take() is None
    assert (open_files(tmp_path), budget.used) == ([], 0)
    assert not result.put(PART, math.inf)  # the worker learns that nobody reads it


def test_one_user_leaves_room_for_others(tmp_path: Path) -> None:
    budget = SpoolBudget(4 * MEMORY_BYTES)
    alice, bob, carol = (ResultSpool(tmp_path, budget, user) for user in ("alice", "bob", "carol"))
    for _ in range(3):
        assert alice.put(PART, NOW)
    with pytest.raises(TimeoutError):
        alice.put(PART, NOW)
    for other in (bob, carol):
        for _ in range(2):  # the second is stored in the file
            assert other.put(PART, NOW)
    assert budget.used == 4 * MEMORY_BYTES


@pytest.mark.parametrize("is_full", [True, False], ids=["disk", "budget"])
def test_without_room_the_worker_waits_for_the_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_full: bool
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    result, budget = spool(tmp_path, limit=8 * MEMORY_BYTES if is_full else 0)
    if is_full:
        monkeypatch.setattr(os, "pwrite", refuse)
    assert result.put(PART, NOW)
    with pytest.raises(TimeoutError):
        result.put(PART, NOW)
    done: list[bool] = []
    waiting = threading.Thread(target=lambda: done.append(result.put(b"last", math.inf)))
    waiting.start()
    assert result.take() == PART
    waiting.join(30)
    assert (done, result.take(), budget.used) == ([True], b"last", 0)
