"""Corner cases of groups: members that were presumed dead, recreated topics, selective filters."""

from __future__ import annotations

from datetime import timedelta

import pyarrow.compute as pc
import pytest

from headrace.clock import ManualClock
from headrace.contracts import Append, Subscription, TopicPartition, TopicSpec
from headrace.errors import GroupFenced, UnknownTopic
from headrace.log.embedded import EmbeddedLog
from tests.unit.log.embedded.conftest import OpenLog
from tests.unit.log.embedded.data_folder import put, raw

AT_ONCE = timedelta(0)
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
ON_T = Subscription(("t",))


def test_a_reassigned_partition_starts_at_its_committed_offset(log: EmbeddedLog) -> None:
    log.create_topic("t", TopicSpec(partitions=2))
    for p in range(2):
        log.append([Append("t", raw(b"1", b"2", b"3"), p)])
    first = log.consumer("g", ON_T)
    first.poll(AT_ONCE)
    first.commit({T0: 1, T1: 1})
    second = log.consumer("g", ON_T)
    (kept,) = first.assignment
    assert first.position(kept) == 3  # what stays goes on where it was
    second.close()
    (back,) = {T0, T1} - {kept}
    assert (first.position(kept), first.position(back)) == (3, 1)


def test_a_missed_rebalance_is_noticed(log: EmbeddedLog) -> None:
    log.create_topic("t")
    put(log, "t", b"1", b"2")
    first = log.consumer("g", ON_T)
    first.poll(AT_ONCE)
    log._groups.leave("g", first.id)  # as if it had been thought dead
    second = log.consumer("g", ON_T)
    second.close()
    with pytest.raises(GroupFenced):
        first.commit()
    assert [len(b) for b in first.poll(AT_ONCE)] == [2]
    first.commit()


def test_a_member_of_a_deleted_group_joins_the_new_group(log: EmbeddedLog, clock: ManualClock) -> None:
    log.create_topic("t", TopicSpec(partitions=2))
    first = log.consumer("g", ON_T)
    log._groups.leave("g", first.id)
    log.delete_group("g")
    second = log.consumer("g", ON_T)
    assert log.group("g").generation == 1  # the same number as before, by chance
    assert (len(first.assignment), len(second.assignment)) == (1, 1)


def test_members_without_heartbeat_are_removed(open_log: OpenLog, clock: ManualClock) -> None:
    log = open_log(clock, storage_group_session_timeout=timedelta(seconds=10))
    log.create_topic("t")
    first = log.consumer("g", ON_T)
    second = log.consumer("g", ON_T)
    assert (first.assignment, second.assignment) == ({T0}, frozenset())
    clock.advance(timedelta(seconds=11))
    third = log.consumer("g", ON_T)
    assert third.assignment == {T0}
    assert first.assignment == frozenset()  # it was buried, and comes back as the last


def test_a_live_member_reads_a_recreated_topic_from_the_beginning(log: EmbeddedLog) -> None:
    log.create_topic("t")
    put(log, "t", b"1", b"2", b"3")
    consumer = log.consumer("g", ON_T)
    consumer.poll(AT_ONCE)
    consumer.commit()
    log.delete_topic("t")
    log.create_topic("t")
    put(log, "t", b"new")
    assert [len(b) for b in consumer.poll(AT_ONCE)] == [1]
    consumer.commit()
    assert log.group("g").offsets == {T0: 1}


def test_deleting_a_subscribed_topic_raises_an_error(log: EmbeddedLog) -> None:
    log.create_topic("t")
    log.create_topic("u")
    consumer = log.consumer("g", Subscription(("t", "u")))
    log.delete_topic("u")
    with pytest.raises(UnknownTopic):
        consumer.poll(AT_ONCE)
    log.create_topic("u")
    put(log, "u", b"x")
    assert [b.topic for b in consumer.poll(AT_ONCE)] == ["u"]
    log.delete_topic("u")
    assert log.group("g").lag == {T0: 0}


def test_a_selective_filter_does_not_delay_a_poll(log: EmbeddedLog) -> None:
    log.create_topic("t")
    log.append([Append("t", raw(*(b"%04d" % i for i in range(2000))))])
    wanted = Subscription(("t",), where=lambda batch: pc.equal(batch.rows.column("value"), b"1999"))
    consumer = log.consumer("g", wanted)
    # 200 reads of ten rows within one poll: it would take minutes if each of them waited for the bell.
    (batch,) = consumer.poll(timedelta(seconds=30), max_records=10)
    assert batch.rows.column("value").to_pylist() == [b"1999"]


def test_partitions_are_polled_in_turn(log: EmbeddedLog) -> None:
    log.create_topic("t", TopicSpec(partitions=3))
    for p in range(3):
        log.append([Append("t", raw(b"1", b"2"), p)])
    consumer = log.consumer("g", ON_T)
    order = [batch.partition for _ in range(6) for batch in consumer.poll(AT_ONCE, max_records=1)]
    assert order == [0, 1, 2, 0, 1, 2]


def test_a_consumer_can_be_closed_after_its_log(open_log: OpenLog) -> None:
    log = open_log()
    log.create_topic("t")
    consumer = log.consumer("g", ON_T)
    log.close()
    consumer.close()
    other = open_log()
    assert other.consumer("g", ON_T).assignment == {T0}  # at once: its owner is gone
