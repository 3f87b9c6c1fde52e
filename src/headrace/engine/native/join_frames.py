"""Two streams that are joined, as Spark's frames: each side, their pairs, and the pairs in order. See `joins`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from headrace.engine.batch.frames import frame_columns, key_columns
from headrace.engine.batch.native import Rows, native
from headrace.engine.native.joins import LETTERS, Bounds, JoinWork, names
from headrace.plan import nodes as n
from headrace.plan.rewriting import relation_of

_LATEST = 1 << 62  # ms; what adds to a time stays a number


@dataclass(frozen=True)
class Half(n.Source):
    """One side of what the source gives, as a frame."""

    frame: Any = None


@dataclass(frozen=True)
class Meeting(n.StreamJoin):
    join: JoinWork | None = None


def half(read: DataFrame, join: JoinWork, side: int) -> DataFrame:
    """The rows of one side. What steps on the way to the join must not lose goes where the headers go."""
    columns = [f.col(given).alias(name) for name, given in names(join.sides[side])]
    carried = f.struct("headers", "now", "at", *join.places).alias("headers")
    rows = read.where(f"side = {side}")
    return rows.select(f.col("time"), f.lit(True).alias("valued"), carried, *columns)


@native.register
def _(node: Half, records: DataFrame) -> Rows:
    return Rows(node.frame, node.relation)


@native.register
def _(node: Meeting, records: DataFrame) -> Rows:
    assert node.join is not None
    left = _waiting(native(node.left, records), node.join, "l", _bucket(node.join.bounds))
    right = _waiting(native(node.right, records), node.join, "r", _buckets(node.join.bounds))
    pairs = left.join(right, f.expr(_condition(node.join)))
    return Rows(_paired(pairs, node, node.join), node.relation)


def _waiting(rows: Rows, join: JoinWork, letter: str, bucket: Column) -> DataFrame:
    """One side under names of its own: Spark keeps these columns."""
    values = [f"v{i}" for i in range(len(rows.relation.value))]
    kept = {name: f.col(name) for name in ("k0", "time", *values)}
    kept |= {name: f.col(f"headers.{name}") for name in (*join.places, "now", "headers")}
    kept |= {"bucket": bucket, "at": f.timestamp_millis(f.col("headers.at"))}
    made = rows.frame.select(*(column.alias(f"{letter}_{name}") for name, column in kept.items()))
    # A row that is as old as the watermark would be taken for late.
    return made.withWatermark(f"{letter}_at", "1 milliseconds")


def _bucket(bounds: Bounds) -> Column:
    return f.lit(0).cast("bigint") if bounds.bucket is None else f.expr(f"least(time, {_LATEST}) div {bounds.bucket}")


def _buckets(bounds: Bounds) -> Column:
    """Of all left rows that may be partners."""
    if bounds.bucket is None:
        return f.lit(0).cast("bigint")
    first = f"greatest(least(time, {_LATEST}) - {bounds.after}, 0) div {bounds.bucket}"
    last = f"(least(time, {_LATEST}) + {bounds.before}) div {bounds.bucket}"
    return f.explode(f.expr(f"sequence({first}, {last})"))


def _condition(join: JoinWork) -> str:
    bounds, span = join.bounds, f"interval {join.bounds.retention} milliseconds"
    held = f"if({_is_left_first(join)}, l_time > r_now - {bounds.retention}, r_time > l_now - {bounds.retention})"
    return (
        "l_k0 = r_k0 and l_bucket = r_bucket"
        f" and r_time - l_time between -{bounds.before} and {bounds.after} and {held}"
        f" and l_at >= r_at - {span} and l_at <= r_at + {span}"
    )


def _is_left_first(join: JoinWork) -> str:
    return f"struct({join.spot(0)}) < struct({join.spot(1)})"


def _paired(pairs: DataFrame, node: Meeting, join: JoinWork) -> DataFrame:
    """A pair comes when its second row does; those of one row by their partners' times, then as they came."""
    width, first = len(relation_of(node.left).value), _is_left_first(join)
    values = {f"v{i}": f.col(f"l_v{i}" if i < width else f"r_v{i - width}") for i in range(len(node.relation.value))}
    places = [f"array({join.spot(1 - side)}, {LETTERS[side]}_time, {join.spot(side)})" for side in (0, 1)]
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


def ordering(relation: n.Relation) -> tuple[str, ...]:
    """What results bring along so that those of a key come in the order in which the chain would give them."""
    return (f"hash({', '.join(key_columns(relation))}) as `{_HASH}`", *(f"{name[1:]} as `{name}`" for name in _ORDER))


def in_order(rows: DataFrame) -> DataFrame:
    """A batch of results, the rows of each key in order: Spark's join gives pairs as it finds them."""
    return rows.repartition(f.col(_HASH)).sortWithinPartitions(*_ORDER).drop(_HASH, *_ORDER)
