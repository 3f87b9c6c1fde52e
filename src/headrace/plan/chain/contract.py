"""What the steps of a chain agree on.

A batch is a list of tuples in arrival order. On a stream an entry is an *event* `(time, key, row)`; on a table it is a
*change* `(time, key, new, old)`. `time` is in ms; `key` is a tuple of the key columns' values, when windowed followed
by `(start, end)`, or None; a row is a tuple of the relation's value columns, or None: no payload on a stream, a
deletion on a table. `old` is what the step before gave out last for that key; it is filled in only where `build` asked
for it.

A step is pure but for its stores: the same input in the same order, cut into batches anywhere, gives the same output.
Stores are plain mappings from a key to a plain value that `Context.store` hands out, so that whoever runs the chain
decides where they live. A step keeps nothing else from one batch to the next.
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
"""Events or changes, as the step's relation says."""

Store = MutableMapping[Any, Any]


class Step(Protocol):
    """One node at work."""

    def process(self, port: int, batch: Batch) -> Batch:
        """Take a batch of input number `port`; give what follows from it, in order."""
        ...


@dataclass(frozen=True, slots=True)
class Problem:
    """A record or a value that could not be used, on its way to the dead letters."""

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
    """What steps may use of the world.

    `arrival` tells when the records that are being fed have arrived, in ms: it is input as they are, journalled with
    their batch. None if whoever runs the chain does not say; then a record arrives at its own time. `now` tells
    functions that ask what time it is, and tells the same when a batch is repeated; None is the time of the record.
    """

    store: Callable[[str], Store] = field(default=lambda name: {})
    report: Callable[[Problem], None] = _ignore
    arrival: Callable[[], int | None] = field(default=lambda: None)
    now: Callable[[], int | None] = field(default=lambda: None)


class Deadlines(Protocol):
    """A step that also acts when time passes without records."""

    def tick(self, now: int) -> Batch: ...
    def deadline(self) -> int | None: ...


class Batched(Protocol):
    """A step that also acts when a batch is over."""

    def flush(self) -> Batch: ...


Builder = Callable[[Any, Context, bool, Sequence[Step]], Step]
