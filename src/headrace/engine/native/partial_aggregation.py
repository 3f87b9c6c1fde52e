"""Aggregates in two steps: Arrow pre-aggregates the rows of a group within a task, Spark merges the partial results.

So of many rows few reach Spark. This is done where all aggregates of a statement can be split so, and give exactly the
same result as row by row: sums of integers may overflow and wrap around, as in `sparksql.aggregation`.

A task returns the groups (g0 ...), the latest time and the partial results (p0 ...). Rows of different windows are not
merged; the time of a partial result determines its window. Where nearly every row is a group of its own, rows are
returned one by one in the same columns, since there is nothing to gain.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.engine.sparksql.aggregation import aggregate_sql, sum_of
from headrace.engine.sparksql.column_types import column_type
from headrace.engine.sparksql.expressions import column_name
from headrace.engine.sparksql.frames import type_of
from headrace.log.stored_rows import integer_array, integer_values
from headrace.plan import types as ty
from headrace.plan.expressions import Column
from headrace.plan.nodes import Aggregate, AggregateCall
from headrace.plan.relations import Relation

Columns = Mapping[str, Any]
_GROUPS = (ty.BOOLEAN, ty.INT, ty.BIGINT, ty.STRING, ty.BYTES, ty.DATE, ty.TIME, ty.TIMESTAMP)
_MAX_RATIO = 0.5
"""Largest ratio of partial results to rows at which pre-aggregation continues."""


@dataclass(frozen=True)
class TwoStepAggregate:
    """An aggregate in two steps."""

    arrow_function: str
    """Arrow's name of the first step."""
    one_by_one: Callable[[Any], Any]
    """The partial result of a single row, from the column of the argument."""
    merging_sql: Callable[[str, pa.DataType], str]
    """SQL that merges partial results, from their column and the argument's type."""
    counts: bool = False
    """Whether partial results are integers, whatever the argument is."""


def _unchanged(column: Any) -> Any:
    return column


_TWO_STEP_AGGREGATES: Mapping[str, TwoStepAggregate] = {
    "COUNT": TwoStepAggregate(
        "count", lambda c: c.is_valid().cast(pa.int64()), lambda p, _: f"coalesce(sum({p}), 0L)", True
    ),
    "SUM": TwoStepAggregate("sum", lambda c: c.cast(pa.int64()), sum_of, True),
    "MIN": TwoStepAggregate("min", _unchanged, lambda p, _: f"min({p})"),
    "MAX": TwoStepAggregate("max", _unchanged, lambda p, _: f"max({p})"),
}


@dataclass(frozen=True)
class PartialAggregate:
    """One aggregate: its function, and the column of a frame that it reads; None if it counts rows."""

    function: str
    column: str | None
    kind: pa.DataType

    @property
    def form(self) -> TwoStepAggregate:
        return _TWO_STEP_AGGREGATES[self.function]

    @property
    def type(self) -> pa.DataType:
        return pa.int64() if self.form.counts else column_type(self.kind)


@dataclass(frozen=True)
class PartialAggregation:
    """All aggregates of a statement in two steps."""

    groups: tuple[tuple[str, pa.DataType], ...]
    """The columns of a frame, and their types."""
    aggregates: tuple[PartialAggregate, ...]
    size: int | None = None
    """The size of windows, in milliseconds."""

    @property
    def fields(self) -> list[tuple[str, pa.DataType]]:
        """The columns that a task returns."""
        groups = [(f"g{i}", column_type(kind)) for i, (_, kind) in enumerate(self.groups)]
        return [*groups, ("time", pa.int64()), *((f"p{i}", part.type) for i, part in enumerate(self.aggregates))]

    def merging_sql(self) -> list[str]:
        """SQL that merges the partial results."""
        return [part.form.merging_sql(f"p{i}", part.kind) for i, part in enumerate(self.aggregates)]

    def aggregate(self, columns: Columns) -> dict[str, Any]:
        """Aggregates rows, all of which have a group, to partial results."""
        groups = {f"g{i}": columns[name] for i, (name, _) in enumerate(self.groups)}
        windows = {} if self.size is None else {"window": integer_array(integer_values(columns["time"]) // self.size)}
        arguments = {f"a{i}": columns[part.column] for i, part in enumerate(self.aggregates) if part.column}
        table = pa.table({**groups, **windows, **arguments, "time": columns["time"]})
        steps = [(f"a{i}" if part.column else [], self._step(part)) for i, part in enumerate(self.aggregates)]
        grouped = table.group_by([*groups, *windows], use_threads=False).aggregate([("time", "max"), *steps])
        names = [*groups, *windows, "time", *(f"p{i}" for i in range(len(self.aggregates)))]
        return dict(zip(names, (column.combine_chunks() for column in grouped.columns), strict=True))

    def _step(self, part: PartialAggregate) -> str:
        return part.form.arrow_function if part.column else "count_all"

    def one_by_one(self, columns: Columns) -> dict[str, Any]:
        """The partial results of each row by itself."""
        group_columns = {f"g{i}": columns[name] for i, (name, _) in enumerate(self.groups)} | {"time": columns["time"]}
        one = integer_array(np.ones(len(columns["time"]), np.int64))
        aggregates = [part.form.one_by_one(columns[part.column]) if part.column else one for part in self.aggregates]
        return group_columns | {f"p{i}": part for i, part in enumerate(aggregates)}


class PartialAggregator:
    """In a task: pre-aggregates rows, as long as it is worth it."""

    def __init__(self, partial: PartialAggregation) -> None:
        self._partial = partial
        self._pays = True

    def __call__(self, columns: Columns) -> dict[str, Any]:
        if not self._pays:
            return self._partial.one_by_one(columns)
        partial, rows = self._partial.aggregate(columns), len(columns["time"])
        self._pays = len(partial["time"]) <= rows * _MAX_RATIO or rows < _MIN_ROWS_TO_JUDGE
        return partial


_MIN_ROWS_TO_JUDGE = 1_000
"""Fewer rows than this do not predict the next ones."""


def partial_aggregation(node: Aggregate, relation: Relation, size: int | None) -> PartialAggregation | None:
    """The aggregates over rows of the relation in two steps; None if one of them cannot be split so."""
    groups = [_plain_column(named.expression, relation) for named in node.groups]
    aggregates = [_part(call, relation) for call in node.calls]
    if None in groups or None in aggregates:
        return None
    kinds = [(name, type_of(name, relation)) for name in groups if name]
    if any(kind not in _GROUPS for _, kind in kinds):
        return None
    return PartialAggregation(tuple(kinds), tuple(part for part in aggregates if part), size)


def _plain_column(expression: Any, relation: Relation) -> str | None:
    name = column_name(expression.name, relation) if isinstance(expression, Column) else None
    return name if name and name[0] in "kv" else None


def _part(call: AggregateCall, relation: Relation) -> PartialAggregate | None:
    function = call.function.upper()
    if function not in _TWO_STEP_AGGREGATES or aggregate_sql(call, "x") is None:
        return None
    if not call.arguments:
        return PartialAggregate(function, None, ty.BIGINT)
    column = _plain_column(call.arguments[0], relation)
    kind = call.arguments[0].type
    if column is None or (function == "COUNT" and ty.is_nested(kind)):
        return None
    return PartialAggregate(function, column, kind)
