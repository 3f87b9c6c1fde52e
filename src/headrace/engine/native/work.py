"""What a task must know of a query that runs natively: which columns it reads, what is checked, which windows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from headrace.engine.batch.carriers import carrier
from headrace.engine.batch.expressions import column_name
from headrace.engine.batch.frames import type_of
from headrace.engine.batch.shipping import Setup, no_setup, packed, shipped
from headrace.engine.native.conditions import cut_plan
from headrace.engine.native.partials import Partial, partial_of
from headrace.plan import nodes as n
from headrace.plan.chain.windows import grace_of, milliseconds
from headrace.plan.expressions import PSEUDO, Column, Expression, Named, columns_of
from headrace.plan.rules import optimized


@dataclass(frozen=True)
class Hops:
    """Tumbling and hopping windows, in milliseconds."""

    size: int
    advance: int
    grace: int

    @property
    def overlap(self) -> bool:
        return self.advance < self.size

    def closed(self, now: int) -> int:
        """The end of the last window that is closed by then; 0 if none can be."""
        over = now - self.grace - self.size
        return 0 if over < 0 else over // self.advance * self.advance + self.size

    def first_open(self, now: int) -> int:
        """The number of the first window that is not; the window's start is its number times the advance."""
        return max((now - self.grace - self.size) // self.advance + 1, 0)

    def due(self, number: int) -> int:
        """When that window closes."""
        return number * self.advance + self.size + self.grace


@dataclass(frozen=True)
class Work:
    """As tasks get it. Columns are those of the frame (see `batch.frames`): k0 ..., v0 ..."""

    query: bytes
    columns: tuple[str, ...]
    groups: tuple[str, ...] = ()
    """Columns of which none may be null, for a row to count."""
    aggregates: bool = False
    hops: Hops | None = None
    by_time: bool = False
    """The rows of a batch come in order of their times: within it, none is late for another."""
    ordered: bool = False
    """The place of a row in the order of arrival is read."""
    folder: str = ""
    """Where tasks leave notes."""
    setup: Setup = no_setup
    final: bool = False
    """Windows come out once, when they have closed: the source tells Spark how far the stream has come."""
    ticks: str = ""
    """The topic whose records say that time has passed; none if nobody reads them."""
    side: int = 0
    """Of two streams that are joined, the number of this one; see `joins`."""
    condition: Expression | None = None
    """Rows for which it does not hold are left out; no one above the source looks for that again."""
    partial: Partial | None = None
    """How rows are added up before Spark sees them, if they can be."""
    distinct: bool = False
    """Of equal rows only the first goes on."""

    @property
    def plan(self) -> n.Query:
        return shipped(self.query, self.setup)

    @property
    def source(self) -> n.Source:
        return self.plan.sources[self.side]

    @property
    def carries_headers(self) -> bool:
        """What a record causes has its headers, but for what is aggregated."""
        return not self.aggregates

    @property
    def above(self) -> n.Node:
        """What is left for Spark, down to the source."""
        return self.plan.sink if self.condition is None else cut_plan(self.plan)[1]

    @property
    def arrow(self) -> pa.Schema:
        """The columns that the source gives."""
        if self.partial is not None:
            now: list[tuple[str, pa.DataType]] = [("now", pa.int64())] if self.final else []
            return _as_spark_has_it([*self.partial.fields, *now])
        columns = self.columns if self.condition is None else _columns(self.above)  # of a join, this side's
        kinds = [(name, carrier(type_of(name, self.source.relation))) for name in columns]
        more: list[tuple[str, pa.DataType]] = [("time", pa.int64()), ("valued", pa.bool_())]
        more += [("keyed", pa.bool_())] if len(self.source.relation.key) > 1 else []
        more += [("sequence", pa.int64())] if self.ordered else []
        more += [("headers", pa.binary())] if self.carries_headers else []
        more += [("now", pa.int64())] if self.hops and (self.hops.overlap or self.final) else []
        return _as_spark_has_it([*kinds, *more])


def _as_spark_has_it(fields: list[tuple[str, pa.DataType]]) -> pa.Schema:
    return to_arrow_schema(from_arrow_schema(pa.schema(fields)), timezone="UTC")


def work_for(query: n.Query, folder: str, setup: Setup = no_setup, *, by_time: bool = False, ticks: str = "") -> Work:
    """What tasks must know of a query over one source."""
    plan = optimized(query)
    condition, above = cut_plan(plan)
    work = Work(packed(plan), _columns(plan.sink), folder=folder, setup=setup, condition=condition)
    if (first := distinct_of(plan.sink)) is not None:
        return replace(work, hops=_hops(first.window), ordered=True, distinct=True)
    if (found := aggregate_of(plan.sink)) is None:
        return work
    relation, hops = plan.sources[0].relation, _hops(found.relation.window)
    return replace(
        work,
        groups=tuple(column_name(named.expression.name, relation) for named in found.groups),
        aggregates=True,
        hops=hops,
        by_time=by_time,
        ordered=any(is_ordered(call) for call in found.calls),
        final=is_final(plan),
        ticks=ticks,
        partial=_partial(aggregate_of(above), hops),
    )


def _partial(node: Any, hops: Hops | None) -> Partial | None:
    """Rows that lie in several windows are not added up before it is known which of those are open."""
    if not isinstance(node.input, n.Source) or (hops and hops.overlap):
        return None
    return partial_of(node, node.input.relation, hops and hops.size)


def _columns(top: n.Node) -> tuple[str, ...]:
    source = next(node for node in n.walk(top) if isinstance(node, n.Source))
    return tuple(sorted(wanted(top, source), key=lambda name: (name[0], int(name[1:]))))


def aggregate_of(top: n.Node) -> Any:
    """The only aggregate of a plan."""
    return next((node for node in n.walk(top) if isinstance(node, n.Aggregate)), None)


def distinct_of(top: n.Node) -> n.Distinct | None:
    """The only DISTINCT of a plan."""
    return next((node for node in n.walk(top) if isinstance(node, n.Distinct)), None)


def is_final(plan: n.Query) -> bool:
    return any(isinstance(node, n.Final) for node in n.walk(plan.sink))


def is_ordered(call: n.AggregateCall) -> bool:
    """Whether it asks which row came first."""
    return call.function.upper().endswith("_BY_OFFSET")


def _hops(window: n.Window | None) -> Hops | None:
    if window is None:
        return None
    size = milliseconds(window.size)
    return Hops(size, milliseconds(window.advance) or size, grace_of(window))


def wanted(top: n.Node, source: n.Source) -> set[str]:
    """The frame's columns that anything above the source reads; what nobody reads is not read from the log."""
    nodes = [node for node in n.walk(top) if node is not source]
    names = {name for node in nodes for name in _names(vars(node))} - set(PSEUDO)
    relation = source.relation
    found = {column_name(name, relation) for name in names if relation.column(name) is not None}
    if not any(isinstance(node, n.Aggregate | n.Select) for node in nodes):
        found |= {f"v{i}" for i in range(len(relation.value))}
    if not any(isinstance(node, n.Aggregate) for node in nodes):
        found |= {f"k{i}" for i in range(len(relation.key))}
    return found


def _names(value: Any) -> Iterator[str]:
    """Columns that a node's own fields name."""
    if isinstance(value, Expression):
        yield from columns_of(value)
    elif isinstance(value, Named):
        yield from _names(value.expression)
    elif isinstance(value, n.AggregateCall):
        yield from _names(value.arguments)
    elif isinstance(value, dict | tuple):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _names(item)


def group_columns(node: n.Aggregate) -> list[Column | None]:
    """What the groups are, where they are plain columns."""
    return [named.expression if isinstance(named.expression, Column) else None for named in node.groups]
