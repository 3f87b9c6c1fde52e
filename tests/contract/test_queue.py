"""Queues use only the `Log` contract, so they work on every log."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from headrace.clock import ManualClock
from headrace.contracts import Append, Log, TopicSpec
from headrace.errors import UnknownReceipt
from headrace.log.queues import Queue
from tests.contract.conftest import OpenLog
from tests.contract.rows_and_records import put, raw, values

NOW = 1_800_000_000_000


def taken(queue: Queue, count: int = 100) -> list[bytes | None]:
    return [d.record.value for d in queue.take(count)]


def test_each_message_goes_to_one_worker(log: Log, open_log: OpenLog, name: str) -> None:
    log.create_topic(name, TopicSpec(partitions=2))
    log.append([Append(name, raw(*(b"%d" % i for i in range(10))))])
    queues = [Queue(log, name, "q"), Queue(open_log(), name, "q")]
    found: list[bytes | None] = []
    while got := [(queue, d) for queue in queues for d in queue.take(2)]:
        found += [d.record.value for _, d in got]
        for queue, delivery in got:
            queue.ack(delivery.receipt)
    assert sorted(v for v in found if v) == [b"%d" % i for i in range(10)]
    assert queues[0].stats().done == 10


def test_a_message_is_redelivered_after_its_timeout(open_log: OpenLog, name: str) -> None:
    clock = ManualClock(NOW)
    log = open_log(clock)
    log.create_topic(name)
    put(log, name, b"x")
    queue = Queue(log, name, "q", visibility=timedelta(seconds=10), clock=clock)
    (first,) = queue.take()
    assert queue.take() == []
    clock.advance(timedelta(seconds=11))
    (second,) = queue.take()
    assert (second.record.value, second.deliveries) == (b"x", 2)
    with pytest.raises(UnknownReceipt):
        queue.ack(first.receipt)
    queue.ack(second.receipt)
    assert queue.take() == []


def test_a_message_that_fails_too_often_becomes_one_dead_letter(open_log: OpenLog, name: str) -> None:
    log = open_log()
    log.create_topic(name)
    put(log, name, b"bad")
    queue = Queue(log, name, "q", max_deliveries=2)
    for _ in range(2):
        (delivery,) = queue.take()
        queue.reject(delivery.receipt)
    assert queue.take() == []
    assert values(log, f"{name}.dead") == [b"bad"]
    assert queue.stats().dead == 1


def test_a_later_worker_resumes(log: Log, open_log: OpenLog, name: str) -> None:
    log.create_topic(name)
    put(log, name, b"a", b"b", b"c")
    first = Queue(log, name, "q")
    first.ack(first.take()[0].receipt)
    assert taken(Queue(open_log(), name, "q")) == [b"b", b"c"]


def test_many_concurrent_workers_receive_each_message_once(log: Log, open_log: OpenLog, name: str) -> None:
    log.create_topic(name)
    log.append([Append(name, raw(*(b"%d" % i for i in range(30))))])
    logs = [open_log() for _ in range(3)]

    def work(one: Log) -> list[bytes | None]:
        queue, found = Queue(one, name, "q"), []
        while deliveries := queue.take(3):
            found += [d.record.value for d in deliveries]
            queue.ack(*(d.receipt for d in deliveries))
        return found

    with ThreadPoolExecutor(3) as pool:
        found = [v for values in pool.map(work, logs) for v in values]
    assert sorted(v for v in found if v) == sorted(b"%d" % i for i in range(30))
