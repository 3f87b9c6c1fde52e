"""Stream-stream joins in native mode: Spark's own join of two halves of one source, with the chain's result.

Two rows are a pair if their keys are equal, their times close, and the first one was still held when the other arrived:
that is, its side's time was then less than the retention ahead of it. Every row carries what that requires: its
position in the order of arrival, and the time of the other side. So Spark's condition is exact, however the log is cut
into batches. (`input_rows` determines those times, and what is reported.)

Spark's watermark only cleans up. It follows `at`: a row's time, or the time that both sides have reached when it
arrives, if that is later. So no row is ever behind the watermark, which is the lesser of both sides' times; a row is
removed when the watermark has passed it by the retention, and by then its own side, which is no earlier, has dropped
it. The rows of a pair never differ in `at` by more than the retention, which is what Spark's condition says. A silent
side keeps the other side's rows in the state.

Where rows are held much longer than partners may be apart, Spark would scan all rows of a key for each new one. There,
time is split into buckets as long as the window: a left row is in one, a right one in the two that it can reach.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from headrace.engine.native.task_spec import NativeTaskSpec, columns_read
from headrace.engine.planning.serialization import Setup, no_setup, serialize_plan
from headrace.engine.sparksql.column_types import column_type
from headrace.engine.sparksql.expressions import column_name
from headrace.engine.sparksql.frames import type_of
from headrace.plan import nodes as n
from headrace.plan.analysis.rewrite import column_position, relation_of
from headrace.plan.chain.joins.stream_join import join_reach
from headrace.plan.expressions import PSEUDO, Column, Expression
from headrace.plan.rules import optimize

SIDE_PREFIXES = "lr"
_SPARSE = 4
"""How many times longer than the window rows must be held for buckets to be worth a second copy of the right rows."""


@dataclass(frozen=True)
class JoinBounds:
    """How far a right row may be before and after a left one, and how long rows are held, in milliseconds."""

    before: int
    after: int
    retention: int

    @property
    def bucket(self) -> int | None:
        """The length of a bucket; None where buckets do not pay."""
        window = max(self.before + self.after, 1)
        return window if self.retention >= _SPARSE * window else None


@dataclass(frozen=True)
class JoinTaskSpec:
    """What a task needs of both sides; `groups` of a side is the column of its key."""

    sides: tuple[NativeTaskSpec, NativeTaskSpec]
    bounds: JoinBounds
    by_time: bool = False
    """On Kafka: batches are ordered by their numbers, rows within one by their times and positions."""

    @property
    def left(self) -> NativeTaskSpec:
        return self.sides[0]

    @property
    def places(self) -> tuple[str, ...]:
        """The columns of the order of arrival."""
        return ("sequence", "partition", "offset") if self.by_time else ("sequence",)

    @property
    def arrow(self) -> pa.Schema:
        """The source's columns: rows of both sides, each with nulls for the columns of the other."""
        numbers = [(name, pa.int64()) for name in ("time", *self.places, "now", "at")]
        kinds = [
            (half, column_type(type_of(name, work.source.relation)))
            for work in self.sides
            for name, half in side_columns(work)
        ]
        schema = pa.schema([("side", pa.int8()), *numbers, ("headers", pa.binary()), *kinds])
        return to_arrow_schema(from_arrow_schema(schema), timezone="UTC")

    def spot(self, side: int) -> str:
        """A row's position in the order of arrival, in SQL: a list of numbers."""
        topics, letter = [work.source.topic for work in self.sides], SIDE_PREFIXES[side]
        if not self.by_time:
            return f"{letter}_sequence"
        rank = sorted(topics).index(topics[side])
        return f"{letter}_sequence, {letter}_time, {rank}L, {letter}_partition, {letter}_offset"


def side_columns(work: NativeTaskSpec) -> list[tuple[str, str]]:
    """The columns of a side, each with its name among those of both."""
    return [(name, f"{SIDE_PREFIXES[work.side]}_{name}") for name in work.columns]


def only_stream_join(plan: n.Query) -> Any:
    """The plan's only stream-stream join."""
    return next((node for node in n.walk(plan.sink) if isinstance(node, n.StreamJoin)), None)


def join_task_spec(
    query: n.Query, folder: str, setup: Setup = no_setup, *, by_time: bool = False
) -> JoinTaskSpec | None:
    """None if no streams are joined."""
    plan = optimize(query)
    node = only_stream_join(plan)
    if node is None:
        return None
    before, after, grace = join_reach(node)
    sides = [_side(plan, top, side, folder, setup) for side, top in enumerate((node.left, node.right))]
    return JoinTaskSpec((sides[0], sides[1]), JoinBounds(before, after, before + after + grace), by_time)


def _side(plan: n.Query, top: n.Node, side: int, folder: str, setup: Setup) -> NativeTaskSpec:
    key = key_column(top)
    assert key is not None  # ensured by `planning.native_support`
    columns = sorted({*columns_read(top, plan.sources[side]), key}, key=lambda name: (name[0], int(name[1:])))
    return NativeTaskSpec(serialize_plan(plan), tuple(columns), (key,), folder=folder, setup=setup, side=side)


# -- which column of its source a join's key is ----------------------------------------------------------------------


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
    kind, at = column_position(relation_of(node), name) or ("key", 0)
    if kind == "key":
        return key_column(node, at)
    if isinstance(node, n.Select):
        return _computed(node.values[at].expression, node.input)
    if isinstance(node, n.Rekey) and at >= (width := len(relation_of(node.input).value)):
        return key_column(node.input, _held(node, at - width))
    return _column(node.inputs[0], name)


def _held(node: n.Rekey, more: int) -> int:
    """Which part of the old key a column after the values is."""
    before = relation_of(node.input)
    return [field.name for field in before.key].index(node.relation.value[len(before.value) + more].name)
