"""Queues under random operations: takes, acks, rejects, crashes, clock skew, snapshots, new partitions.

Whatever happens: a message has at most one live holder, comes again until it is done or dead, never after that,
never too often, and is buried exactly once.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from headrace.clock import ManualClock, millis
from headrace.contracts import Append, TopicSpec, dead_letter_topic
from headrace.errors import UnknownReceipt
from headrace.log.queues import Delivery, Queue
from headrace.log.stored_rows import from_records
from headrace.record import Record
from tests.contract.rows_and_records import records
from tests.log_environments import LogEnvironment

START = 1_700_000_000_000
LIMIT = 3
VISIBILITY = timedelta(seconds=10)
CHOICE = st.integers(0, 99)
ACTIONS = st.sampled_from(["take", "take later", "ack", "requeue", "refuse", "snapshot"])


class SkewedClock:
    """A worker's clock, some way off the true one."""

    def __init__(self, true: ManualClock, by: int) -> None:
        self._true, self._by = true, by

    def now(self) -> int:
        return self._true.now() + self._by


class InterruptedLog:
    """A worker's way to the log: just before an append, after it has made up its mind, others may act."""

    def __init__(self, log: Any) -> None:
        self._log = log
        self.others: Callable[[], None] | None = None
        self.delay = 0
        self.count = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    def append(self, *arguments: Any, **options: Any) -> Any:
        # A snapshot follows an event of this worker that the model has not been told of yet.
        if b'"snapshot"' not in arguments[-1][-1].rows.column("value")[0].as_py():
            self.interrupt()
        return self._log.append(*arguments, **options)

    def writer(self, name: str) -> Any:
        writer = InterruptedLog(self._log.writer(name))
        writer.interrupt = self.interrupt
        return writer

    def interrupt(self) -> None:
        self.delay -= 1
        if self.others is not None and self.delay < 0:
            others, self.others = self.others, None
            self.count += 1
            others()


class QueueMachine(RuleBasedStateMachine):
    world: LogEnvironment

    def __init__(self) -> None:
        super().__init__()
        self.world.begin()
        self.clock = ManualClock(START)
        self.log = self.world.open(self.clock)
        self.jobs = f"{self.world.place}jobs"
        self.log.create_topic(self.jobs, TopicSpec(partitions=2, partitioner="round-robin"))
        self.workers: list[Queue] = []
        self.sent = 0
        self.claims: dict[str, dict[int, Delivery]] = {}  # by message and number of the delivery
        self.claimed_at: dict[str, int] = {}  # by receipt
        self.given_back: set[str] = set()  # receipts
        self.refused: set[str] = set()
        self.acked: set[str] = set()
        self.receipts: list[tuple[str, str]] = []
        self.start_worker(0, 7)
        self.start_worker(100, 1_000)
        self.send(4)

    @rule(skew=st.integers(-5_000, 5_000), every=st.sampled_from([3, 7, 1_000]))
    def start_worker(self, skew: int, every: int) -> None:
        clock = SkewedClock(self.clock, skew)
        options = {"visibility": VISIBILITY, "max_deliveries": LIMIT, "snapshot_every": every}
        self.workers.append(Queue(InterruptedLog(self.log), self.jobs, "work", clock=clock, **options))

    @precondition(lambda self: len(self.workers) > 1)
    @rule(n=CHOICE, r=CHOICE, q=CHOICE, one=ACTIONS, other=ACTIONS, delay=st.integers(0, 2))
    def cross(self, n: int, r: int, q: int, one: str, other: str, delay: int) -> None:
        """One worker acts, and just before one of its events is appended another does something, to the end."""
        queue, crossing = self.workers[n % len(self.workers)], self.workers[(n + 1) % len(self.workers)]
        queue._log.others = lambda: self.act(crossing, other, q)
        queue._log.delay = delay if one.startswith("take") else 0
        self.act(queue, one, r)
        queue._log.others = None

    def act(self, queue: Queue, what: str, r: int) -> None:
        actions: dict[str, Callable[[], None]] = {
            "take": lambda: self.take_by(queue, 1 + r % 3),
            "take later": lambda: self.take_later(queue),
            "ack": lambda: self.ack_by(queue, r),
            "requeue": lambda: self.reject_by(queue, r, requeue=True),
            "refuse": lambda: self.reject_by(queue, r, requeue=False),
            "snapshot": queue.journal.snapshot,
        }
        actions[what]()

    def take_later(self, queue: Queue) -> None:
        self.clock.advance(timedelta(seconds=11))
        self.take_by(queue, 4)

    @precondition(lambda self: len(self.workers) > 1)
    @rule(n=CHOICE)
    def crash(self, n: int) -> None:
        del self.workers[n % len(self.workers)]

    @rule(count=st.integers(1, 4))
    def send(self, count: int) -> None:
        jobs = [Record(str(self.sent + i).encode()) for i in range(count)]
        self.log.append([Append(self.jobs, from_records(jobs))])
        self.sent += count

    @rule()
    def add_partition(self) -> None:
        partitions = self.log.topic(self.jobs).partitions
        if partitions < 4:
            self.log.alter_topic(self.jobs, partitions=partitions + 1)

    @rule(seconds=st.sampled_from([1, 4, 11, 30]))
    def pass_time(self, seconds: int) -> None:
        self.clock.advance(timedelta(seconds=seconds))

    @rule(n=CHOICE, count=st.integers(1, 4))
    def take(self, n: int, count: int) -> None:
        self.take_by(self.workers[n % len(self.workers)], count)

    def take_by(self, queue: Queue, count: int) -> None:
        taken = queue.take(count)
        assert len(taken) <= count
        for delivery in taken:
            self.delivered(delivery)

    def delivered(self, delivery: Delivery) -> None:
        """A worker that was interrupted may report its delivery after another has already got the next one."""
        message, number = (delivery.record.value or b"").decode(), delivery.deliveries
        claims = self.claims.setdefault(message, {})
        assert 1 <= number <= LIMIT
        assert number not in claims
        claims[number] = delivery
        self.claimed_at[delivery.receipt] = delivery.expires_at - millis(VISIBILITY)
        self.receipts.append((message, delivery.receipt))
        if number == max(claims):
            assert message not in self.acked | self.refused
        for one, next_one in ((number - 1, number), (number, number + 1)):
            if one in claims and next_one in claims and claims[one].receipt not in self.given_back:
                assert claims[one].expires_at <= self.claimed_at[claims[next_one].receipt], "two live holders"

    def latest(self, message: str) -> Delivery:
        return self.claims[message][max(self.claims[message])]

    def is_held(self, message: str, receipt: str, queue: Queue) -> bool:
        """By the model: the latest receipt, not finished, and not spent by the time in the journal."""
        latest = self.latest(message)
        if latest.receipt != receipt or receipt in self.given_back or message in self.acked | self.refused:
            return False
        return latest.deliveries < LIMIT or latest.expires_at > queue.journal.now()

    def finish(self, queue: Queue, r: int, act: Callable[[str], Any]) -> str | None:
        """Act on a receipt; what comes of it must be what the model says. The message if it was held."""
        if not self.receipts:
            return None
        message, receipt = self.receipts[r % len(self.receipts)]
        queue.stats()
        held, interrupts = self.is_held(message, receipt, queue), queue._log.count
        try:
            act(receipt)
        except UnknownReceipt:
            assert not held or queue._log.count > interrupts
            return None
        assert held
        assert self.latest(message).receipt == receipt, "another has it"
        assert receipt not in self.given_back
        assert message not in self.acked | self.refused
        return message

    @rule(n=CHOICE, r=CHOICE)
    def ack(self, n: int, r: int) -> None:
        self.ack_by(self.workers[n % len(self.workers)], r)

    def ack_by(self, queue: Queue, r: int) -> None:
        message = self.finish(queue, r, queue.ack)
        if message is not None:
            self.acked.add(message)

    @rule(n=CHOICE, r=CHOICE, requeue=st.booleans())
    def reject(self, n: int, r: int, requeue: bool) -> None:
        self.reject_by(self.workers[n % len(self.workers)], r, requeue)

    def reject_by(self, queue: Queue, r: int, requeue: bool) -> None:
        message = self.finish(queue, r, lambda receipt: queue._finish("reject", (receipt,), requeue=requeue))
        if message is not None and requeue:
            self.given_back.add(self.latest(message).receipt)
        elif message is not None:
            self.refused.add(message)
        queue._dead_letters.write_expired()

    @rule(n=CHOICE, r=CHOICE)
    def extend(self, n: int, r: int) -> None:
        queue = self.workers[n % len(self.workers)]
        extended: list[int] = []
        message = self.finish(queue, r, lambda receipt: extended.append(queue.extend(receipt, VISIBILITY)))
        if message is not None:
            latest = self.latest(message)
            self.claims[message][latest.deliveries] = replace(latest, expires_at=extended[0])

    @rule(n=CHOICE)
    def snapshot(self, n: int) -> None:
        self.workers[n % len(self.workers)].journal.snapshot()

    @rule(n=CHOICE, m=CHOICE)
    def concurrent_snapshots(self, n: int, m: int) -> None:
        one, other = self.workers[n % len(self.workers)], self.workers[m % len(self.workers)]
        one.journal.sync()
        other.journal.snapshot()
        one.journal.snapshot()

    def dead_messages(self) -> list[str]:
        dead = dead_letter_topic(self.jobs)
        if dead not in {t.name for t in self.log.topics()}:
            return []
        return [(r.value or b"").decode() for r in records(self.log, dead)]

    @invariant()
    def dead_letters_are_written_once_with_a_reason(self) -> None:
        dead_messages = self.dead_messages()
        assert len(dead_messages) == len(set(dead_messages))
        assert not set(dead_messages) & self.acked
        assert all(m in self.refused or LIMIT in self.claims[m] for m in dead_messages)

    @invariant()
    def members_agree(self) -> None:
        for queue in self.workers:
            queue.journal.sync()
        states = [queue.journal.state for queue in self.workers]
        assert all(state == states[0] for state in states)

    def teardown(self) -> None:
        try:
            if sys.exc_info()[0] is None:  # else another error is on its way, and should be seen
                self.every_message_is_done_or_dead()
        finally:
            self.world.end()

    def every_message_is_done_or_dead(self) -> None:
        """In the end every message is done or dead, and a newcomer sees it so."""
        queue = self.workers[0]
        for _ in range(LIMIT + 2):
            self.clock.advance(timedelta(seconds=60))
            while taken := queue.take(5):
                for delivery in taken:
                    self.delivered(delivery)
                    queue.ack(delivery.receipt)
                    self.acked.add((delivery.record.value or b"").decode())
        assert self.acked | set(self.dead_messages()) == {str(i) for i in range(self.sent)}
        stats = Queue(self.log, self.jobs, "work", clock=self.clock).stats()
        assert (stats.ready, stats.in_flight, stats.lost) == (0, 0, 0)
        assert (stats.done, stats.dead) == (len(self.acked), len(self.dead_messages()))
