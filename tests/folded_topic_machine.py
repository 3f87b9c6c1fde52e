"""Folded topics under random changes, restarts, snapshots and compaction by several instances, compared with a dict.

Two topics hold the same map: one is compacted by key, the other has snapshots. Every change goes to both.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from headrace.clock import ManualClock
from headrace.contracts import TopicSpec
from headrace.log.folded_topic import FoldedTopic, Snapshots, latest_by_key
from headrace.record import Record, StoredRecord
from tests.log_environments import LogEnvironment

KEYS = st.sampled_from(["a", "b", "c"])
WHO = st.integers(0, 9)
Values = dict[str, int]


def parse(_: str, value: bytes) -> int:
    return int(value)


def dump(state: Values, upto: int) -> Record:
    return Record(json.dumps({"upto": upto, "state": state}).encode())


def load(record: StoredRecord) -> tuple[Values, int] | None:
    found = json.loads(record.value or b"null")
    return (found["state"], found["upto"]) if isinstance(found, dict) else None


def fold_number(state: Values, record: StoredRecord) -> Values:
    return state if load(record) is not None else latest_by_key(parse)(state, record)


@dataclass
class Process:
    """What one process has of the two topics."""

    keyed: FoldedTopic[Values]
    logged: FoldedTopic[Values]

    @property
    def both(self) -> tuple[FoldedTopic[Values], FoldedTopic[Values]]:
        return self.keyed, self.logged


class FoldedTopicMachine(RuleBasedStateMachine):
    world: LogEnvironment

    def __init__(self) -> None:
        super().__init__()
        self.world.begin()
        self.model: Values = {}
        self.clock = ManualClock(1_700_000_000_000)
        self.log = self.world.open(self.clock)
        self.processes = [self.started(), self.started()]

    def started(self) -> Process:
        name = f"__{self.world.place}"
        keyed = FoldedTopic[Values](self.log, f"{name}keyed", dict, latest_by_key(parse), TopicSpec(compact=True))
        logged = FoldedTopic[Values](self.log, f"{name}logged", dict, fold_number, snapshots=Snapshots(dump, load))
        return Process(keyed, logged)

    def process(self, n: int) -> Process:
        return self.processes[n % len(self.processes)]

    @rule(n=WHO, key=KEYS, value=st.none() | st.integers(0, 99))
    def append(self, n: int, key: str, value: int | None) -> None:
        record = Record(None if value is None else b"%d" % value, key.encode())
        for topic in self.process(n).both:
            topic.append([record])
            assert topic.read(lambda state: state.get(key)) == value
        self.model = {name: one for name, one in {**self.model, key: value}.items() if one is not None}

    @rule(n=WHO, key=KEYS, other=WHO, crossing=st.sampled_from(["nothing", "add", "snapshot", "compact"]))
    def change(self, n: int, key: str, other: int, crossing: str) -> None:
        """One process adds to a value, and another acts between its decision and its append."""
        for topic, second in zip(self.process(n).both, self.process(other).both, strict=True):
            acts: list[Callable[[], Any]] = {
                "nothing": [],
                "add": [lambda second=second: add(second, key, [])] if second is not topic else [],
                "snapshot": [lambda second=second: snapshot(second)],
                "compact": [self.compact],
            }[crossing]
            added = 1 + (crossing == "add" and second is not topic)
            assert add(topic, key, acts) == self.model.get(key, 0) + added
        self.model = {**self.model, key: self.model.get(key, 0) + added}

    @rule(n=WHO)
    def change_nothing(self, n: int) -> None:
        for topic in self.process(n).both:
            assert topic.change(lambda state: ([], dict(state))) == (self.model, [])

    @rule(n=WHO)
    def restart(self, n: int) -> None:
        self.processes[n % len(self.processes)] = self.started()

    @rule(n=WHO)
    def snapshot(self, n: int) -> None:
        snapshot(self.process(n).logged)

    @rule()
    def compact(self) -> None:
        self.world.compact(self.log)

    @rule(n=WHO)
    def read(self, n: int) -> None:
        for topic in self.process(n).both:
            assert topic.read(dict) == self.model

    @invariant()
    def a_new_process_agrees_with_the_model(self) -> None:
        for topic in self.started().both:
            assert topic.read(dict) == self.model

    def teardown(self) -> None:
        self.world.end()


def snapshot(topic: FoldedTopic[Values]) -> None:
    if topic.topic.endswith("logged"):
        topic.refresh()
        topic.snapshot()


def add(topic: FoldedTopic[Values], key: str, acts: list[Callable[[], Any]]) -> int:
    """Add one to a value. `acts` happen after the first decision."""

    def decide(state: Values) -> tuple[list[Record], int]:
        value = state.get(key, 0) + 1
        while acts:
            acts.pop()()
        return [Record(b"%d" % value, key.encode())], value

    return topic.change(decide)[0]
