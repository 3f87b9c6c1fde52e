"""What tasks need to run a query natively: the columns to read, the checks, and the windows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from headrace.engine.native.arrow_filter import push_down_filter
from headrace.engine.native.partial_aggregation import PartialAggregation, partial_aggregation
from headrace.engine.sparksql.column_types import column_type
from headrace.engine.sparksql.expressions import column_name
from headrace.engine.sparksql.frames import type_of
from headrace.plan import nodes as n
from headrace.plan.analysis.pruning import values_read
from headrace.plan.chain.aggregation.windows import grace_of, milliseconds
from headrace.plan.expressions import Column, Expression, column_names
from headrace.plan.relations import Relation, Window
from headrace.plan.rewrite import own_expressions
from headrace.plan.rules import optimize
from headrace.plan.serialization import Setup, load_plan, no_setup, serialize_plan


@dataclass(frozen=True)
class WindowSpec:
    """Tumbling and hopping windows, in milliseconds."""

    size: int
    advance: int
    grace: int

    @property
    def overlap(self) -> bool:
        return self.advance < self.size

    def closed(self, now: int) -> int:
        """The end of the last window that is closed at that time; 0 if none can be."""
        over = now - self.grace - self.size
        return 0 if over < 0 else over // self.advance * self.advance + self.size

    def first_open(self, now: int) -> int:
        """The number of the first open window; a window's start is its number times the advance."""
        return max((now - self.grace - self.size) // self.advance + 1, 0)

    def due(self, number: int) -> int:
        """When that window closes."""
        return number * self.advance + self.size + self.grace


@dataclass(frozen=True)
class NativeTaskSpec:
    """The specification for tasks. Columns are those of the frame (see `sparksql.frames`): k0 ..., v0 ..."""

    query: bytes
    columns: tuple[str, ...]
    groups: tuple[str, ...] = ()
    """Columns that must not be null for a row to count."""
    aggregates: bool = False
    hops: WindowSpec | None = None
    by_time: bool = False
    """Whether the rows of a batch are ordered by time: within it, no row is late."""
    ordered: bool = False
    """Whether the position of rows in the order of arrival is read."""
    folder: str = ""
    """The folder for the notes of tasks."""
    setup: Setup = no_setup
    final: bool = False
    """Whether windows are emitted once, when they have closed: the source passes the stream time to Spark."""
    ticks: str = ""
    """The topic whose records say that time has passed; empty if it is not read."""
    condition: Expression | None = None
    """The source drops rows for which it does not hold; no node above evaluates it again."""
    partial: PartialAggregation | None = None
    """How rows are pre-aggregated before Spark sees them, if they can be."""
    distinct: bool = False
    """Whether only the first of equal rows is emitted."""

    @property
    def plan(self) -> n.Query:
        return load_plan(self.query, self.setup)

    @property
    def source(self) -> n.Source:
        return self.plan.sources[0]

    @property
    def carries_headers(self) -> bool:
        """Results have the headers of their record, unless they are aggregated."""
        return not self.aggregates

    @property
    def above(self) -> n.Node:
        """The part of the plan that Spark runs, down to the source."""
        return self.plan.sink if self.condition is None else push_down_filter(self.plan)[1]

    @property
    def arrow(self) -> pa.Schema:
        """The columns that the source returns."""
        if self.partial is not None:
            now: list[tuple[str, pa.DataType]] = [("now", pa.int64())] if self.final else []
            return _as_spark_has_it([*self.partial.fields, *now])
        columns = self.columns if self.condition is None else _columns(self.above)
        kinds = [(name, column_type(type_of(name, self.source.relation))) for name in columns]
        more: list[tuple[str, pa.DataType]] = [("time", pa.int64()), ("valued", pa.bool_())]
        more += [("keyed", pa.bool_())] if len(self.source.relation.key) > 1 else []
        more += [("sequence", pa.int64())] if self.ordered else []
        more += [("headers", pa.binary())] if self.carries_headers else []
        more += [("now", pa.int64())] if self.hops and (self.hops.overlap or self.final) else []
        return _as_spark_has_it([*kinds, *more])


def _as_spark_has_it(fields: list[tuple[str, pa.DataType]]) -> pa.Schema:
    return to_arrow_schema(from_arrow_schema(pa.schema(fields)), timezone="UTC")


def native_task_spec(
    query: n.Query, folder: str, setup: Setup = no_setup, *, by_time: bool = False, ticks: str = ""
) -> NativeTaskSpec:
    """The specification of a query over one source."""
    plan = optimize(query)
    condition, above = push_down_filter(plan)
    spec = NativeTaskSpec(serialize_plan(plan), _columns(plan.sink), folder=folder, setup=setup, condition=condition)
    if (first := only_distinct(plan.sink)) is not None:
        return replace(spec, hops=_hops(first.window), ordered=True, distinct=True)
    if (aggregate := only_aggregate(plan.sink)) is None:
        return spec
    relation, hops = plan.sources[0].relation, _hops(aggregate.relation.window)
    return replace(
        spec,
        groups=tuple(column_name(named.expression.name, relation) for named in aggregate.groups),
        aggregates=True,
        hops=hops,
        by_time=by_time,
        ordered=any(is_ordered(call) for call in aggregate.calls),
        final=is_final(plan),
        ticks=ticks,
        partial=_partial(only_aggregate(above), hops),
    )


def _partial(node: Any, hops: WindowSpec | None) -> PartialAggregation | None:
    """Rows in several windows are not pre-aggregated before it is known which of these are open."""
    if not isinstance(node.input, n.Source) or (hops and hops.overlap):
        return None
    return partial_aggregation(node, node.input.relation, hops and hops.size)


def _columns(top: n.Node) -> tuple[str, ...]:
    """The frame's columns that any node above the source reads; others are not read from the log."""
    ((source, values),) = values_read(top)
    names = {column_name(name, source.relation) for name in values} | _key_columns(top, source.relation)
    return tuple(sorted(names, key=lambda name: (name[0], int(name[1:]))))


def _key_columns(top: n.Node, relation: Relation) -> set[str]:
    """Rows keep their key up to an aggregate, which drops what it does not name."""
    keys = {f"k{i}" for i in range(len(relation.key))}
    if only_aggregate(top) is None:
        return keys
    named = {name for node in n.walk(top) for e in own_expressions(node) for name in column_names(e)}
    return keys & {column_name(name, relation) for name in named if relation.column(name) is not None}


def only_aggregate(top: n.Node) -> Any:
    """The only aggregate of a plan."""
    return next((node for node in n.walk(top) if isinstance(node, n.Aggregate)), None)


def only_distinct(top: n.Node) -> n.Distinct | None:
    """The only DISTINCT of a plan."""
    return next((node for node in n.walk(top) if isinstance(node, n.Distinct)), None)


def is_final(plan: n.Query) -> bool:
    return any(isinstance(node, n.Final) for node in n.walk(plan.sink))


def is_ordered(call: n.AggregateCall) -> bool:
    """Whether it depends on the order of rows."""
    return call.function.upper().endswith("_BY_OFFSET")


def _hops(window: Window | None) -> WindowSpec | None:
    if window is None:
        return None
    size = milliseconds(window.size)
    return WindowSpec(size, milliseconds(window.advance) or size, grace_of(window))


def group_columns(node: n.Aggregate) -> list[Column | None]:
    """The groups that are plain columns; None for others."""
    return [named.expression if isinstance(named.expression, Column) else None for named in node.groups]
