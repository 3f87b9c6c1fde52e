"""What every worker must know of a query."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.engine.batch.shipping import Setup, no_setup, packed, shipped
from headrace.engine.record.target import Target
from headrace.plan.layout import Layout
from headrace.plan.nodes import Query


@dataclass(frozen=True)
class Work:
    query: bytes
    layouts: tuple[Layout, ...]
    """Of all topics that the query reads, its ticks among them."""
    ticks: str
    """The topic whose records say that time has passed."""
    pages: int = 1
    setup: Setup = no_setup
    """Runs first in a worker, to declare functions of the user's own."""
    target: Target | None = None
    """The columns of the topic into which results go; None if that is raw."""
    merges: bool = False
    """Of the changes of a key in a batch only the last is sent."""

    @property
    def plan(self) -> Query:
        return shipped(self.query, self.setup)

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(layout.topic for layout in self.layouts)


def work_for(
    query: Query,
    layouts: tuple[Layout, ...],
    ticks: str,
    pages: int = 1,
    setup: Setup = no_setup,
    *,
    target: Target | None = None,
    merges: bool = False,
) -> Work:
    return Work(packed(query), layouts, ticks, pages, setup, target, merges)
