"""The shared page of the commit signal: waking other processes, and hints that a reboot invalidates."""

from __future__ import annotations

import threading
from pathlib import Path

from headrace.log.embedded.ipc.commit_signal import CommitSignal
from tests.unit.log.embedded.data_folder import line, process, tell

RINGER = """
import sys
from pathlib import Path
from headrace.log.embedded.ipc.commit_signal import CommitSignal
bell = CommitSignal(Path(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
bell.notify()
"""


def test_a_signal_wakes_another_process(tmp_path: Path) -> None:
    bell = CommitSignal(tmp_path / "bell")
    seen = bell.commits
    with process(RINGER, tmp_path / "bell") as child:
        assert line(child) == "ready"
        tell(child)
        assert bell.wait(seen, 30) == seen + 1


def test_a_signal_wakes_all_threads(tmp_path: Path) -> None:
    bell = CommitSignal(tmp_path / "bell")
    seen, woken = bell.commits, []
    threads = [threading.Thread(target=lambda: woken.append(bell.wait(seen, 30))) for _ in range(3)]
    for thread in threads:
        thread.start()
    bell.notify()
    for thread in threads:
        thread.join()
    assert woken == [seen + 1] * 3


def test_a_signal_before_waiting_is_not_missed(tmp_path: Path) -> None:
    bell = CommitSignal(tmp_path / "bell")
    seen = bell.commits
    bell.notify()
    assert bell.wait(seen, 30) == seen + 1


def test_waiting_times_out(tmp_path: Path) -> None:
    bell = CommitSignal(tmp_path / "bell")
    assert bell.wait(bell.commits, 0.01) == bell.commits


def test_the_counter_wraps_around(tmp_path: Path) -> None:
    bell = CommitSignal(tmp_path / "bell")
    bell.page.commits = 0xFFFFFFFF
    bell.notify()
    assert bell.commits == 0


def test_the_synced_position_is_invalid_after_a_reboot(tmp_path: Path) -> None:
    bell = CommitSignal(tmp_path / "bell")
    bell.initialize(10)
    bell.page.synced = 10
    bell.initialize(12)
    assert (bell.page.committed, bell.page.synced) == (12, 10)
    bell.page.boot = b"another-boot"
    bell.initialize(8)
    assert (bell.page.committed, bell.page.synced) == (8, 0)
