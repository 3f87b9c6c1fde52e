"""Administration of consumer groups."""

from __future__ import annotations

import pytest

from headrace.contracts import Log, Subscription, TopicPartition, TopicSpec
from headrace.errors import GroupNotEmpty, OffsetOutOfRange, UnknownGroup, UnknownPartition, UnknownTopic
from tests.contract.conftest import OpenLog
from tests.contract.rows_and_records import polled, put, until


def filled(log: Log, name: str) -> None:
    log.create_topic(name, TopicSpec(partitions=2))
    for p in range(2):
        for i in range(4):
            put(log, name, b"%d.%d" % (p, i), partition=p)


def test_a_group_shows_members_offsets_and_lag(log: Log, open_log: OpenLog, name: str) -> None:
    filled(log, name)
    consumer = log.consumer(name, Subscription((name,)), client="me")
    polled(consumer, 8)
    consumer.commit({TopicPartition(name, 0): 1, TopicPartition(name, 1): 4})
    other = open_log()
    info = other.group(name)
    assert name in other.groups()
    (member,) = info.members
    assert (info.name, member.client, set(member.assignment)) == (
        name,
        "me",
        {TopicPartition(name, 0), TopicPartition(name, 1)},
    )
    assert info.offsets == {TopicPartition(name, 0): 1, TopicPartition(name, 1): 4}
    assert info.lag == {TopicPartition(name, 0): 3, TopicPartition(name, 1): 0}
    consumer.close()
    until(lambda: other.group(name).members == ())


def test_offsets_of_an_empty_group_can_be_reset(log: Log, name: str) -> None:
    filled(log, name)
    consumer = log.consumer(name, Subscription((name,)))
    polled(consumer, 8)
    consumer.commit()
    with pytest.raises(GroupNotEmpty):
        log.reset_group(name, {TopicPartition(name, 0): 0})
    with pytest.raises(GroupNotEmpty):
        log.delete_group(name)
    consumer.close()
    until(lambda: log.group(name).members == ())
    log.reset_group(name, {TopicPartition(name, 0): 2})
    assert log.group(name).offsets == {TopicPartition(name, 0): 2, TopicPartition(name, 1): 4}
    again = log.consumer(name, Subscription((name,)))
    assert polled(again, 2) == [b"0.2", b"0.3"]
    again.close()


def test_resetting_an_unknown_group_creates_it(log: Log, name: str) -> None:
    filled(log, name)
    log.reset_group(name, {TopicPartition(name, 1): 3})
    assert name in log.groups()
    assert log.group(name).lag == {TopicPartition(name, 1): 1}


def test_a_deleted_group_starts_from_scratch(log: Log, name: str) -> None:
    filled(log, name)
    log.reset_group(name, {TopicPartition(name, p): 4 for p in range(2)})
    log.delete_group(name)
    assert name not in log.groups()
    for ask in (log.group, log.delete_group):
        with pytest.raises(UnknownGroup):
            ask(name)
    consumer = log.consumer(name, Subscription((name,)))
    assert len(polled(consumer, 8)) == 8
    consumer.close()


@pytest.mark.parametrize(
    ("place", "offset", "error"),
    [(0, 9, OffsetOutOfRange), (0, -1, OffsetOutOfRange), (5, 0, UnknownPartition), (None, 0, UnknownTopic)],
)
def test_invalid_offsets_are_refused(
    log: Log, name: str, place: int | None, offset: int, error: type[Exception]
) -> None:
    filled(log, name)
    where = TopicPartition(name, place) if place is not None else TopicPartition(f"{name}-no", 0)
    with pytest.raises(error):
        log.reset_group(name, {TopicPartition(name, 1): 1, where: offset})
    assert name not in log.groups()


def test_a_recreated_topic_is_read_from_its_beginning(log: Log, name: str, log_kind: str) -> None:
    filled(log, name)
    log.reset_group(name, {TopicPartition(name, p): 4 for p in range(2)})
    log.delete_topic(name)
    filled(log, name)
    info = log.group(name) if name in log.groups() else None
    assert info is None or info.offsets == {}
    consumer = log.consumer(name, Subscription((name,)))
    assert len(polled(consumer, 8)) == 8
    consumer.close()


def test_an_unknown_group_suggests_the_nearest_one(log: Log, name: str) -> None:
    filled(log, name)
    log.reset_group(f"{name}-billing", {TopicPartition(name, 0): 4})
    for ask in (log.group, log.delete_group):
        with pytest.raises(UnknownGroup) as refused:
            ask(f"{name}-biling")
        assert refused.value.fix == f'did you mean "{name}-billing"?'
