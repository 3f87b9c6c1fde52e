"""The contract of a view, whatever database stores it.

A view holds the last row of every key of a table, and how far in the table's topic these rows reach: its *position*.
Both change in one transaction, so after any crash a view equals its topic up to the position.

* `apply` is exactly once: it takes the state that the changes were read from, and does nothing if the view has another
  state by now because another server materializes it too.
* A `ViewSnapshot` sees one state for as long as it is open, whatever is applied meanwhile.
* Rows are returned as events `(time, key, row)` in the chain's own form, which is what a plan's source takes; the key
  of a windowed view ends with `(start, end)`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from headrace.contracts import Topic
from headrace.errors import ViewReplaced
from headrace.plan.analysis.lookup import EVERYTHING, Selection
from headrace.plan.relations import Relation
from headrace.plan.sources import SourceInfo
from headrace.plan.steps import Event, Key

Position = Mapping[int, int]
"""By partition of the topic, the next offset to read."""

SCAN_BATCH_ROWS = 1_000
"""Rows in a batch of a scan."""


@dataclass(frozen=True)
class ViewState:
    """What a view reflects. Each transaction increments `version`; `stream_time` is the latest time of a row.

    `skipped` counts records that could not be read, `rebuilt` how often the view was rebuilt, and `reason` says why.
    """

    version: int = 0
    position: Position = field(default_factory=dict)
    stream_time: int = -1
    skipped: int = 0
    rebuilt: int = 0
    reason: str = ""

    def after(self, events: Sequence[Event], position: Position, skipped: int) -> ViewState:
        """Returns the state after these changes, up to a position."""
        return ViewState(
            self.version + 1,
            {**self.position, **position},
            max(self.stream_time, max((time for time, _, _ in events), default=-1)),
            self.skipped + skipped,
            self.rebuilt,
            self.reason,
        )

    def anew(self, reason: str) -> ViewState:
        """Returns the state of the emptied view, which is rebuilt for a reason."""
        return ViewState(self.version + 1, {}, -1, self.skipped, self.rebuilt + 1, reason)

    def reflects(self, position: Position) -> bool:
        """Whether everything before a position is included."""
        return all(self.position.get(partition, 0) >= offset for partition, offset in position.items())


def view_replaced(name: str) -> ViewReplaced:
    """The error for a query that was planned for an earlier table of the name."""
    return ViewReplaced(f'table "{name}" was replaced or dropped before the query could read it', fix="try again")


class ViewSnapshot(Protocol):
    """One state of a view. Not thread-safe."""

    @property
    def state(self) -> ViewState: ...
    def get(self, keys: Iterable[Key]) -> list[Event]:
        """Returns the rows of complete keys; keys without a row are left out."""
        ...

    def scan(self, selection: Selection = EVERYTHING, *, batch: int = SCAN_BATCH_ROWS) -> Generator[list[Event]]:
        """Yields all selected rows, each once, and possibly others; the order is undefined."""
        ...

    def count(self) -> int: ...


class ViewReader(Protocol):
    """What a pull query needs of a view."""

    def snapshot(self) -> AbstractContextManager[ViewSnapshot]: ...


class View(ViewReader, Protocol):
    """A materialized table. Threads may share it; one at a time applies changes."""

    relation: Relation

    def state(self) -> ViewState: ...
    def apply(
        self, begun: ViewState, events: Sequence[Event], position: Position, *, skipped: int = 0
    ) -> ViewState | None:
        """Applies changes in order, in one transaction with the position; None without effect if `begun` is outdated.

        A row of None deletes. Windows that ended before stream time minus their retention are deleted in the same
        transaction.
        """
        ...

    def restart(self, begun: ViewState, reason: str) -> ViewState | None:
        """Empties the view, resets its position, and stores the reason."""
        ...

    def recover(self) -> bool:
        """Recreates the view, empty, if a read or a change has found it damaged; returns whether it was."""
        ...

    def create_index(self, columns: Sequence[str]) -> None:
        """Creates an index over columns, unless it exists. Meanwhile reads continue and changes wait."""
        ...

    def drop_index(self, columns: Sequence[str]) -> None: ...
    def indexes(self) -> list[tuple[str, ...]]: ...
    def close(self) -> None: ...
    def remove(self) -> None:
        """Deletes the view with everything stored for it."""
        ...


class ViewStore(Protocol):
    """Stores the views of a data folder; `is_near` if looking up a row takes less time than switching threads."""

    is_near: bool

    def open(self, source: SourceInfo, topic: Topic) -> View:
        """Opens the view of a table. If its database is unreachable, the error is raised when the view is used."""
        ...

    def reader(self, source: SourceInfo, topic: Topic) -> ViewReader:
        """Opens a view that another process materializes, for reading only.

        A snapshot raises ViewReplaced if the view is now that of another table, or of none.
        """
        ...

    def file(self, source: SourceInfo, topic: Topic, folder: Path) -> Path | None:
        """Returns a SQLite file with the view, for reading only: the view's own file, or a copy created in a folder.

        None if the view does not exist; nothing is created or changed where views are stored.
        """
        ...

    def close(self) -> None: ...
