"""Two joined streams as Spark frames: each side, their pairs, and the pairs in order. See `task_spec`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from headrace.engine.native.stream_join.task_spec import SIDE_PREFIXES, JoinBounds, JoinTaskSpec, side_columns
from headrace.engine.sparksql.frames import frame_columns, key_columns
from headrace.engine.sparksql.operators import RelationFrame, compile_node
from headrace.plan import nodes as n
from headrace.plan.analysis.rewrite import relation_of
from headrace.plan.relations import Relation

_LATEST = 1 << 62  # ms; leaves room for additions without overflow


@dataclass(frozen=True)
class JoinSideSource(n.Source):
    """One side of the source's output, as a frame."""

    frame: Any = None


@dataclass(frozen=True)
class StreamingJoin(n.StreamJoin):
    join: JoinTaskSpec | None = None


def side_frame(read: DataFrame, join: JoinTaskSpec, side: int) -> DataFrame:
    """The rows of one side. The headers' column carries what steps before the join must not lose."""
    columns = [f.col(given).alias(name) for name, given in side_columns(join.sides[side])]
    carried = f.struct("headers", "now", "at", *join.places).alias("headers")
    rows = read.where(f"side = {side}")
    return rows.select(f.col("time"), f.lit(True).alias("valued"), carried, *columns)


@compile_node.register
def _(node: JoinSideSource, records: DataFrame) -> RelationFrame:
    return RelationFrame(node.frame, node.relation)


@compile_node.register
def _(node: StreamingJoin, records: DataFrame) -> RelationFrame:
    assert node.join is not None
    left = _waiting(compile_node(node.left, records), node.join, "l", _bucket(node.join.bounds))
    right = _waiting(compile_node(node.right, records), node.join, "r", _buckets(node.join.bounds))
    pairs = left.join(right, f.expr(_condition(node.join)))
    return RelationFrame(_paired(pairs, node, node.join), node.relation)


def _waiting(rows: RelationFrame, join: JoinTaskSpec, letter: str, bucket: Column) -> DataFrame:
    """One side with prefixed names: Spark stores these columns."""
    values = [f"v{i}" for i in range(len(rows.relation.value))]
    kept = {name: f.col(name) for name in ("k0", "time", *values)}
    kept |= {name: f.col(f"headers.{name}") for name in (*join.places, "now", "headers")}
    kept |= {"bucket": bucket, "at": f.timestamp_millis(f.col("headers.at"))}
    made = rows.frame.select(*(column.alias(f"{letter}_{name}") for name, column in kept.items()))
    # Spark would treat a row that is as old as the watermark as late.
    return made.withWatermark(f"{letter}_at", "1 milliseconds")


def _bucket(bounds: JoinBounds) -> Column:
    return f.lit(0).cast("bigint") if bounds.bucket is None else f.expr(f"least(time, {_LATEST}) div {bounds.bucket}")


def _buckets(bounds: JoinBounds) -> Column:
    """The buckets of all left rows that may match."""
    if bounds.bucket is None:
        return f.lit(0).cast("bigint")
    first = f"greatest(least(time, {_LATEST}) - {bounds.after}, 0) div {bounds.bucket}"
    last = f"(least(time, {_LATEST}) + {bounds.before}) div {bounds.bucket}"
    return f.explode(f.expr(f"sequence({first}, {last})"))


def _condition(join: JoinTaskSpec) -> str:
    bounds, span = join.bounds, f"interval {join.bounds.retention} milliseconds"
    held = f"if({_is_left_first(join)}, l_time > r_now - {bounds.retention}, r_time > l_now - {bounds.retention})"
    return (
        "l_k0 = r_k0 and l_bucket = r_bucket"
        f" and r_time - l_time between -{bounds.before} and {bounds.after} and {held}"
        f" and l_at >= r_at - {span} and l_at <= r_at + {span}"
    )


def _is_left_first(join: JoinTaskSpec) -> str:
    return f"struct({join.spot(0)}) < struct({join.spot(1)})"


def _paired(pairs: DataFrame, node: StreamingJoin, join: JoinTaskSpec) -> DataFrame:
    """A pair is emitted when its second row arrives; pairs of one row by their partners' times, then by arrival."""
    width, first = len(relation_of(node.left).value), _is_left_first(join)
    values = {f"v{i}": f.col(f"l_v{i}" if i < width else f"r_v{i - width}") for i in range(len(node.relation.value))}
    places = [f"array({join.spot(1 - side)}, {SIDE_PREFIXES[side]}_time, {join.spot(side)})" for side in (0, 1)]
    made = {
        "sequence": f.greatest("l_sequence", "r_sequence"),
        "place": f.expr(f"if({first}, {', '.join(places)})"),
        "time": f.greatest("l_time", "r_time"),
        "keyed": f.lit(True),
        "k0": f.col("l_k0"),
        "valued": f.lit(True),
        "headers": f.expr(f"if({first}, r_headers, l_headers)"),
        **values,
    }
    return pairs.select(*(made[name].alias(name) for name in frame_columns(node.relation)))


# -- in order -------------------------------------------------------------------------------------------------------

_HASH, *_ORDER = "$hash", "$sequence", "$place"


def order_columns(relation: Relation) -> tuple[str, ...]:
    """Columns by which the results of a key are put in the order in which the chain would emit them."""
    return (f"hash({', '.join(key_columns(relation))}) as `{_HASH}`", *(f"{name[1:]} as `{name}`" for name in _ORDER))


def order_pairs(rows: DataFrame) -> DataFrame:
    """Sorts a batch of results by key: Spark's join emits pairs in any order."""
    return rows.repartition(f.col(_HASH)).sortWithinPartitions(*_ORDER).drop(_HASH, *_ORDER)
