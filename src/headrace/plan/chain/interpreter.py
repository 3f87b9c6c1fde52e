"""Executes a query in memory: events in, entries out, in order.

The tree of steps is built once. A batch enters at a source and moves up to the sink as a whole list, one call per step.
Input of several topics comes as runs of consecutive records of one topic, so that joins see the order of arrival. A
topic that feeds two sources of the query is processed record by record, left source first.

The plan is optimized by `plan.rules` first, unless other rules are given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any, cast

from headrace.plan.chain.step_builder import BuiltStep, build_steps
from headrace.plan.nodes import Query, Source
from headrace.plan.rules import RULES, Rule, optimize
from headrace.plan.steps import Batch, BatchEndStep, Context, Event, TimedStep

StepPath = tuple[tuple[Callable[[int, Batch], Batch], int], ...]
"""The steps from one step to the sink, each with the number of the input that is fed."""


@dataclass(frozen=True)
class SourcePath:
    """A source of the query and the path from it to the sink, including the source's own step."""

    source: Source
    path: StepPath

    def feed(self, events: Batch) -> Batch:
        return _run_path(self.path, events)


class Chain:
    """The steps of one query. `feed` and `tick` return what reaches the sink: events, or changes of a table."""

    def __init__(
        self, query: Query, context: Context | None = None, *, old: bool = False, rules: Sequence[Rule] = RULES
    ) -> None:
        self.query = query = optimize(query, rules)
        self._timed: list[tuple[TimedStep, StepPath]] = []
        self._batched: list[tuple[BatchEndStep, StepPath]] = []
        self.source_paths: list[SourcePath] = []
        for built, above in _paths_up(build_steps(query.sink, context or Context(), old=old), ()):
            self._register(built, above)
        self._by_topic = {topic: self.source_paths_of(topic) for topic in self.topics}

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(source_path.source.topic for source_path in self.source_paths))

    def source_paths_of(self, topic: str) -> list[SourcePath]:
        return [source_path for source_path in self.source_paths if source_path.source.topic == topic]

    def feed(self, topic: str, events: list[Event]) -> Batch:
        """Feeds a batch of events of one topic, in order of arrival, to all its sources."""
        out = self._feed_sources(topic, events)
        return out + self.flush() if self._batched else out

    def _feed_sources(self, topic: str, events: list[Event]) -> Batch:
        source_paths = self._by_topic.get(topic, [])
        if len(source_paths) == 1:
            return source_paths[0].feed(events)
        return [entry for event in events for source_path in source_paths for entry in source_path.feed([event])]

    def run(self, inputs: Iterable[tuple[str, Event]]) -> Batch:
        """Feeds a batch of events of several topics, in order of arrival."""
        out: Batch = []
        for topic, events in group_by_topic(inputs):
            out += self._feed_sources(topic, events)
        return out + self.flush()

    def flush(self) -> Batch:
        """Returns what was held back for the batch's end. Callers that feed `source_paths` directly must call this."""
        return [entry for step, above in self._batched for entry in _run_path(above, step.flush())]

    def tick(self, now: int) -> Batch:
        """Advances time to `now` without a record."""
        return [entry for step, above in self._timed for entry in _run_path(above, step.tick(now))]

    def deadline(self) -> int | None:
        """Returns the next time at which `tick` has something to do."""
        times = (step.deadline() for step, _ in self._timed)
        return min((time for time in times if time is not None), default=None)

    def _register(self, built: BuiltStep, above: StepPath) -> None:
        if isinstance(built.node, Source):
            self.source_paths.append(SourcePath(built.node, ((built.step.process, 0), *above)))
        if hasattr(built.step, "tick"):
            self._timed.append((cast(TimedStep, built.step), above))
        if hasattr(built.step, "flush"):
            self._batched.append((cast(BatchEndStep, built.step), above))


def group_by_topic(inputs: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, list[Any]]]:
    """Groups consecutive items of the same topic."""
    for topic, items in groupby(inputs, key=itemgetter(0)):
        yield topic, [item for _, item in items]


def _paths_up(built: BuiltStep, above: StepPath) -> Iterator[tuple[BuiltStep, StepPath]]:
    """Yields all steps with the path above them, inputs before the steps they feed, left before right."""
    for port, below in enumerate(built.inputs):
        path = ((built.step.process, port), *above)
        yield from (
            _restarted_input(built.step, below, path) if hasattr(built.step, "restarts") else _paths_up(below, path)
        )
    yield built, above


def _restarted_input(step: Any, built: BuiltStep, above: StepPath) -> Iterator[tuple[BuiltStep, StepPath]]:
    """The same below a step that restarts its input: it emits what is due by a row's time before that row is
    processed.
    """
    (then, entered), *rest = above

    def process(port: int, batch: Batch) -> Batch:
        out: Batch = []
        for entry in batch:
            out += step.advance(entry[0])
            out += then(entered, built.step.process(port, [entry]))
        return out

    for port, below in enumerate(built.inputs):
        yield from _paths_up(below, ((process, port), *rest))
    yield built, above


def _run_path(path: StepPath, batch: Batch) -> Batch:
    for process, port in path:
        if not batch:
            break
        batch = process(port, batch)
    return batch
