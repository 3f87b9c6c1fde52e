"""The lock between processes: exclusive, fair, and released when its holder dies."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from headrace.log.embedded.ipc.fair_lock import FairLock, TryLock, descriptor
from tests.unit.log.embedded.data_folder import line, process, tell

HOLDER = """
import sys
from pathlib import Path
from headrace.log.embedded.ipc.fair_lock import FairLock
lock = FairLock.of(Path(sys.argv[1]))
print("ready", flush=True)
for request in sys.stdin:
    with lock.held(60):
        print("held", flush=True)
        sys.stdin.readline()
    print("free", flush=True)
"""

COUNTER = """
import sys
from pathlib import Path
from headrace.log.embedded.ipc.fair_lock import FairLock
lock, number, name = FairLock.of(Path(sys.argv[1])), Path(sys.argv[2]), sys.argv[3]
print("ready", flush=True)
sys.stdin.readline()
turns = 0
while True:
    with lock.held(60):
        count, *names = number.read_text().split()
        if int(count) >= 200:
            break
        number.write_text(" ".join([str(int(count) + 1), *names, name]))
"""


def test_the_lock_is_exclusive_and_every_process_gets_it(tmp_path: Path) -> None:
    number = tmp_path / "number"
    number.write_text("0")
    lock = tmp_path / "lock"
    with process(COUNTER, lock, number, "a") as a, process(COUNTER, lock, number, "b") as b:
        for child in (a, b):
            assert line(child) == "ready"
        for child in (a, b):
            tell(child)
        for child in (a, b):
            assert child.wait(60) == 0
    count, *names = number.read_text().split()
    assert (int(count), len(names)) == (200, 200)  # no increment was lost
    both = names[names.index("b") if names[0] == "a" else names.index("a") :]
    # From when both are at it until the first is done, they take turns: nobody waits for more than a few of the other.
    runs = "".join(both).replace("ab", "a b").replace("ba", "b a").split()
    assert max(map(len, runs[:-1]), default=0) <= 20


def test_the_lock_is_exclusive_between_threads(tmp_path: Path) -> None:
    lock, inside, worst = FairLock.of(tmp_path / "lock"), [0], [0]

    def work() -> None:
        for _ in range(50):
            with lock.held():
                inside[0] += 1
                worst[0] = max(worst[0], inside[0])
                inside[0] -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert worst == [1]


def test_a_killed_holder_releases_the_lock(tmp_path: Path) -> None:
    with process(HOLDER, tmp_path / "lock") as child:
        assert line(child) == "ready"
        tell(child)
        assert line(child) == "held"
        lock = FairLock.of(tmp_path / "lock")
        with pytest.raises(TimeoutError), lock.held(0.05):
            pass
        child.kill()
        child.wait()
        with lock.held(10):
            pass


def test_a_killed_waiter_does_not_block_the_queue(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with process(HOLDER, path) as holder, process(HOLDER, path) as waiter, process(HOLDER, path) as last:
        for child in (holder, waiter, last):
            assert line(child) == "ready"
        tell(holder)
        assert line(holder) == "held"
        tell(waiter)
        _until_ticket(path, 2)
        tell(last)
        _until_ticket(path, 3)
        waiter.kill()
        waiter.wait()
        tell(holder)
        assert line(holder) == "free"
        assert line(last) == "held"


def test_a_waiter_that_timed_out_does_not_admit_another(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with process(HOLDER, path) as holder, process(HOLDER, path) as last:
        for child in (holder, last):
            assert line(child) == "ready"
        tell(holder)
        assert line(holder) == "held"
        with pytest.raises(TimeoutError), FairLock.of(path).held(0.05):
            pass
        tell(last)
        _until_ticket(path, 3)
        with pytest.raises(TimeoutError), FairLock.of(path).held(0.1):
            pass
        tell(holder)
        assert line(holder) == "free"
        assert line(last) == "held"


def test_waiters_time_out_if_the_holder_is_stopped(tmp_path: Path) -> None:
    with process(HOLDER, tmp_path / "lock") as child:
        assert line(child) == "ready"
        tell(child)
        assert line(child) == "held"
        os.kill(child.pid, signal.SIGSTOP)
        with pytest.raises(TimeoutError), FairLock.of(tmp_path / "lock").held(0.05):
            pass


def test_a_process_holds_the_lock_once_however_often_it_tries(tmp_path: Path) -> None:
    fd = descriptor(tmp_path / "turns")
    first, second = TryLock.of(fd, 5), TryLock.of(fd, 5)
    assert first.take()
    assert not second.take()
    first.give()
    assert second.take()
    second.give()


def test_a_recreated_file_is_another_lock(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    old = FairLock.of(path)
    path.unlink()
    new = FairLock.of(path)
    assert old is not new
    assert FairLock.of(path) is new
    with old.held(), new.held(1):
        pass


def _until_ticket(path: Path, count: int) -> None:
    """Wait until so many tickets were drawn."""
    deadline = time.monotonic() + 30
    while int.from_bytes(path.read_bytes()[:8], "little") < 1024 + count:
        assert time.monotonic() < deadline
