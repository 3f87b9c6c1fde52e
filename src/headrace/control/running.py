"""A query at work, wherever it runs: what `Program`, the ticker and whoever looks on need of it.

`engine.query.RunningQuery` runs in this process, `apart.QueryApart` in one of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from headrace.control.ticks import Ticked
from headrace.engine.ground import Position
from headrace.errors import HeadraceError


class Running(Ticked, Protocol):
    way: str

    @property
    def position(self) -> Position | None:
        """How far its input is done and committed; None is the beginning."""
        ...

    @property
    def is_active(self) -> bool: ...
    @property
    def is_starting(self) -> bool:
        """Whether its processes are still coming up."""
        ...

    @property
    def batch_time(self) -> Mapping[str, int]:
        """How many milliseconds a batch took last: `total`, and for what; empty before the first."""
        ...

    def failure(self) -> HeadraceError | None:
        """Why it ended, if it did not just stop."""
        ...

    def drain(self) -> None:
        """Let the batch under way end, and start no other."""
        ...

    def stop(self) -> None:
        """Drain, and give back what the query held; may be called again."""
        ...
