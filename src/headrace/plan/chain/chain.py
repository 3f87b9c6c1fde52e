"""A query at work in memory: events in, entries out, in order.

Steps are a tree that is built once. A batch enters at a source and goes up to the sink as a whole list, one call per
step. Input of several topics comes as runs of consecutive records of one topic, so that joins see the order of arrival.
A topic that feeds two sources of the query is taken record by record, the left source first.

What runs is the plan after `plan.rules`, unless other rules are given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any, cast

from headrace.plan.chain.build import Built, build
from headrace.plan.chain.contract import Batch, Batched, Context, Deadlines, Event
from headrace.plan.nodes import Query, Source
from headrace.plan.rules import RULES, Rule, optimized

Way = tuple[tuple[Callable[[int, Batch], Batch], int], ...]
"""The steps from somewhere to the sink, each with the number of the input that is entered."""


@dataclass(frozen=True)
class Entrance:
    """A source of the query and the way from it, the source's own step included."""

    source: Source
    way: Way

    def feed(self, events: Batch) -> Batch:
        return _along(self.way, events)


class Chain:
    """The steps of one query. `feed` and `tick` give what reaches the sink: events, or changes of a table."""

    def __init__(
        self, query: Query, context: Context | None = None, *, old: bool = False, rules: Sequence[Rule] = RULES
    ) -> None:
        self.query = query = optimized(query, rules)
        self._timed: list[tuple[Deadlines, Way]] = []
        self._batched: list[tuple[Batched, Way]] = []
        self.entrances: list[Entrance] = []
        for built, above in _upward(build(query.sink, context or Context(), old=old), ()):
            self._place(built, above)
        self._by_topic = {topic: self.entrances_of(topic) for topic in self.topics}

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(entrance.source.topic for entrance in self.entrances))

    def entrances_of(self, topic: str) -> list[Entrance]:
        return [entrance for entrance in self.entrances if entrance.source.topic == topic]

    def feed(self, topic: str, events: list[Event]) -> Batch:
        """A batch of events of one topic, in order of arrival; all its sources read them alike."""
        out = self._fed(topic, events)
        return out + self.flush() if self._batched else out

    def _fed(self, topic: str, events: list[Event]) -> Batch:
        entrances = self._by_topic.get(topic, [])
        if len(entrances) == 1:
            return entrances[0].feed(events)
        return [entry for event in events for entrance in entrances for entry in entrance.feed([event])]

    def run(self, inputs: Iterable[tuple[str, Event]]) -> Batch:
        """A batch of events of several topics, in order of arrival."""
        out: Batch = []
        for topic, events in runs(inputs):
            out += self._fed(topic, events)
        return out + self.flush()

    def flush(self) -> Batch:
        """The batch is over: what was held back for its end. Who feeds the entrances by himself says so."""
        return [entry for step, above in self._batched for entry in _along(above, step.flush())]

    def tick(self, now: int) -> Batch:
        """Time has come to `now` without a record."""
        return [entry for step, above in self._timed for entry in _along(above, step.tick(now))]

    def deadline(self) -> int | None:
        """The next time at which `tick` has something to do."""
        times = (step.deadline() for step, _ in self._timed)
        return min((time for time in times if time is not None), default=None)

    def _place(self, built: Built, above: Way) -> None:
        if isinstance(built.node, Source):
            self.entrances.append(Entrance(built.node, ((built.step.process, 0), *above)))
        if hasattr(built.step, "tick"):
            self._timed.append((cast(Deadlines, built.step), above))
        if hasattr(built.step, "flush"):
            self._batched.append((cast(Batched, built.step), above))


def runs(inputs: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, list[Any]]]:
    """Consecutive items of the same topic together."""
    for topic, items in groupby(inputs, key=itemgetter(0)):
        yield topic, [item for _, item in items]


def _upward(built: Built, above: Way) -> Iterator[tuple[Built, Way]]:
    """All steps with the way above them, inputs before what they feed, left before right."""
    for port, below in enumerate(built.inputs):
        way = ((built.step.process, port), *above)
        yield from _answered(built.step, below, way) if hasattr(built.step, "restarts") else _upward(below, way)
    yield built, above


def _answered(step: Any, built: Built, above: Way) -> Iterator[tuple[Built, Way]]:
    """The same where the step above answers back: what is due by a row's time is said before that row is taken."""
    (then, entered), *rest = above

    def process(port: int, batch: Batch) -> Batch:
        out: Batch = []
        for entry in batch:
            out += step.advance(entry[0])
            out += then(entered, built.step.process(port, [entry]))
        return out

    for port, below in enumerate(built.inputs):
        yield from _upward(below, ((process, port), *rest))
    yield built, above


def _along(way: Way, batch: Batch) -> Batch:
    for process, port in way:
        if not batch:
            break
        batch = process(port, batch)
    return batch
