"""Consumers: groups share partitions, commits are fenced, and removed rows raise an error."""

from __future__ import annotations

from datetime import timedelta

import pyarrow.compute as pc
import pytest

from headrace.contracts import Append, Consumer, Log, OffsetReset, Subscription, TopicPartition, TopicSpec
from headrace.errors import (
    BadFilter,
    BadOption,
    Closed,
    GroupFenced,
    OffsetLost,
    OffsetOutOfRange,
    UnknownTopic,
)
from tests.contract.conftest import OpenLog
from tests.contract.rows_and_records import SHORT, polled, put, raw, until, values_in


def on(*topics: str) -> Subscription:
    return Subscription(topics=topics)


def fill(log: Log, topic: str, count: int, partitions: int = 1) -> None:
    """`count` rows for each partition."""
    for p in range(partitions):
        for i in range(count):
            put(log, topic, b"%d.%d" % (p, i), partition=p)


def all_of(topic: str, partitions: int) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(topic, p) for p in range(partitions))


def share(*consumers: Consumer) -> list[int]:
    return [len(c.assignment) for c in consumers]


def test_one_member_reads_all_rows_in_order(log: Log, name: str) -> None:
    log.create_topic(name, TopicSpec(partitions=3))
    fill(log, name, 5, 3)
    consumer = log.consumer(name, on(name))
    found = polled(consumer, 15)
    assert consumer.assignment == all_of(name, 3)
    for p in range(3):
        assert [v for v in found if v and v.startswith(b"%d." % p)] == [b"%d.%d" % (p, i) for i in range(5)]
    assert consumer.poll(SHORT) == []
    consumer.close()


def test_a_poll_returns_at_most_max_rows(log: Log, name: str) -> None:
    log.create_topic(name, TopicSpec(partitions=2))
    fill(log, name, 10, 2)
    consumer = log.consumer(name, on(name))
    found: list[bytes | None] = []
    while len(found) < 20:
        batches = consumer.poll(timedelta(seconds=1), max_records=3)
        assert len(values_in(batches)) <= 3
        found += values_in(batches)
    assert len(set(found)) == 20
    consumer.close()


def test_a_waiting_consumer_receives_appended_rows(log: Log, open_log: OpenLog, name: str) -> None:
    log.create_topic(name)
    consumer = log.consumer(name, on(name))
    until(lambda: bool(consumer.assignment), consumer)
    put(open_log(), name, b"x")
    assert polled(consumer, 1) == [b"x"]
    consumer.close()


def test_uncommitted_rows_are_redelivered(log: Log, open_log: OpenLog, name: str) -> None:
    log.create_topic(name)
    fill(log, name, 6)
    first = log.consumer(name, on(name))
    assert len(polled(first, 6)) == 6
    first.commit({TopicPartition(name, 0): 4})
    first.close()
    second = open_log().consumer(name, on(name))
    assert polled(second, 2) == [b"0.4", b"0.5"]
    second.commit()
    second.close()
    third = log.consumer(name, on(name))
    until(lambda: bool(third.assignment), third)
    assert third.poll(SHORT) == []
    assert third.position(TopicPartition(name, 0)) == 6
    third.close()


def test_groups_are_independent(log: Log, name: str) -> None:
    log.create_topic(name)
    fill(log, name, 3)
    consumers = [log.consumer(f"{name}.{i}", on(name)) for i in range(2)]
    for consumer in consumers:
        assert len(polled(consumer, 3)) == 3
        consumer.commit()
        consumer.close()


def test_members_share_partitions_and_take_over_those_of_leaving_members(
    log: Log, open_log: OpenLog, name: str
) -> None:
    log.create_topic(name, TopicSpec(partitions=4))
    first = log.consumer(name, on(name))
    until(lambda: share(first) == [4], first)
    second = open_log().consumer(name, on(name))
    until(lambda: share(first, second) == [2, 2], first, second)
    assert first.assignment | second.assignment == all_of(name, 4)
    third = log.consumer(name, on(name))
    until(lambda: sorted(share(first, second, third)) == [1, 1, 2], first, second, third)
    assert first.assignment | second.assignment | third.assignment == all_of(name, 4)
    second.close()
    until(lambda: share(first, third) == [2, 2], first, third)
    third.close()
    until(lambda: share(first) == [4], first)
    first.close()


def test_every_row_is_delivered_at_least_once_across_rebalances(log: Log, open_log: OpenLog, name: str) -> None:
    log.create_topic(name, TopicSpec(partitions=3))
    fill(log, name, 10, 3)
    first = log.consumer(name, on(name))
    found = polled(first, 5)
    first.commit()
    second = open_log().consumer(name, on(name))
    until(lambda: 0 < len(second.assignment) < 3 and len(first.assignment) + len(second.assignment) == 3, first, second)
    # `until` polled without looking: what it got was never committed, so it comes again to whoever begins anew.
    first.close()
    second.close()
    third = log.consumer(name, on(name))
    found += polled(third, 30 - len(set(found)))
    assert set(found) == {b"%d.%d" % (p, i) for p in range(3) for i in range(10)}
    third.close()


def test_a_commit_for_a_partition_of_another_member_is_fenced(log: Log, open_log: OpenLog, name: str) -> None:
    log.create_topic(name, TopicSpec(partitions=2))
    fill(log, name, 2, 2)
    first = log.consumer(name, on(name))
    polled(first, 4)
    before = first.assignment
    second = open_log().consumer(name, on(name))
    until(lambda: share(first, second) == [1, 1], first, second)
    (lost,) = before - first.assignment
    with pytest.raises(GroupFenced):
        first.commit({lost: 2})
    second.commit({lost: 1})
    assert log.group(name).offsets[lost] == 1
    for consumer in (first, second):
        consumer.close()


def test_positions_can_be_read_and_changed(log: Log, name: str) -> None:
    log.create_topic(name)
    fill(log, name, 5)
    place = TopicPartition(name, 0)
    consumer = log.consumer(name, on(name))
    polled(consumer, 5)
    assert (consumer.position(place), consumer.lag()) == (5, {place: 0})
    consumer.seek(place, 3)
    assert (consumer.position(place), consumer.lag()) == (3, {place: 2})
    assert polled(consumer, 2) == [b"0.3", b"0.4"]
    for bad in (-1, 6):
        with pytest.raises(OffsetOutOfRange):
            consumer.seek(place, bad)
    for ask in (lambda: consumer.position(TopicPartition(name, 7)), lambda: consumer.seek(TopicPartition("no", 0), 0)):
        with pytest.raises(OffsetOutOfRange):
            ask()
    assert consumer.position(place) == 5
    consumer.close()


def test_a_new_group_may_start_at_the_end(log: Log, open_log: OpenLog, name: str) -> None:
    log.create_topic(name)
    put(log, name, b"before")
    consumer = log.consumer(name, on(name), start="latest")
    until(lambda: bool(consumer.assignment), consumer)
    put(log, name, b"after")
    assert polled(consumer, 1) == [b"after"]
    consumer.commit()
    consumer.close()
    # A group that has offsets goes on there, whatever `start` says.
    put(log, name, b"meanwhile")
    again = open_log().consumer(name, on(name), start="latest")
    assert polled(again, 1) == [b"meanwhile"]
    again.close()


def test_a_pattern_matches_topics_created_later(log: Log, open_log: OpenLog, name: str) -> None:
    log.create_topic(f"{name}.a")
    log.create_topic(f"x{name}.a")
    log.create_topic(f"__{name}.a")
    put(log, f"{name}.a", b"a")
    put(log, f"x{name}.a", b"no")
    consumer = log.consumer(name, Subscription(pattern=rf"{name}\..*"))
    assert polled(consumer, 1) == [b"a"]
    consumer.commit()
    other = open_log()
    other.create_topic(f"{name}.b", TopicSpec(partitions=2))
    put(other, f"{name}.b", b"b", partition=1)
    assert polled(consumer, 1) == [b"b"]
    assert {p.topic for p in consumer.assignment} == {f"{name}.a", f"{name}.b"}
    consumer.close()


def test_a_pattern_drops_deleted_topics(log: Log, name: str) -> None:
    for t in "ab":
        log.create_topic(f"{name}.{t}")
        put(log, f"{name}.{t}", t.encode())
    consumer = log.consumer(name, Subscription(pattern=rf"{name}\..*"))
    assert set(polled(consumer, 2)) == {b"a", b"b"}
    consumer.commit()
    log.delete_topic(f"{name}.a")
    until(lambda: consumer.assignment == all_of(f"{name}.b", 1), consumer)
    put(log, f"{name}.b", b"c")
    assert b"c" in polled(consumer, 1)
    consumer.close()


def test_new_partitions_are_assigned(log: Log, open_log: OpenLog, name: str) -> None:
    log.create_topic(name, TopicSpec(partitioner="round-robin"))
    consumer = log.consumer(name, on(name))
    until(lambda: share(consumer) == [1], consumer)
    open_log().alter_topic(name, partitions=3)
    put(log, name, b"new", partition=2)
    assert polled(consumer, 1) == [b"new"]
    consumer.close()


def test_a_filter_delivers_only_matching_rows(log: Log, name: str) -> None:
    log.create_topic(name)
    log.append([Append(name, raw(*(b"%04d" % i for i in range(1000))))])
    wanted = Subscription((name,), where=lambda batch: pc.ends_with(batch.rows.column("value"), b"777"))
    consumer = log.consumer(name, wanted)
    found: list[bytes | None] = []
    while not found:
        found += values_in(consumer.poll(timedelta(seconds=5), max_records=50))
    assert found == [b"0777"]
    until(lambda: consumer.lag()[TopicPartition(name, 0)] == 0, consumer)
    consumer.commit()
    assert log.group(name).lag[TopicPartition(name, 0)] == 0
    consumer.close()


def test_a_failing_filter_loses_no_row(log: Log, name: str) -> None:
    log.create_topic(name)
    fill(log, name, 3)
    broken = [True]

    def where(batch):
        if broken[0]:
            raise ZeroDivisionError
        return pc.is_valid(batch.rows.column("value"))

    consumer = log.consumer(name, Subscription((name,), where=where))
    with pytest.raises(ZeroDivisionError):
        polled(consumer, 1)
    broken[0] = False
    assert polled(consumer, 3) == [b"0.0", b"0.1", b"0.2"]
    consumer.close()


def behind(log: Log, name: str) -> TopicPartition:
    """A group at offset 1 of a partition that begins at 3."""
    place = TopicPartition(name, 0)
    log.create_topic(name)
    fill(log, name, 5)
    log.reset_group(name, {place: 1})
    log.truncate(name, 0, 3)
    return place


def test_removed_rows_raise_an_error(log: Log, name: str) -> None:
    place = behind(log, name)
    consumer = log.consumer(name, on(name))
    for _ in range(2):  # until somebody acts
        with pytest.raises(OffsetLost) as raised:
            polled(consumer, 1)
        assert raised.value.where == str(place)
        assert "1" in raised.value.what
        assert "3" in raised.value.what
    consumer.seek(place, 3)
    assert polled(consumer, 2) == [b"0.3", b"0.4"]
    consumer.close()


@pytest.mark.parametrize(
    ("lost", "found"), [(OffsetReset.EARLIEST, [b"0.3", b"0.4", b"new"]), (OffsetReset.LATEST, [b"new"])]
)
def test_removed_rows_can_be_skipped(log: Log, name: str, lost: OffsetReset, found: list[bytes]) -> None:
    behind(log, name)
    consumer = log.consumer(name, on(name), lost=lost)
    got = values_in(consumer.poll(SHORT))
    while not consumer.assignment or (lost is OffsetReset.EARLIEST and len(got) < 2):
        got += values_in(consumer.poll(SHORT))
    put(log, name, b"new")
    got += polled(consumer, len(found) - len(got))
    assert got == found
    consumer.close()


def test_rows_read_before_an_error_of_another_partition_are_delivered(log: Log, name: str) -> None:
    log.create_topic(name, TopicSpec(partitions=2))
    fill(log, name, 4, 2)
    log.reset_group(name, {TopicPartition(name, 0): 0, TopicPartition(name, 1): 1})
    log.truncate(name, 1, 3)
    consumer = log.consumer(name, on(name))
    found: list[bytes | None] = []
    while True:
        try:
            found += values_in(consumer.poll(SHORT))
        except OffsetLost:
            break
    consumer.seek(TopicPartition(name, 1), 3)
    found += polled(consumer, 5 - len(found))
    assert sorted(v for v in found if v) == [b"0.0", b"0.1", b"0.2", b"0.3", b"1.3"]
    consumer.close()


@pytest.mark.parametrize(
    ("subscription", "options", "error"),
    [
        (Subscription(), {}, BadFilter),
        (Subscription(pattern="("), {}, BadFilter),
        (Subscription(("nowhere",)), {}, UnknownTopic),
        (Subscription(pattern="x"), {"start": "middle"}, BadOption),
    ],
)
def test_invalid_subscriptions_are_refused(
    log: Log, name: str, subscription: Subscription, options: dict, error: type
) -> None:
    with pytest.raises(error):
        log.consumer(name, subscription, **options)


def test_a_closed_consumer_refuses_calls(log: Log, name: str) -> None:
    log.create_topic(name)
    consumer = log.consumer(name, on(name))
    consumer.close()
    consumer.close()
    place = TopicPartition(name, 0)
    for ask in (consumer.poll, consumer.commit, consumer.lag, lambda: consumer.seek(place, 0)):
        with pytest.raises(Closed):
            ask()


def test_rows_of_a_typed_topic_have_its_types(log: Log, name: str) -> None:
    import pyarrow as pa

    from headrace.schema import Schema

    log.create_topic(name, TopicSpec(schema=Schema.parse("id bigint key, at timestamp")))
    log.append([Append(name, pa.RecordBatch.from_pydict({"id": [7]}))])
    consumer = log.consumer(name, on(name))
    found = []
    while not found:
        found = consumer.poll(SHORT)
    assert found[0].rows.schema.field("at").type == pa.timestamp("ms", "UTC")
    assert found[0].rows.column("id").to_pylist() == [7]
    consumer.close()
