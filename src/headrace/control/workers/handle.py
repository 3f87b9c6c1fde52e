"""Interface to a running query, wherever it runs, for `Program`, the ticker and status reports.

`engine.query.RunningQuery` runs in this process, `workers.process.WorkerQueryHandle` in a worker process.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from headrace.engine.log_adapter import Position
from headrace.engine.progress import Progress
from headrace.errors import HeadraceError
from headrace.plan.nodes import Query


class TickTarget(Protocol):
    """What the ticker needs of a running query."""

    query: Query
    progress: Progress
    ticks: str
    """The query's tick topic."""
    topics: tuple[str, ...]
    """All topics that it reads, including its tick topic if it needs ticks."""
    folder: Path
    resumed: bool
    read_at: int | None
    """When the last batch began, by the system clock."""

    def lag(self) -> int: ...


class QueryHandle(TickTarget, Protocol):
    execution_mode: str

    @property
    def position(self) -> Position | None:
        """The committed position in its input; None is the beginning."""
        ...

    @property
    def is_active(self) -> bool: ...
    @property
    def is_starting(self) -> bool:
        """Whether its processes are still starting."""
        ...

    @property
    def batch_time(self) -> Mapping[str, int]:
        """Duration of the last batch in ms: `total`, and by phase; empty before the first batch."""
        ...

    def failure(self) -> HeadraceError | None:
        """The error that ended it; None if it is running or was stopped."""
        ...

    def stop(self, timeout: float) -> None:
        """Finish the current batch, start no other, and release the query's resources; idempotent.

        A batch that is not finished after `timeout` seconds is ended by force, and repeated after the next start.
        """
        ...
