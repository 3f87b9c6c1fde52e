"""A query that is answered from what is there: the plan's own chain, run over the rows of a view.

What the query's WHERE bounds is looked up; the chain then decides, so the answer is that of the chain over all rows.
Rows of a table are taken as they stand, each once: nothing was before them, so they are facts, like those of a stream.
Rows stream through: only ORDER BY without LIMIT, and the groups of GROUP BY, are held in memory. What stands above the
groups is computed once they are complete; aggregates over all rows are one group, which is there without any row, too.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from math import prod
from typing import Any, cast

from headrace.errors import BadQuery, Unsupported
from headrace.plan import types as ty
from headrace.plan.chain.chain import Chain
from headrace.plan.chain.compile import evaluator
from headrace.plan.chain.contract import Context, Event, Problem
from headrace.plan.chain.key_order import hashable
from headrace.plan.chain.top import ranker
from headrace.plan.expressions import Call, Compare, Expression, Like, Parameter, columns_of
from headrace.plan.expressions import walk as walk_expression
from headrace.plan.nodes import Aggregate, Filter, Kind, Node, Query, Relation, Select, Sink, Source, System, walk
from headrace.plan.rewriting import everywhere, relation_of
from headrace.plan.rules import optimized
from headrace.plan.selection import Bound, Selection, selection_of
from headrace.views.contract import SCANNED, State, View

Order = Sequence[tuple[Expression, bool]]
"""Expressions over the result's columns, each with whether it goes downwards."""
Through = Callable[[Iterator[list[Event]]], Iterator[list[Event]]]

_KNOWN = (Sink, Select, Filter, Source, Aggregate)
_PLAIN = (ty.STRING, ty.INT, ty.BIGINT)
"""Types of which every constant can be looked up."""
FEW = 64
_COUNTS = ("COUNT", "COUNT_DISTINCT")


@dataclass(frozen=True)
class Answer:
    """Rows in batches, and the state of the view that they are of. They can be had while the answer lasts."""

    relation: Relation
    state: State
    batches: Iterator[list[Event]]


class Pull:
    """A query that can be asked again and again. What its chain reports of rows goes to `context`."""

    def __init__(
        self, query: Query, *, order: Order = (), limit: int | None = None, context: Context | None = None
    ) -> None:
        plan = optimized(query)
        self.source = _only_source(plan)
        self.selection = _selected(plan.sink)
        self.is_lookup = _is_lookup(self.source.relation, self.selection) and not _computes(plan.sink)
        """Whether a few rows at most are looked at, by their keys: that takes less than to hand it to a thread."""
        self.relation = query.sink.relation
        self._context = context or Context()
        self._order, self._limit = tuple(order), limit
        self._aggregate = next((node for node in walk(plan.sink) if isinstance(node, Aggregate)), None)
        self._chain = Chain(replace(plan, sink=_above_groups(plan.sink, self.source)), self._context)
        """From the source, or from the groups."""

    @contextmanager
    def over(self, view: View, through: Through = iter) -> Iterator[Answer]:
        """Answered from one snapshot of the view of the source; what is read goes `through` a generator."""
        with view.snapshot() as snapshot:
            streams = not self._order and self._aggregate is None
            batch = SCANNED if self._limit is None or not streams else min(SCANNED, 4 * self._limit)
            scanned = through(snapshot.scan(self.selection.given(), batch=max(1, batch)))
            results = finished(self.relation, self._results(scanned), self._order, self._limit, self._context)
            yield Answer(self.relation, snapshot.state, results)

    def _results(self, scanned: Iterator[list[Event]]) -> Iterator[list[Event]]:
        (entrance,) = self._chain.entrances
        rows = scanned if self._aggregate is None else _parted(self._groups(self._aggregate, scanned))
        return (entrance.feed(batch) for batch in rows)

    def _groups(self, aggregate: Aggregate, scanned: Iterator[list[Event]]) -> Iterable[Event]:
        """An aggregate tells every step; the last one counts."""
        sink = Sink(aggregate, aggregate.relation, "", "", self.source.key_format, self.source.value_format)
        (entrance,) = Chain(Query("", _as_facts(sink)), replace(self._context, report=self._noticed)).entrances
        groups = {hashable(key): (time, key, row) for b in scanned for time, key, row, _ in entrance.feed(b)}
        return groups.values() or self._nothing(aggregate)

    def _noticed(self, problem: Problem) -> None:
        """A row that an aggregate cannot take is no dead letter here: an answer without it would be wrong."""
        if problem.code == "aggregate-failed":
            raise BadQuery(problem.reason, fix="ask for fewer rows, or CAST to a wider type, as DOUBLE")
        self._context.report(problem)

    def _nothing(self, aggregate: Aggregate) -> list[Event]:
        """Without any row there is no group, unless all rows are one: of none, a count is 0 and all else is null."""
        groups = [named.expression for named in aggregate.groups]
        if any(map(columns_of, groups)):
            return []
        key = evaluator(groups, relation_of(aggregate.input), self._context, "GROUP BY")(0, (), ())
        return [(0, key, tuple(0 if call.function in _COUNTS else None for call in aggregate.calls))]


# -- the plan -------------------------------------------------------------------------------------------------------


def _only_source(plan: Query) -> Source:
    unknown = [type(node).__name__ for node in walk(plan.sink) if not isinstance(node, _KNOWN)]
    sources = plan.sources
    if unknown or len(sources) != 1 or sources[0].relation.kind is not Kind.TABLE:
        raise Unsupported(
            "only one table can be asked at a time, by WHERE, GROUP BY, ORDER BY and LIMIT",
            fix="store the result with CREATE TABLE ... AS SELECT and ask that, or add EMIT CHANGES",
        )
    envelope = [column.name for column in sources[0].system if column.kind in (System.PARTITION, System.OFFSET)]
    if envelope:
        raise Unsupported(f"a table does not hold {envelope[0]}", fix="leave it out, or add EMIT CHANGES")
    return sources[0]


def _selected(sink: Node) -> Selection:
    """By the filters that stand directly on the source."""
    filters = [node.condition for node in walk(sink) if isinstance(node, Filter) and _is_low(node)]
    return selection_of(filters[-1] if filters else None)


def _is_low(node: Node) -> bool:
    return isinstance(node.inputs[0], Source)


def _is_lookup(relation: Relation, selection: Selection) -> bool:
    """Whether every alternative gives the whole key, in few values. A key with windows is only a part of a key."""
    if relation.window is not None or any(field.type not in _PLAIN for field in relation.key):
        return False
    keys = {field.name for field in relation.key} - {field.name for field in relation.value}
    named = [{b.column: len(b.values) for b in one if _is_plain(b)} for one in selection.alternatives]
    whole = len(keys) == len(relation.key) and all(keys <= one.keys() for one in named)
    return whole and sum(prod(one[key] for key in keys) for one in named) <= FEW


def _computes(sink: Sink) -> bool:
    """Whether something is worked out that may take its time: by a function, or LIKE."""
    nodes = list(walk(sink))
    computed = [named.expression for node in nodes if isinstance(node, Select) for named in node.values]
    computed += [node.condition for node in nodes if isinstance(node, Filter)]
    return any(isinstance(part, Call | Like) for expression in computed for part in walk_expression(expression))


def _is_plain(bound: Bound) -> bool:
    return bound.op is Compare.EQUAL and all(isinstance(value, str | int | Parameter) for value in bound.values)


def _above_groups(sink: Sink, source: Source) -> Sink:
    """The plan over its groups as a source, or over the source itself where there are none."""

    def change(node: Node) -> Node:
        return replace(source, relation=node.relation, system=()) if isinstance(node, Aggregate) else node

    return _as_facts(cast(Sink, everywhere(sink, change)))


def _as_facts(sink: Sink) -> Sink:
    """The plan with every relation a stream, but that of an aggregate, which is a table in any case."""

    def change(node: Node) -> Node:
        if isinstance(node, Aggregate):
            return node
        return replace(node, relation=replace(relation_of(node), kind=Kind.STREAM))  # type: ignore[call-arg]

    return cast(Sink, everywhere(sink, change))


# -- rows -----------------------------------------------------------------------------------------------------------


def finished(
    relation: Relation,
    results: Iterator[list[Event]],
    order: Order,
    limit: int | None,
    context: Context | None = None,
) -> Iterator[list[Event]]:
    """Results in order, and not more of them than wanted."""
    if order:
        rows = (row for batch in results for row in batch)
        return _parted(_sorted(rows, relation, order, limit, context or Context()))
    return results if limit is None else _first(results, limit)


def _sorted(
    rows: Iterator[Event], relation: Relation, order: Order, limit: int | None, context: Context
) -> list[Event]:
    values = evaluator([expression for expression, _ in order], relation, context, "ORDER BY")
    rank = ranker([down for _, down in order])

    def place(row: Event) -> Any:
        return rank(values(*row[:3]))

    return sorted(rows, key=place) if limit is None else heapq.nsmallest(limit, rows, key=place)


def _parted(rows: Any) -> Iterator[list[Event]]:
    left = iter(rows)
    while batch := list(islice(left, SCANNED)):
        yield batch


def _first(results: Iterator[list[Event]], limit: int) -> Iterator[list[Event]]:
    for batch in results:
        if limit <= 0:
            return
        yield batch[:limit]
        limit -= len(batch)
