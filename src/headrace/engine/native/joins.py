"""Stream with stream natively: Spark's own join of two halves of one source, with the chain's answer.

Two rows are a pair if their keys are equal, their times close, and the one that came first was still held when the
other came: that is, its side's time was then less than the retention ahead of it. Every row carries what that takes:
its place in the order of arrival, and what time it was for the other side. So Spark's condition is exact, however the
log is cut into batches. (`join_rows` finds those times, and what is to be reported.)

Spark's watermark only cleans up. It follows `at`: a row's time, or the time that both sides have reached when it comes,
if that is later. So no row is ever behind the watermark, which is the lesser of both sides' times; a row goes when that
has passed it by the retention, and its own side, which is no earlier, has let it go by then. A pair is never further
apart in `at` than the retention, which is what Spark is told. One side that is silent keeps the other's rows.

Where rows are held much longer than partners may be apart, Spark would look through all rows of a key for each new one.
There, time is cut into buckets as long as the window: a left row lies in one, a right one in the two that it can reach.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from headrace.engine.batch.carriers import carrier
from headrace.engine.batch.expressions import column_name
from headrace.engine.batch.frames import type_of
from headrace.engine.batch.shipping import Setup, no_setup, packed
from headrace.engine.native.work import Work, wanted
from headrace.plan import nodes as n
from headrace.plan.chain.stream_join import reach_of
from headrace.plan.expressions import PSEUDO, Column, Expression
from headrace.plan.rewriting import place, relation_of
from headrace.plan.rules import optimized

LETTERS = "lr"
_SPARSE = 4
"""So much longer than the window must rows be held, for buckets to be worth a second copy of the right ones."""


@dataclass(frozen=True)
class Bounds:
    """How far a right row may be before and after a left one, and how long rows are held, in milliseconds."""

    before: int
    after: int
    retention: int

    @property
    def bucket(self) -> int | None:
        """The length of a bucket; None where they do not pay."""
        window = max(self.before + self.after, 1)
        return window if self.retention >= _SPARSE * window else None


@dataclass(frozen=True)
class JoinWork:
    """What a task must know of both sides; `groups` of a side is the column of its key."""

    sides: tuple[Work, Work]
    bounds: Bounds
    by_time: bool = False
    """On Kafka: a batch's number tells the order of its rows from others', their times and places that among them."""

    @property
    def left(self) -> Work:
        return self.sides[0]

    @property
    def places(self) -> tuple[str, ...]:
        """What tells the order of arrival."""
        return ("sequence", "partition", "offset") if self.by_time else ("sequence",)

    @property
    def arrow(self) -> pa.Schema:
        """What the source gives: rows of both sides, each with nulls for the columns of the other."""
        numbers = [(name, pa.int64()) for name in ("time", *self.places, "now", "at")]
        kinds = [
            (half, carrier(type_of(name, work.source.relation))) for work in self.sides for name, half in names(work)
        ]
        schema = pa.schema([("side", pa.int8()), *numbers, ("headers", pa.binary()), *kinds])
        return to_arrow_schema(from_arrow_schema(schema), timezone="UTC")

    def spot(self, side: int) -> str:
        """A row's place in the order of arrival, in SQL: a list of numbers."""
        topics, letter = [work.source.topic for work in self.sides], LETTERS[side]
        if not self.by_time:
            return f"{letter}_sequence"
        rank = sorted(topics).index(topics[side])
        return f"{letter}_sequence, {letter}_time, {rank}L, {letter}_partition, {letter}_offset"


def names(work: Work) -> list[tuple[str, str]]:
    """The columns of a side, each with its name among those of both."""
    return [(name, f"{LETTERS[work.side]}_{name}") for name in work.columns]


def join_of(plan: n.Query) -> Any:
    """The plan's only join of streams."""
    return next((node for node in n.walk(plan.sink) if isinstance(node, n.StreamJoin)), None)


def join_for(query: n.Query, folder: str, setup: Setup = no_setup, *, by_time: bool = False) -> JoinWork | None:
    """None if no streams are joined."""
    plan = optimized(query)
    node = join_of(plan)
    if node is None:
        return None
    before, after, grace = reach_of(node)
    sides = [_side(plan, top, side, folder, setup) for side, top in enumerate((node.left, node.right))]
    return JoinWork((sides[0], sides[1]), Bounds(before, after, before + after + grace), by_time)


def _side(plan: n.Query, top: n.Node, side: int, folder: str, setup: Setup) -> Work:
    key = key_column(top)
    assert key is not None  # `choice` has seen to it
    columns = sorted({*wanted(top, plan.sources[side]), key}, key=lambda name: (name[0], int(name[1:])))
    return Work(packed(plan), tuple(columns), (key,), folder=folder, setup=setup, side=side)


# -- which column of its source a join's key is ---------------------------------------------------------------------


def key_column(node: n.Node, at: int = 0) -> str | None:
    """The column of the source's frame that is part of a node's key; None if it is computed."""
    if isinstance(node, n.Source):
        return f"k{at}"
    if isinstance(node, n.Rekey):
        return _computed(node.keys[at].expression, node.input)
    return key_column(node.inputs[0], at)


def _computed(expression: Expression, over: n.Node) -> str | None:
    return _column(over, expression.name) if isinstance(expression, Column) else None


def _column(node: n.Node, name: str) -> str | None:
    if name in PSEUDO:
        return None
    if isinstance(node, n.Source):
        return column_name(name, node.relation)
    kind, at = place(relation_of(node), name) or ("key", 0)
    if kind == "key":
        return key_column(node, at)
    if isinstance(node, n.Select):
        return _computed(node.values[at].expression, node.input)
    if isinstance(node, n.Rekey) and at >= (width := len(relation_of(node.input).value)):
        return key_column(node.input, _held(node, at - width))
    return _column(node.inputs[0], name)


def _held(node: n.Rekey, more: int) -> int:
    """Which part of the old key it is that stands behind the values."""
    before = relation_of(node.input)
    return [field.name for field in before.key].index(node.relation.value[len(before.value) + more].name)
