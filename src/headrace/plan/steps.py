"""The contract between the steps of a chain.

A batch is a list of tuples in arrival order. On a stream an entry is an *event* `(time, key, row)`; on a table it is a
*change* `(time, key, new, old)`. `time` is in ms; `key` is a tuple of the key columns' values, followed by `(start,
end)` when windowed, or None; a row is a tuple of the relation's value columns, or None: no payload on a stream, a
deletion on a table. `old` is what the previous step last emitted for that key; it is filled in only where `build_steps`
requests it.

A step is pure except for its stores: the same input in the same order, cut into batches anywhere, gives the same
output. Stores are plain mappings from a key to a plain value that `Context.store` provides, so that the caller of the
chain decides where they live. A step keeps no other state between batches.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

Key = tuple[Any, ...]
Row = tuple[Any, ...]
Event = tuple[int, Key | None, Row | None]
Change = tuple[int, Key, Row | None, Row | None]
Batch = list[Any]
"""Events or changes, by the kind of the step's relation."""

Store = MutableMapping[Any, Any]


class Step(Protocol):
    """Executes one node."""

    def process(self, port: int, batch: Batch) -> Batch:
        """Processes a batch of input number `port`; returns the output in order."""
        ...


@dataclass(frozen=True, slots=True)
class Problem:
    """A record or a value that could not be processed; it becomes a dead letter."""

    code: str
    reason: str
    where: str
    time: int | None = None
    key: Any = None
    row: Any = None


def _ignore(problem: Problem) -> None:
    del problem


@dataclass
class Context:
    """The environment of the steps.

    `arrival` returns the arrival time of the records being fed, in ms: it is input as they are, journaled with their
    batch. If None, a record arrives at its own time. `now` returns the current time for functions that need it, and
    returns the same when a batch is repeated; if None, it is the time of the record.
    """

    store: Callable[[str], Store] = field(default=lambda name: {})
    report: Callable[[Problem], None] = _ignore
    arrival: Callable[[], int | None] = field(default=lambda: None)
    now: Callable[[], int | None] = field(default=lambda: None)


class TimedStep(Protocol):
    """A step that also acts when time passes without records."""

    def tick(self, now: int) -> Batch: ...
    def deadline(self) -> int | None: ...


class BatchEndStep(Protocol):
    """A step that also acts at the end of a batch."""

    def flush(self) -> Batch: ...


Builder = Callable[[Any, Context, bool, Sequence[Step]], Step]
