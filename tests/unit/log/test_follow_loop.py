"""The loop that follows a log: when it takes a turn, how it stops, and how it retries."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from headrace.backoff import Backoff
from headrace.contracts import Append, TopicSpec
from headrace.errors import BrokerUnreachable, OffsetOutOfRange
from headrace.log import follow_loop
from headrace.log.embedded import EmbeddedLog
from headrace.log.follow_loop import IDLE_SECONDS, FollowLoop
from headrace.record import Record
from tests.wait import wait_until

HOUR = 3600.0
PAGE = 7


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EmbeddedLog]:
    with EmbeddedLog(tmp_path / "data") as log:
        log.create_topic("t", TopicSpec(partitions=3))
        yield log


class Turns:
    """Counts turns. Each waits until it may end, if `held`, and then asks for an append, for up to an hour."""

    def __init__(self, *, held: bool = False) -> None:
        self.count = 0
        self.times: list[float] = []
        self.may_end = threading.Event()
        if not held:
            self.may_end.set()

    def __call__(self) -> float:
        self.times.append(time.monotonic())
        self.count += 1
        assert self.may_end.wait(60)
        return HOUR


class Reader:
    """Follows all partitions, a page of each in a turn; begins again at the start of what retention has left."""

    def __init__(self, log: EmbeddedLog) -> None:
        self._log = log
        self._positions: dict[int, int] = {}
        self.read: dict[int, list[int]] = {partition: [] for partition in log.bounds("t")}
        self.pages: list[int] = []

    def turn(self) -> float:
        counts = [self._page(partition) for partition in self.read]
        return 0.0 if any(counts) else HOUR

    def _page(self, partition: int) -> int:
        at = self._positions.get(partition, 0)
        try:
            batch = self._log.read("t", partition, at, max_records=PAGE)
        except OffsetOutOfRange:
            self._positions[partition] = self._log.bounds("t")[partition].start
            return 1
        self.read[partition] += batch.rows.column("$offset").to_pylist()
        self._positions[partition] = batch.next_offset
        self.pages.append(len(batch))
        return len(batch)


@contextmanager
def following(log: EmbeddedLog, turn: Callable[[], float], *, quiet_seconds: float = 0.0) -> Iterator[FollowLoop]:
    with closing(FollowLoop(log, "follower", turn, quiet_seconds=quiet_seconds).start()) as loop:
        yield loop


def append(log: EmbeddedLog, partition: int = 0, count: int = 1) -> None:
    log.append([Append("t", [Record(b"x")] * count, partition)])


def test_every_record_of_all_partitions_is_read_once_in_order_and_in_pages(log: EmbeddedLog) -> None:
    append(log, 0, 50)
    reader = Reader(log)
    with following(log, reader.turn):
        for n in range(60):
            append(log, n % 3, 1 + n % 5)
        wait_until(lambda: all(len(reader.read[p]) == end for p, (_, end) in log.bounds("t").items()))
    assert reader.read == {p: list(range(end)) for p, (_, end) in log.bounds("t").items()}
    assert max(reader.pages) == PAGE


def test_a_follower_may_go_on_behind_removed_records(log: EmbeddedLog) -> None:
    append(log, 0, 20)
    log.truncate("t", 0, 15)
    reader = Reader(log)
    with following(log, reader.turn):
        wait_until(lambda: reader.read[0] == [15, 16, 17, 18, 19])
        append(log)
        wait_until(lambda: reader.read[0][-1] == 20)


def test_a_stop_ends_the_wait_for_an_append(log: EmbeddedLog) -> None:
    turns = Turns()
    began = time.monotonic()
    with following(log, turns):
        wait_until(lambda: turns.count == 1)
    assert time.monotonic() - began < HOUR / 60


def test_a_stop_within_a_turn_returns_at_once_and_the_turn_is_the_last(log: EmbeddedLog) -> None:
    turns = Turns(held=True)
    with following(log, turns) as loop:
        wait_until(lambda: turns.count == 1)
        loop.stop()
        append(log)
        turns.may_end.set()
    assert turns.count == 1


def test_a_stop_ends_a_pause_within_a_turn(log: EmbeddedLog) -> None:
    paused = threading.Event()

    def turn() -> float:
        paused.set()
        loop.pause(HOUR)
        return 0.0

    loop = FollowLoop(log, "follower", turn)
    with closing(loop.start()):
        assert paused.wait(60)


def test_a_loop_that_was_stopped_before_it_began_takes_no_turn(log: EmbeddedLog) -> None:
    turns = Turns()
    loop = FollowLoop(log, "follower", turns)
    loop.stop()
    loop.run()
    assert turns.count == 0


@pytest.mark.parametrize("what", ["append", "wake"])
def test_what_happens_within_a_turn_is_seen_by_the_next_one(log: EmbeddedLog, what: str) -> None:
    turns = Turns(held=True)
    with following(log, turns) as loop:
        wait_until(lambda: turns.count == 1)
        append(log) if what == "append" else loop.wake()
        turns.may_end.set()
        wait_until(lambda: turns.count == 2)


@pytest.mark.parametrize("what", ["append", "wake"])
def test_a_sleeping_loop_takes_a_turn(log: EmbeddedLog, what: str) -> None:
    turns = Turns()
    with following(log, turns) as loop:
        for expected in range(2, 7):
            append(log) if what == "append" else loop.wake()
            wait_until(lambda expected=expected: turns.count >= expected)


def test_a_loop_without_records_takes_no_turns(log: EmbeddedLog) -> None:
    turns = Turns()
    with following(log, turns):
        for _ in range(20):
            append(log)
        wait_until(lambda: turns.count >= 2)
    assert turns.count < 100  # an append may signal twice, a busy loop takes thousands


def test_appends_in_quick_succession_are_read_together(log: EmbeddedLog) -> None:
    turns = Turns()
    with following(log, turns, quiet_seconds=0.2):
        for _ in range(50):
            append(log)
        wait_until(lambda: turns.count >= 2)
    assert all(later - earlier >= 0.2 for earlier, later in pairwise(turns.times))


def test_a_turn_that_fails_is_repeated_after_growing_pauses(log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow_loop, "_BACKOFF", Backoff(0.05, 0.1))
    times: list[float] = []

    def turn() -> float:
        times.append(time.monotonic())
        if len(times) < 4:
            raise BrokerUnreachable("no response") if len(times) < 3 else RuntimeError("unexpected")
        return HOUR

    with following(log, turn):
        wait_until(lambda: len(times) == 4)
        append(log)
        wait_until(lambda: len(times) >= 5)
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert [gap >= least for gap, least in zip(gaps, (0.05, 0.1, 0.1), strict=False)] == [True] * 3


def test_a_stop_ends_the_pause_before_a_retry(log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow_loop, "_BACKOFF", Backoff(HOUR, HOUR))
    failed = threading.Event()

    def turn() -> float:
        failed.set()
        raise BrokerUnreachable("no response")

    with following(log, turn):
        assert failed.wait(60)


def test_the_loop_ends_when_the_log_is_closed(tmp_path: Path) -> None:
    log = EmbeddedLog(tmp_path / "data")
    log.create_topic("t")

    def turn() -> float:
        log.bounds("t")
        return IDLE_SECONDS

    thread = threading.Thread(target=FollowLoop(log, "follower", turn).run, daemon=True)
    thread.start()
    log.close()
    thread.join(60)
    assert not thread.is_alive()
