"""What workers need to run a query in the record mode."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.engine.record.sink_columns import SinkColumns
from headrace.plan.analysis.record_layout import RecordLayout
from headrace.plan.nodes import Query
from headrace.plan.serialization import Setup, load_plan, no_setup, serialize_plan


@dataclass(frozen=True)
class RecordTaskSpec:
    query: bytes
    layouts: tuple[RecordLayout, ...]
    """The layouts of all topics that the query reads, including its ticks."""
    ticks: str
    """The topic whose records say that time has passed."""
    key_groups: int = 1
    setup: Setup = no_setup
    """Runs first in a worker, to declare the user's functions."""
    target: SinkColumns | None = None
    """The columns of the sink's topic; None if that is raw."""
    merges: bool = False
    """Whether only the last change of each key in a batch is emitted."""

    @property
    def plan(self) -> Query:
        return load_plan(self.query, self.setup)

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(layout.topic for layout in self.layouts)


def record_task_spec(
    query: Query,
    layouts: tuple[RecordLayout, ...],
    ticks: str,
    key_groups: int = 1,
    setup: Setup = no_setup,
    *,
    target: SinkColumns | None = None,
    merges: bool = False,
) -> RecordTaskSpec:
    return RecordTaskSpec(serialize_plan(query), layouts, ticks, key_groups, setup, target, merges)
