"""Named writers: each sequence number is written once, and only the latest holder of the name may write."""

from __future__ import annotations

import pytest

from headrace.contracts import Append, Log, TopicSpec
from headrace.errors import UnknownTopic, WriterFenced, WrongType
from headrace.log.stored_rows import from_records
from headrace.record import Record
from tests.contract.conftest import OpenLog
from tests.contract.rows_and_records import raw, values


def test_a_number_is_written_once(log: Log, name: str) -> None:
    log.create_topic(name)
    writer = log.writer(name)
    assert writer.last is None
    (place,) = writer.append(5, [Append(name, raw(b"a", b"b"))]) or ()
    assert (place.topic, place.partition, place.count) == (name, 0, 2)
    assert writer.last == 5
    for number in (5, 4, 0, -3):
        assert writer.append(number, [Append(name, raw(b"no"))]) is None
    assert writer.append(9, [Append(name, raw(b"c"))]) is not None
    assert writer.last == 9
    assert values(log, name) == [b"a", b"b", b"c"]
    writer.close()


def test_a_repeated_large_append_writes_nothing(log: Log, name: str) -> None:
    log.create_topic(name)
    writer = log.writer(name)
    large = from_records([Record(b"x" * 1000) for _ in range(400)])
    assert writer.append(1, [Append(name, large)])
    assert writer.append(1, [Append(name, large)]) is None
    assert len(values(log, name)) == 400
    writer.close()


def test_a_reopened_writer_knows_its_last_number(log: Log, open_log: OpenLog, name: str) -> None:
    log.create_topic(name)
    writer = log.writer(name)
    writer.append(3, [Append(name, raw(b"a"))])
    writer.close()
    again = open_log().writer(name)
    assert again.last == 3
    assert again.append(3, [Append(name, raw(b"a"))]) is None
    assert again.append(4, [Append(name, raw(b"b"))]) is not None
    assert values(log, name) == [b"a", b"b"]
    again.close()


def test_a_number_without_rows_is_recorded(log: Log, open_log: OpenLog, name: str) -> None:
    writer = log.writer(name)
    assert writer.append(0, []) == []
    assert writer.append(0, []) is None
    writer.close()
    again = open_log().writer(name)
    assert again.last == 0
    again.close()


def test_reopening_a_writer_fences_the_previous_holder(log: Log, open_log: OpenLog, name: str) -> None:
    log.create_topic(name)
    old = log.writer(name)
    old.append(1, [Append(name, raw(b"a"))])
    new = open_log().writer(name)
    for number in (2, 1):
        with pytest.raises(WriterFenced):
            old.append(number, [Append(name, raw(b"zombie"))])
    assert new.append(2, [Append(name, raw(b"b"))]) is not None
    with pytest.raises(WriterFenced):
        old.append(3, [Append(name, raw(b"zombie"))])
    assert values(log, name) == [b"a", b"b"]
    old.close()
    new.close()


def test_writers_with_different_names_are_independent(log: Log, name: str) -> None:
    log.create_topic(name)
    writers = [log.writer(f"{name}.{i}") for i in range(3)]
    for i, writer in enumerate(writers):
        writer.append(1, [Append(name, raw(b"%d" % i))])
    assert [w.last for w in writers] == [1, 1, 1]
    assert values(log, name) == [b"0", b"1", b"2"]
    for writer in writers:
        writer.close()


def test_a_failed_append_does_not_use_its_number(log: Log, name: str) -> None:
    log.create_topic(f"{name}.a", TopicSpec(partitions=2))
    writer = log.writer(name)
    with pytest.raises(UnknownTopic):
        writer.append(1, [Append(f"{name}.a", raw(b"a")), Append(f"{name}.no", raw(b"x"))])
    with pytest.raises(WrongType):
        writer.append(1, [Append(f"{name}.a", raw(b"a").rename_columns(["key", "colour"]))])
    assert writer.last is None
    assert writer.append(1, [Append(f"{name}.a", raw(b"a"), 1)]) is not None
    assert (values(log, f"{name}.a", 0), values(log, f"{name}.a", 1)) == ([], [b"a"])
    writer.close()


def test_one_number_covers_several_topics(log: Log, name: str) -> None:
    for t in "ab":
        log.create_topic(f"{name}.{t}", TopicSpec(partitions=2))
    writer = log.writer(name)
    appends = [Append(f"{name}.{t}", raw(b"%d" % p), p) for t in "ab" for p in range(2)]
    assert len(writer.append(1, appends) or ()) == 4
    assert writer.append(1, appends) is None
    assert [values(log, f"{name}.{t}", p) for t in "ab" for p in range(2)] == [[b"0"], [b"1"]] * 2
    writer.close()
