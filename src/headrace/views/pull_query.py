"""Runs a pull query: the plan's own chain over the rows of a view.

Rows are looked up by what WHERE bounds; the chain then decides, so the result is that of the chain over all rows. Each
row of a table is taken once, as it is: it has no earlier version, so it counts as a fact, like a row of a stream.

Rows are streamed: only ORDER BY without LIMIT, and the groups of GROUP BY, are held in memory. What follows the groups
is computed once they are complete; aggregates over all rows form one group, which exists even without any row.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from math import prod
from typing import Any, cast

from headrace.errors import BadQuery, Unsupported
from headrace.plan import types as ty
from headrace.plan.allowance import growth, record_allowance, stored_size
from headrace.plan.analysis.lookup import Bound, Selection, extract_selection
from headrace.plan.chain.aggregation.top_n import ranker
from headrace.plan.chain.interpreter import Chain
from headrace.plan.chain.key_order import hashable
from headrace.plan.codegen.compiler import evaluator
from headrace.plan.expressions import (
    Arithmetic,
    Call,
    Column,
    Compare,
    Expression,
    Lambda,
    Like,
    Parameter,
    column_names,
)
from headrace.plan.expressions import walk as walk_expression
from headrace.plan.nodes import Aggregate, Filter, Node, Query, Select, Sink, Source, walk
from headrace.plan.relations import Kind, Relation, System
from headrace.plan.rewrite import own_expressions, relation_of, rewrite_nodes
from headrace.plan.rules import optimize
from headrace.plan.steps import Context, Event, Problem
from headrace.views.contract import SCAN_BATCH_ROWS, ViewReader, ViewState

Order = Sequence[tuple[Expression, bool]]
"""Expressions over the result's columns, each with whether it sorts in descending order."""
BatchFilter = Callable[[Iterator[list[Event]]], Iterator[list[Event]]]

_PLAIN = (ty.STRING, ty.INT, ty.BIGINT)
"""Types whose constants can all be looked up."""
MAX_LOOKUP_KEYS = 64
MAX_COLUMN_READS = 20
"""How often a query in the server's process may name a column."""
_COUNTS = ("COUNT", "COUNT_DISTINCT")


@dataclass(frozen=True)
class PullResult:
    """Rows in batches, and the view's state that they reflect. They can be read only within the `with` block."""

    relation: Relation
    state: ViewState
    batches: Iterator[list[Event]]


class PullQuery:
    """A pull query that can be run repeatedly. Problems with rows are reported to `context`."""

    def __init__(
        self, query: Query, *, order: Order = (), limit: int | None = None, context: Context | None = None
    ) -> None:
        plan = optimize(query)
        self.source = _only_source(plan)
        self.selection = _selected(plan.sink)
        self.is_lookup = _is_lookup(self.source.relation, self.selection) and not _computes(plan.sink)
        """Whether it reads at most a few rows, by their keys: that takes less time than handing it to a thread."""
        self.is_heavy = not _fixes_key(self.source.relation, self.selection) or _can_grow(plan)
        """Whether it reads any number of rows, or may create much for a few."""
        self.relation = query.sink.relation
        self._context = context or Context()
        self._order, self._limit = tuple(order), limit
        self._aggregate = next((node for node in walk(plan.sink) if isinstance(node, Aggregate)), None)
        self._chain = Chain(replace(plan, sink=_above_groups(plan.sink, self.source)), self._context)
        """Starts at the source, or at the groups."""

    @contextmanager
    def over(self, view: ViewReader, through: BatchFilter = iter) -> Iterator[PullResult]:
        """Runs over one snapshot of the source's view; the scanned batches pass `through` a generator."""
        streams = not self._order and self._aggregate is None
        batch = SCAN_BATCH_ROWS if self._limit is None or not streams else min(SCAN_BATCH_ROWS, 4 * self._limit)
        with (
            view.snapshot() as snapshot,
            closing(snapshot.scan(self.selection.given(), batch=max(1, batch))) as scanned,
        ):
            rows = self._results(through(scanned))
            results = sort_and_limit(self.relation, rows, self._order, self._limit, self._context)
            yield PullResult(self.relation, snapshot.state, results)

    def _results(self, scanned: Iterator[list[Event]]) -> Iterator[list[Event]]:
        (source_path,) = self._chain.source_paths
        rows = scanned if self._aggregate is None else self._grouped(self._aggregate, scanned)
        return (source_path.feed(batch) for batch in rows)

    def _grouped(self, aggregate: Aggregate, scanned: Iterator[list[Event]]) -> Iterator[list[Event]]:
        """The groups, computed when the first is read: only then the query's allowance applies."""
        yield from _parted(self._groups(aggregate, scanned))

    def _groups(self, aggregate: Aggregate, scanned: Iterator[list[Event]]) -> Iterable[Event]:
        """Computes the groups. An aggregate emits every intermediate result; the last one counts."""
        sink = Sink(aggregate, aggregate.relation, "", "", self.source.key_format, self.source.value_format)
        (source_path,) = Chain(Query("", _as_facts(sink)), replace(self._context, report=self._noticed)).source_paths
        groups: dict[Any, Event] = {}
        for batch in scanned:
            for time, key, row, _ in source_path.feed(batch):
                slot = hashable(key)
                _hold_group(groups.get(slot), key, row)
                groups[slot] = time, key, row
        return groups.values() or self._nothing(aggregate)

    def _noticed(self, problem: Problem) -> None:
        """Raises if an aggregate cannot take a row: without it the result would be wrong, so it is no dead letter."""
        if problem.code == "aggregate-failed":
            raise BadQuery(problem.reason, fix="select fewer rows, or CAST to a wider type such as DOUBLE")
        self._context.report(problem)

    def _nothing(self, aggregate: Aggregate) -> list[Event]:
        """The result without any row: no group, unless all rows form one; then counts are 0 and the rest is null."""
        groups = [named.expression for named in aggregate.groups]
        if any(map(column_names, groups)):
            return []
        key = evaluator(groups, relation_of(aggregate.input), self._context, "GROUP BY")(0, (), ())
        return [(0, key, tuple(0 if call.function in _COUNTS else None for call in aggregate.calls))]


# -- the plan -------------------------------------------------------------------------------------------------------


def _only_source(plan: Query) -> Source:
    fits = all(node.traits.in_pull_queries for node in walk(plan.sink))
    sources = plan.sources
    if not fits or len(sources) != 1 or sources[0].relation.kind is not Kind.TABLE:
        raise Unsupported(
            "a pull query can read only one table, with WHERE, GROUP BY, ORDER BY and LIMIT",
            fix="store the result with CREATE TABLE ... AS SELECT and query that, or add EMIT CHANGES",
        )
    envelope = [column.name for column in sources[0].system if column.kind in (System.PARTITION, System.OFFSET)]
    if envelope:
        raise Unsupported(f"a materialized table does not store {envelope[0]}", fix="remove it, or add EMIT CHANGES")
    return sources[0]


def _selected(sink: Node) -> Selection:
    """The selection by the filters directly above the source."""
    filters = [node.condition for node in walk(sink) if isinstance(node, Filter) and _is_low(node)]
    return extract_selection(filters[-1] if filters else None)


def _is_low(node: Node) -> bool:
    return isinstance(node.inputs[0], Source)


def _is_lookup(relation: Relation, selection: Selection) -> bool:
    """Whether every alternative fixes the whole key, with few values. Of a windowed key that is only a part."""
    return relation.window is None and _fixes_key(relation, selection)


def _fixes_key(relation: Relation, selection: Selection) -> bool:
    """The same, but the key may have any number of windows."""
    if any(field.type not in _PLAIN for field in relation.key):
        return False
    keys = {field.name for field in relation.key} - {field.name for field in relation.value}
    named = [{b.column: len(b.values) for b in one if _is_plain(b)} for one in selection.alternatives]
    whole = len(keys) == len(relation.key) and all(keys <= one.keys() for one in named)
    return whole and sum(prod(one[key] for key in keys) for one in named) <= MAX_LOOKUP_KEYS


def _computes(sink: Sink) -> bool:
    """Whether a function or LIKE is evaluated, which may be slow."""
    nodes = list(walk(sink))
    computed = [named.expression for node in nodes if isinstance(node, Select) for named in node.values]
    computed += [node.condition for node in nodes if isinstance(node, Filter)]
    return any(isinstance(part, Call | Like) for expression in computed for part in walk_expression(expression))


def _can_grow(plan: Query) -> bool:
    """Whether the result may be much larger than the rows: by a function, or because columns are repeated."""
    nodes = [node for node in walk(plan.sink) if not isinstance(node, Source | Sink)]
    parts = [part for node in nodes for expression in own_expressions(node) for part in walk_expression(expression)]
    reads = Counter(part.name for part in parts if isinstance(part, Column))
    return max(reads.values(), default=0) > MAX_COLUMN_READS or any(map(_grows, parts))


def _grows(part: Expression) -> bool:
    if isinstance(part, Call):
        return part.can_grow
    return isinstance(part, Lambda) or (isinstance(part, Arithmetic) and part.type in (ty.STRING, ty.BYTES))


def _is_plain(bound: Bound) -> bool:
    return bound.op is Compare.EQUAL and all(isinstance(value, str | int | Parameter) for value in bound.values)


def _above_groups(sink: Sink, source: Source) -> Sink:
    """The plan with its groups as the source, or over the source itself if there are none."""

    def change(node: Node) -> Node:
        return replace(source, relation=node.relation, system=()) if isinstance(node, Aggregate) else node

    return _as_facts(cast(Sink, rewrite_nodes(sink, change)))


def _as_facts(sink: Sink) -> Sink:
    """The plan with every relation as a stream, except that of an aggregate, which is always a table."""

    def change(node: Node) -> Node:
        if isinstance(node, Aggregate):
            return node
        return replace(node, relation=replace(relation_of(node), kind=Kind.STREAM))  # type: ignore[call-arg]

    return cast(Sink, rewrite_nodes(sink, change))


# -- rows -----------------------------------------------------------------------------------------------------------


def sort_and_limit(
    relation: Relation,
    results: Iterator[list[Event]],
    order: Order,
    limit: int | None,
    context: Context | None = None,
) -> Iterator[list[Event]]:
    """Sorts the results, and returns no more than `limit` of them."""
    if order:
        rows = (row for batch in results for row in batch)
        return _sorted(_held(rows, limit), relation, order, limit, context or Context())
    return results if limit is None else _first(results, limit)


def _sorted(
    rows: Iterator[Event], relation: Relation, order: Order, limit: int | None, context: Context
) -> Iterator[list[Event]]:
    """Sorts when the first row is read: only then the query's allowance applies."""
    values = evaluator([expression for expression, _ in order], relation, context, "ORDER BY")
    rank = ranker([down for _, down in order])

    def place(row: Event) -> Any:
        return rank(values(*row[:3]))

    yield from _parted(sorted(rows, key=place) if limit is None else heapq.nsmallest(limit, rows, key=place))


def _held(rows: Iterator[Event], limit: int | None) -> Iterator[Event]:
    """Charges the rows that are sorted; with a limit, as many as are stored at once."""
    allowance = record_allowance()
    for number, row in enumerate(rows):
        if limit is None or number < limit:
            allowance.hold(stored_size(row[1]) + stored_size(row[2]), "ORDER BY")
        yield row


def _hold_group(before: Event | None, key: Any, row: Any) -> None:
    """Charges a new group, or by how much its aggregates have grown."""
    if before is None:
        size = stored_size(key) + stored_size(row)
    else:
        size = 0 if row is None or before[2] is None else sum(map(growth, before[2], row))
    if size:
        record_allowance().hold(size, "GROUP BY")


def _parted(rows: Any) -> Iterator[list[Event]]:
    left = iter(rows)
    while batch := list(islice(left, SCAN_BATCH_ROWS)):
        yield batch


def _first(results: Iterator[list[Event]], limit: int) -> Iterator[list[Event]]:
    for batch in results:
        if limit <= 0:
            return
        yield batch[:limit]
        limit -= len(batch)
