"""What a view promises, whatever it is kept in.

A view holds the last row of every key of a table, and how far in the table's topic that is: its *position*. Both change
in one transaction, so a view is what its topic says up to the position, after any crash.

* `apply` is exactly once: it takes the state that the changes were read from, and does nothing if the view has another
  by now (somebody else keeps it, too).
* A `Snapshot` sees one state for as long as it lasts, whatever is applied meanwhile.
* Rows come out as events `(time, key, row)` in the chain's own form, which is what a plan's source takes; the key of a
  windowed view ends with `(start, end)`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from headrace.contracts import Topic
from headrace.plan.catalog import SourceInfo
from headrace.plan.chain.contract import Event, Key
from headrace.plan.nodes import Relation
from headrace.plan.selection import EVERYTHING, Selection

Position = Mapping[int, int]
"""By partition of the topic, the next offset to be read."""

SCANNED = 1_000
"""Rows in a batch of a scan."""


@dataclass(frozen=True)
class State:
    """What a view reflects. `version` rises by one with every transaction; `stream_time` is the latest time of a row.

    `skipped` counts records that could not be read, `rebuilt` how often the view was begun anew and `reason` why.
    """

    version: int = 0
    position: Position = field(default_factory=dict)
    stream_time: int = -1
    skipped: int = 0
    rebuilt: int = 0
    reason: str = ""

    def after(self, events: Sequence[Event], position: Position, skipped: int) -> State:
        """With these changes, up to a position."""
        return State(
            self.version + 1,
            {**self.position, **position},
            max(self.stream_time, max((time for time, _, _ in events), default=-1)),
            self.skipped + skipped,
            self.rebuilt,
            self.reason,
        )

    def anew(self, reason: str) -> State:
        """Of a view that begins anew."""
        return State(self.version + 1, {}, -1, self.skipped, self.rebuilt + 1, reason)

    def reflects(self, position: Position) -> bool:
        """Whether all that lies before a position is in it."""
        return all(self.position.get(partition, 0) >= offset for partition, offset in position.items())


class Snapshot(Protocol):
    """One state of a view. Not for several threads at once."""

    @property
    def state(self) -> State: ...
    def get(self, keys: Iterable[Key]) -> list[Event]:
        """The rows of whole keys, those that are there."""
        ...

    def scan(self, selection: Selection = EVERYTHING, *, batch: int = SCANNED) -> Iterator[list[Event]]:
        """All rows that are selected, each once, and perhaps others; in no order that can be relied on."""
        ...

    def count(self) -> int: ...


class View(Protocol):
    """A table that can be asked. Threads may share it; one at a time applies."""

    relation: Relation

    def state(self) -> State: ...
    def snapshot(self) -> AbstractContextManager[Snapshot]: ...
    def apply(self, begun: State, events: Sequence[Event], position: Position, *, skipped: int = 0) -> State | None:
        """Take changes in order, in one transaction with the position; None, and nothing, if `begun` is not its state.

        A row of None deletes. Windows that ended before stream time less their retention go in the same transaction.
        """
        ...

    def restart(self, begun: State, reason: str) -> State | None:
        """Be empty, at no position, and remember why."""
        ...

    def create_index(self, columns: Sequence[str]) -> None:
        """An index over columns; those that are there already stay. Readers go on while it is made, changes wait."""
        ...

    def drop_index(self, columns: Sequence[str]) -> None: ...
    def indexes(self) -> list[tuple[str, ...]]: ...
    def close(self) -> None: ...
    def remove(self) -> None:
        """Leave nothing of it."""
        ...


class Store(Protocol):
    """Where the views of a data folder are kept; `is_near` if to look up a row takes less than to change threads."""

    is_near: bool

    def open(self, source: SourceInfo, topic: Topic) -> View:
        """The view of a table. What cannot be reached at the moment is told by the view when it is used."""
        ...

    def file(self, source: SourceInfo, topic: Topic, folder: Path) -> Path | None:
        """A file of SQLite's with the view, only to be read: its own, or a copy that is made in a folder.

        None if there is no view; nothing is made or changed where views are kept.
        """
        ...

    def close(self) -> None: ...
