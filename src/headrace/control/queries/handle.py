"""Interface to a running query, wherever it runs, for `Program`, the ticker and status reports.

`engine.query.RunningQuery` runs in this process, `workers.process.WorkerQueryHandle` in a worker process.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from headrace.control.queries.ticks import TickTarget
from headrace.engine.log_adapter import Position
from headrace.errors import HeadraceError


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

    def drain(self) -> None:
        """Finish the current batch and start no other."""
        ...

    def stop(self) -> None:
        """Drain, and release the query's resources; idempotent."""
        ...
