"""Folded topics: the same state for every reader, whatever others do meanwhile (tests/contract runs the real logs)."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from hypothesis import settings

from headrace.contracts import Append, TopicSpec
from headrace.errors import OffsetLost
from headrace.log.embedded import EmbeddedLog
from headrace.log.folded_topic import FoldedTopic, Snapshots, latest_by_key, read_records, topic_bounds
from headrace.record import Record
from tests.folded_topic_machine import FoldedTopicMachine, Values, add, dump, fold_number, load, parse
from tests.log_environments import MemoryEnvironment, machine_for

TestFoldedTopicInMemory = machine_for(MemoryEnvironment(), FoldedTopicMachine, {}).TestCase
TestFoldedTopicInMemory.settings = settings(max_examples=30, stateful_step_count=30, deadline=None)


def _numbers(log: EmbeddedLog) -> FoldedTopic[Values]:
    return FoldedTopic(log, "__numbers", dict, latest_by_key(parse), TopicSpec(compact=True))


def test_reading_creates_no_topic(tmp_path: Path) -> None:
    with EmbeddedLog(tmp_path) as log:
        assert _numbers(log).read(dict) == {}
        assert topic_bounds(log, "__numbers") == (0, 0)
        assert [*read_records(log, "__numbers")] == []


def test_threads_and_processes_that_change_one_value_lose_no_change(tmp_path: Path) -> None:
    with EmbeddedLog(tmp_path) as log, EmbeddedLog(tmp_path) as elsewhere:
        topics = [_numbers(log), _numbers(elsewhere)]

        def work(n: int) -> None:
            for _ in range(5):
                add(topics[n % 2], "a", [])

        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [topic.read(dict) for topic in topics] == [{"a": 20}] * 2


def test_other_topics_are_appended_to_in_the_same_transaction(tmp_path: Path) -> None:
    with EmbeddedLog(tmp_path) as log:
        log.create_topic("orders")
        also = Append("orders", [Record(b"one")], 0)
        result, placed = _numbers(log).change(lambda _: ([Record(b"1", b"a")], "done"), [also])
        assert (result, [(one.topic, one.offset) for one in placed]) == ("done", [("orders", 0)])


def test_a_topic_that_was_created_again_is_read_from_its_start(tmp_path: Path) -> None:
    with EmbeddedLog(tmp_path) as log:
        topic = _numbers(log)
        topic.append([Record(b"1", b"a"), Record(b"2", b"b")])
        assert topic.read(dict) == {"a": 1, "b": 2}
        log.delete_topic("__numbers")
        log.create_topic("__numbers", TopicSpec(compact=True))
        assert topic.read(dict) == {}


def test_a_topic_truncated_without_a_snapshot_is_refused(tmp_path: Path) -> None:
    with EmbeddedLog(tmp_path) as log:
        topic = FoldedTopic[Values](log, "__numbers", dict, fold_number, snapshots=Snapshots(dump, load))
        topic.append([Record(b"1", b"a"), Record(b"2", b"b")])
        log.truncate("__numbers", 0, 1)
        with pytest.raises(OffsetLost, match="begins at offset 1 and has no snapshot"):
            topic.read(dict)
