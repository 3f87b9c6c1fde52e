"""Queues: each message to one worker at a time, again after a failure, dead after too many, nothing lost unseen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headrace.clock import ManualClock
from headrace.contracts import Append, Log, TopicSpec
from headrace.errors import BadOption, OffsetOutOfRange, UnknownReceipt, UnknownTopic, WriterFenced
from headrace.log.embedded import EmbeddedLog
from headrace.log.queues import Delivery, Queue, QueueStats
from headrace.log.queues.state import MessageId, QueueState
from headrace.log.stored_rows import from_records
from headrace.record import Record
from headrace.schema import Schema
from headrace.settings import Settings
from tests.memory_log import MemoryLog

SECOND = timedelta(seconds=1)
START = 1_700_000_000_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


@pytest.fixture(params=["memory", "embedded"])
def log(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> Iterator[Log]:
    opened: Log = (
        MemoryLog(clock)
        if request.param == "memory"
        else EmbeddedLog(tmp_path, Settings.of(storage_maintenance_interval=timedelta(0)), clock)
    )
    opened.create_topic("jobs", TopicSpec(partitions=2, partitioner="round-robin"))
    yield opened
    opened.close()


@pytest.fixture
def worker(log: Log, clock: ManualClock) -> Callable[..., Queue]:
    return lambda name="work", **options: Queue(log, "jobs", name, **{"clock": clock, **options})


def send(log: Log, *values: str, topic: str = "jobs", partition: int | None = None) -> None:
    log.append([Append(topic, from_records([Record(v.encode()) for v in values]), partition)])


def values(deliveries: list[Delivery]) -> list[str]:
    return [(d.record.value or b"").decode() for d in deliveries]


def dead(log: Log, topic: str = "jobs.dead") -> list[dict[str, str]]:
    records = log.read(topic, 0, 0).records()
    return [{"value": (r.value or b"").decode(), **{n: v.decode() for n, v in r.headers}} for r in records]


def test_messages_are_shared_between_workers_until_acknowledged(log: Log, worker: Callable[..., Queue]) -> None:
    send(log, *"abcdef")
    one, two = worker(), worker()
    first, second, third = one.take(3), two.take(2), one.take(5)
    assert [len(first), len(second), len(third)] == [3, 2, 1]
    assert sorted(values(first + second + third)) == list("abcdef")
    assert one.stats() == QueueStats(ready=0, in_flight=6, done=0, dead=0, lost=0)
    one.ack(*(d.receipt for d in first + third))
    two.ack(second[0].receipt)
    assert two.stats() == one.stats() == QueueStats(ready=0, in_flight=1, done=5, dead=0, lost=0)
    assert one.take(9) == two.take(9) == []


def test_an_unacknowledged_message_is_redelivered_after_its_timeout(
    log: Log, clock: ManualClock, worker: Callable[..., Queue]
) -> None:
    send(log, "a")
    one, two = worker(visibility=10 * SECOND), worker(visibility=10 * SECOND)
    (first,) = one.take()
    assert (first.deliveries, first.expires_at) == (1, START + 10_000)
    clock.advance(9 * SECOND)
    assert two.take() == []
    clock.advance(SECOND)
    (second,) = two.take()
    assert (second.deliveries, second.record.value) == (2, b"a")
    with pytest.raises(UnknownReceipt):
        one.ack(first.receipt)
    two.ack(second.receipt)
    with pytest.raises(UnknownReceipt):
        two.ack(second.receipt)


def test_a_late_acknowledgement_is_accepted_before_redelivery(
    log: Log, clock: ManualClock, worker: Callable[..., Queue]
) -> None:
    send(log, "a")
    queue = worker()
    (delivery,) = queue.take()
    clock.advance(60 * SECOND)
    queue.ack(delivery.receipt)
    assert queue.stats().done == 1


def test_extend_prolongs_the_timeout(log: Log, clock: ManualClock, worker: Callable[..., Queue]) -> None:
    send(log, "a")
    queue = worker(visibility=10 * SECOND)
    (delivery,) = queue.take()
    clock.advance(8 * SECOND)
    assert queue.extend(delivery.receipt, 10 * SECOND) == START + 18_000
    clock.advance(8 * SECOND)
    assert worker().take() == []
    queue.ack(delivery.receipt)


def test_a_rejected_message_is_redelivered_until_it_is_dead(
    log: Log, clock: ManualClock, worker: Callable[..., Queue]
) -> None:
    log.append([Append("jobs", from_records([Record(b"bad", key=b"k", headers=(("h", b"1"),))]))])
    queue = worker(max_deliveries=3)
    for n in (1, 2, 3):
        (delivery,) = queue.take()
        assert delivery.deliveries == n
        queue.reject(delivery.receipt)
    assert queue.take() == worker().take() == []
    (letter,) = dead(log)
    assert letter["origin"] in ("jobs/0/0", "jobs/1/0")
    del letter["origin"]
    reason = 'queue "work": the message failed after 3 deliveries'
    assert letter == {"value": "bad", "h": "1", "code": "max-deliveries", "reason": reason, "deliveries": "3"}
    assert queue.stats() == QueueStats(ready=0, in_flight=0, done=0, dead=1, lost=0)


def test_a_message_that_timed_out_too_often_is_dead(log: Log, clock: ManualClock, worker: Callable[..., Queue]) -> None:
    send(log, "a", "b")
    queue = worker(max_deliveries=2)
    for _ in (1, 2):
        assert len(queue.take(5)) == 2
        clock.advance(31 * SECOND)
    assert worker().take() == []
    assert sorted(d["value"] for d in dead(log)) == ["a", "b"]
    assert queue.take() == []
    assert len(dead(log)) == 2


def test_a_dead_message_cannot_be_acknowledged(log: Log, clock: ManualClock, worker: Callable[..., Queue]) -> None:
    send(log, "a")
    one, two = worker(max_deliveries=1), worker()
    (delivery,) = one.take()
    clock.advance(31 * SECOND)
    two.take()
    with pytest.raises(UnknownReceipt):
        one.ack(delivery.receipt)
    assert len(dead(log)) == 1


def test_a_message_cannot_be_acknowledged_after_its_last_timeout() -> None:
    state, item = QueueState(), MessageId(0, 0)
    state.apply({"event": "claim", "at": 5, "id": "c", "owner": "o", "items": [item], "hold": 10, "limit": 1})
    state.apply({"event": "tick", "at": 15})
    assert state.exhausted(state.at) == [item]
    for late in ({"event": "ack"}, {"event": "extend", "hold": 9}, {"event": "reject", "requeue": True}):
        assert state.apply({**late, "at": 1, "items": [[*item, "c"]]}) == []
    assert state.apply({"event": "dead", "at": 15, "items": [item]}) == [item]
    assert (state.done, state.dead, state.held) == (0, 1, {})


def test_a_message_rejected_without_requeue_is_dead_at_once(log: Log, worker: Callable[..., Queue]) -> None:
    send(log, "a")
    queue = worker(dead_letters="graves")
    (delivery,) = queue.take()
    queue.reject(delivery.receipt, requeue=False)
    (letter,) = dead(log, "graves")
    assert (letter["code"], letter["value"]) == ("rejected", "a")
    with pytest.raises(UnknownReceipt):
        queue.reject(delivery.receipt)


def test_two_members_write_one_dead_letter_for_a_message(
    log: Log, clock: ManualClock, worker: Callable[..., Queue]
) -> None:
    send(log, *"abcd")
    workers = [worker(max_deliveries=1) for _ in range(3)]
    for turn in range(4):
        workers[turn % 3].take(1)
        clock.advance(31 * SECOND)
        workers[(turn + 1) % 3].stats()
    for queue in workers:
        queue.take()
    assert sorted(d["value"] for d in dead(log)) == list("abcd")


def test_a_stalled_member_does_not_repeat_a_dead_letter(
    log: Log, clock: ManualClock, worker: Callable[..., Queue]
) -> None:
    send(log, "a")
    slow, quick = worker(max_deliveries=1), worker(max_deliveries=1)
    slow.take()
    clock.advance(31 * SECOND)
    append, fenced = slow._dead_letters._append, []

    def sleep_then_append(*arguments: Any) -> None:
        quick.take()
        with pytest.raises(WriterFenced) as caught:
            append(*arguments)
        fenced.append(caught.value)
        raise caught.value

    slow._dead_letters._append = sleep_then_append
    slow.take()
    assert len(fenced) == 1
    assert [d["value"] for d in dead(log)] == ["a"]
    assert slow.stats() == quick.stats() == QueueStats(ready=0, in_flight=0, done=0, dead=1, lost=0)


def test_each_queue_name_receives_every_message(log: Log, worker: Callable[..., Queue]) -> None:
    send(log, *"abc")
    left, right = worker("left"), worker("right")
    left.ack(*(d.receipt for d in left.take(9)))
    assert sorted(values(right.take(9))) == list("abc")


def test_new_partitions_and_messages_are_delivered(log: Log, worker: Callable[..., Queue]) -> None:
    queue = worker()
    assert queue.take(9) == []
    log.alter_topic("jobs", partitions=5)
    send(log, *"abcdefgh")
    assert sorted(values(queue.take(99))) == list("abcdefgh")


def test_rows_that_retention_removed_are_counted(log: Log, clock: ManualClock, worker: Callable[..., Queue]) -> None:
    log.create_topic("old")
    send(log, *"abcdef", topic="old")
    log.truncate("old", 0, 1)
    queue = Queue(log, "old", "work", clock=clock)
    assert queue.stats().lost == 0  # it was gone before the queue was there
    (held,) = queue.take()
    log.truncate("old", 0, 4)
    assert queue.stats().lost == 2
    assert values(queue.take(9)) == ["e", "f"]
    assert queue.stats() == QueueStats(ready=0, in_flight=3, done=0, dead=0, lost=2)
    queue.ack(held.receipt)
    clock.advance(31 * SECOND)
    log.truncate("old", 0, 5)
    assert values(queue.take(9)) == ["f"]
    assert queue.stats() == QueueStats(ready=0, in_flight=1, done=1, dead=0, lost=3)


def test_a_dead_message_without_its_row_is_counted_as_lost(log: Log, clock: ManualClock) -> None:
    log.create_topic("old")
    send(log, "a", topic="old")
    queue = Queue(log, "old", "work", clock=clock, max_deliveries=1)
    queue.take()
    log.truncate("old", 0, 1)
    clock.advance(31 * SECOND)
    assert queue.take() == []
    assert queue.stats() == QueueStats(ready=0, in_flight=0, done=0, dead=0, lost=1)


def test_compacted_rows_are_skipped(clock: ManualClock) -> None:
    log = MemoryLog(clock)
    log.create_topic("state", TopicSpec(compact=True))
    log.append([Append("state", from_records([Record(v, b"k") for v in (b"1", b"2", b"3")]))])
    queue = Queue(log, "state", "work", clock=clock)
    assert values(queue.take()) == ["1"]
    log.compact()
    clock.advance(31 * SECOND)
    assert values(queue.take(9)) == ["3"]
    assert queue.stats() == QueueStats(ready=0, in_flight=1, done=0, dead=0, lost=1)


def test_typed_topics_deliver_rows_and_write_dead_letters_as_json(log: Log, clock: ManualClock) -> None:
    log.create_topic("typed", TopicSpec(schema=Schema.parse("id bigint key, name string")))
    log.append([Append("typed", pa.RecordBatch.from_pydict({"id": [7], "name": ["x"]}))])
    queue = Queue(log, "typed", "work", clock=clock)
    (delivery,) = queue.take()
    assert (delivery.row["id"], delivery.row["name"]) == (7, "x")
    queue.reject(delivery.receipt, requeue=False)
    (letter,) = log.read("typed.dead", 0, 0).records()
    assert (letter.key, letter.value) == ((7).to_bytes(8, "big"), b'{"id":7,"name":"x"}')


@pytest.mark.parametrize("receipt", ["", "x", "0" * 32 + ".0.0", "0" * 32 + ".0.99999999999999999999"])
def test_unknown_receipts_are_refused(receipt: str, worker: Callable[..., Queue]) -> None:
    with pytest.raises(UnknownReceipt):
        worker().ack(receipt)


def test_invalid_calls_are_refused(log: Log, clock: ManualClock) -> None:
    with pytest.raises(UnknownTopic):
        Queue(log, "nothing", "work", clock=clock)
    options: list[dict[str, Any]] = [{"name": "a.b"}, {"name": ""}, {"max_deliveries": 0}, {"visibility": timedelta(0)}]
    for wrong in options:
        with pytest.raises(BadOption):
            Queue(log, "jobs", **{"name": "work", **wrong})


def test_a_recreated_topic_is_noticed(log: Log, clock: ManualClock) -> None:
    log.create_topic("again")
    send(log, *"abc", topic="again")
    Queue(log, "again", "work", clock=clock).take(3)
    log.delete_topic("again")
    log.create_topic("again")
    send(log, "d", topic="again")
    with pytest.raises(OffsetOutOfRange, match="is at offset 3"):
        Queue(log, "again", "work", clock=clock).take()


# -- the journal ------------------------------------------------------------------------------------------------------


def journal_start(log: Log) -> int:
    return log.bounds("__queue.jobs.work")[0].start


def test_the_journal_is_compacted_while_members_follow(log: Log, worker: Callable[..., Queue]) -> None:
    send(log, *(str(i) for i in range(60)))
    sleeper = worker()
    busy = worker(snapshot_every=10)
    (kept,) = sleeper.take()
    for _ in range(50):
        busy.ack(*(d.receipt for d in busy.take()))
    assert journal_start(log) > 50
    assert worker().stats() == sleeper.stats() == busy.stats()
    sleeper.ack(kept.receipt)
    assert worker().stats() == QueueStats(ready=9, in_flight=0, done=51, dead=0, lost=0)


def test_events_during_a_snapshot_are_not_lost(log: Log, worker: Callable[..., Queue]) -> None:
    send(log, *"abc")
    one, two = worker(), worker()
    one.take()
    two.take()  # `one` has not read this when it writes its snapshot
    one.journal.snapshot()
    assert journal_start(log) > 0
    assert worker().stats() == QueueStats(ready=1, in_flight=2, done=0, dead=0, lost=0)
    two.journal.snapshot()
    one.journal.snapshot()  # behind: another has removed more already
    assert worker().stats() == one.stats() == two.stats()


def test_a_crash_between_snapshot_and_truncation_loses_nothing(clock: ManualClock) -> None:
    class Crashing(MemoryLog):
        def truncate(self, topic: str, partition: int, before: int) -> None:
            raise KeyboardInterrupt

    log = Crashing(clock)
    log.create_topic("jobs")
    send(log, *"abc")
    queue = Queue(log, "jobs", "work", clock=clock)
    (delivery,) = queue.take()
    with pytest.raises(KeyboardInterrupt):
        queue.journal.snapshot()
    assert log.bounds("__queue.jobs.work")[0].start == 0
    other = Queue(log, "jobs", "work", clock=clock)
    other.ack(delivery.receipt)
    assert other.stats() == QueueStats(ready=2, in_flight=0, done=1, dead=0, lost=0)


def test_a_receipt_is_valid_after_a_snapshot_includes_its_event(log: Log, worker: Callable[..., Queue]) -> None:
    send(log, *"abc")
    one, two = worker(), worker()
    (delivery,) = one.take()
    append = one.journal._events._log.append

    def append_before_others_continue(appends: Any, **options: Any) -> Any:
        appended = append(appends, **options)
        one.journal._events._log = log
        two.stats()
        two.journal.snapshot()
        return appended

    class Interleaved:
        def __getattr__(self, name: str) -> Any:
            return append_before_others_continue if name == "append" else getattr(log, name)

    one.journal._events._log = Interleaved()  # type: ignore[assignment]
    one.ack(delivery.receipt)
    assert one.stats() == QueueStats(ready=2, in_flight=0, done=1, dead=0, lost=0)


def test_a_slow_clock_does_not_shorten_a_timeout(log: Log, worker: Callable[..., Queue]) -> None:
    send(log, "a", "b")
    behind, ahead = worker(clock=ManualClock(START - 3_600_000)), worker(clock=ManualClock(START))
    assert len(ahead.take()) == 1
    (held,) = behind.take()
    assert held.expires_at == START + 30_000
    assert ahead.take(9) == []
