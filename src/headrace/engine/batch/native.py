"""A plan as Spark's own operators over a bounded read. `compile` says for which plans; here it is done.

A stream comes out row for row, in the chain's order. A table comes out settled: the last row of every key, without
those that were deleted. Up to its first aggregate or join a table flows as *changes*, one row per record of its topic:
so a stream finds in it what it would have found at the moment its row arrived.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from headrace.engine.batch import edges, grouping
from headrace.engine.batch.frames import ORDER, computed, frame_columns, key_columns, python_form, value_columns
from headrace.plan import nodes as n
from headrace.plan.expressions import columns_of
from headrace.plan.nodes import JoinKind, Kind, Relation


@dataclass(frozen=True)
class Rows:
    """A frame with the relation it holds; `settled` if it is a table with one row per key."""

    frame: DataFrame
    relation: Relation
    settled: bool = False


def run(records: DataFrame, query: n.Query) -> DataFrame:
    """The rows that reach the sink, as a frame."""
    rows = (
        settle(native(query.sink, records)) if query.sink.relation.kind is Kind.TABLE else native(query.sink, records)
    )
    return rows.frame


def run_typed(records: DataFrame, query: n.Query) -> DataFrame:
    """The rows that reach the sink, with their own names and types."""
    return edges.typed(run(records, query), query.sink.relation)


def run_encoded(records: DataFrame, query: n.Query) -> DataFrame:
    """The records for the sink's topic; a stream's in order."""
    return edges.encoded(run(records, query), query.sink)


@singledispatch
def native(node: n.Node, records: DataFrame) -> Rows:
    raise NotImplementedError(f"{type(node).__name__} has no native form")


@native.register
def _(node: n.Source, records: DataFrame) -> Rows:
    rows = edges.decoded(records, node)
    return Rows(rows.where("keyed") if node.relation.kind is Kind.TABLE else rows, node.relation)


@native.register
def _(node: n.Sink, records: DataFrame) -> Rows:
    below = native(node.input, records)
    return Rows(below.frame, node.relation, below.settled)


@native.register
def _(node: n.Filter, records: DataFrame) -> Rows:
    below = native(node.input, records)
    held = computed(below.frame, below.relation, {"holds": node.condition})
    fits = f.expr("valued and coalesce(holds, false)")
    if node.relation.kind is Kind.STREAM or below.settled:
        return Rows(held.where(fits).drop("holds"), node.relation, below.settled)
    # A change that does not fit deletes what was there.
    return Rows(held.withColumn("valued", fits).drop("holds"), node.relation)


@native.register
def _(node: n.Select, records: DataFrame) -> Rows:
    below = native(node.input, records)
    new = {f"new{i}": named.expression for i, named in enumerate(node.values)}
    made = computed(below.frame, below.relation, new)
    values = [f.expr(f"if(valued, {name}, null)").alias(f"v{i}") for i, name in enumerate(new)]
    kept = [*ORDER, "time", *key_columns(node.relation), "valued"]
    return Rows(made.select(*kept, *values, "headers"), node.relation, below.settled)


@native.register
def _(node: n.Rekey, records: DataFrame) -> Rows:
    below = native(node.input, records)
    made = computed(below.frame, below.relation, {f"new{i}": named.expression for i, named in enumerate(node.keys)})
    keys = [f.expr(_known(f"new{i}", named, below.relation)) for i, named in enumerate(node.keys)]
    made = made.withColumns({f"new{i}": key for i, key in enumerate(keys)})
    # A key of one column that is null is no key.
    single, names = len(keys) == 1, [f"new{i}" for i in range(len(keys))]
    keyed = f.col("new0").isNotNull() if single else f.lit(bool(keys))
    made = made.withColumn("newly_keyed", keyed)
    if not node.explicit:
        made = made.where(f.expr(" and ".join(f"{name} is not null" for name in names)))
    return Rows(made.select(*_rekeyed(node, below.relation, names)), node.relation)


def _known(name: str, named: Any, relation: Relation) -> str:
    """Without a row only what comes from the old key is known."""
    from_key = columns_of(named.expression) <= {field.name for field in relation.key}
    return name if from_key else f"if(valued, {name}, null)"


def _rekeyed(node: n.Rekey, before: Relation, names: list[str]) -> list[Column]:
    """The new key, and behind the values what the relation keeps of the old one."""
    old = [field.name for field in before.key]
    held = [f"k{old.index(field.name)}" for field in node.relation.value[len(before.value) :]]
    keys = [f.col(name).alias(f"k{i}") for i, name in enumerate(names)]
    values = [f.col(name) for name in value_columns(before)]
    more = [f.expr(f"if(valued, {k}, null)").alias(f"v{len(before.value) + i}") for i, k in enumerate(held)]
    order = [f.col(name) for name in (*ORDER, "time")]
    return [*order, f.col("newly_keyed").alias("keyed"), *keys, *values, *more, f.col("headers")]


@native.register
def _(node: n.Explode, records: DataFrame) -> Rows:
    below = native(node.input, records)
    lists = python_form({f"list{i}": named.expression for i, named in enumerate(node.functions)}, below.relation)
    made = below.frame.where("valued").withColumns(lists)
    filled = [f.coalesce(f.col(name), f.array()).alias(name) for name in lists]
    kept = [name for name in frame_columns(below.relation) if name not in ("place", "headers")]
    made = made.select(*kept, "place", "headers", f.posexplode(f.arrays_zip(*filled)).alias("number", "items"))
    width = len(below.relation.value)
    items = [f.col(f"items.{name}").alias(f"v{width + i}") for i, name in enumerate(lists)]
    place = f.concat("place", f.array("number")).alias("place")
    return Rows(made.select(*kept, place, *items, "headers").select(*frame_columns(node.relation)), node.relation)


@native.register
def _(node: n.Union, records: DataFrame) -> Rows:
    sides = [_at_door(native(side, records).frame, door) for door, side in enumerate((node.left, node.right))]
    return Rows(sides[0].unionByName(sides[1]), node.relation)


def _at_door(frame: DataFrame, door: int) -> DataFrame:
    """Where both sides read one topic, a record passes the left side first."""
    return frame.withColumn("place", f.concat(f.array(f.lit(door)), f.col("place")))


@native.register
def _(node: n.Aggregate, records: DataFrame) -> Rows:
    below = native(node.input, records)
    return Rows(grouping.aggregated(below.frame, node), node.relation, settled=True)


@native.register
def _(node: n.Distinct, records: DataFrame) -> Rows:
    """The first of each group of equal rows; Spark groups nulls together."""
    made, by = compared(node, records)
    if node.window is not None:
        made, by = grouping.in_windows(made, node.window), [*by, "window_start"]
    numbered = made.withColumn("number", f.row_number().over(Window.partitionBy(*by).orderBy(*ORDER)))
    return Rows(numbered.where("number = 1").select(*frame_columns(node.relation)), node.relation)


def compared(node: n.Distinct, records: DataFrame) -> tuple[DataFrame, list[str]]:
    """The rows that DISTINCT compares, and the columns in which it does."""
    below = native(node.input, records)
    on = {f"on{i}": named.expression for i, named in enumerate(node.on)}
    return computed(below.frame.where("valued"), below.relation, on), list(on)


# -- tables and joins -----------------------------------------------------------------------------------------------


def settle(table: Rows) -> Rows:
    """The last row of every key."""
    if table.settled:
        return table
    last = Window.partitionBy(*key_columns(table.relation)).orderBy(*(f.col(name).desc() for name in ORDER))
    numbered = table.frame.withColumn("number", f.row_number().over(last))
    return Rows(numbered.where("number = 1 and valued").drop("number"), table.relation, settled=True)


@native.register
def _(node: n.Enrich, records: DataFrame) -> Rows:
    """Both sides in one order of arrival: a row finds the last change of its key before it."""
    left, right = native(node.left, records), native(node.right, records)
    keys, width = key_columns(left.relation), len(left.relation.value)
    match = f.struct("valued", *(f"v{i}" for i in range(len(right.relation.value))))
    table = _at_door(right.frame, 1).select(*ORDER, *keys, match.alias("match"))
    stream = _at_door(left.frame, 0).withColumn("is_row", f.lit(True))
    arrivals = Window.partitionBy(*keys).orderBy(*ORDER).rowsBetween(Window.unboundedPreceding, 0)
    both = stream.unionByName(table, allowMissingColumns=True)
    both = both.withColumn("match", f.last("match", ignorenulls=True).over(arrivals)).where("is_row and valued")
    null_key = "not keyed" + (" or k0 is null" if len(left.relation.key) == 1 else "")
    found = both.withColumn("found", f.expr(f"coalesce(not ({null_key}) and match.valued, false)"))
    if node.kind is JoinKind.INNER:
        found = found.where("found")
    values = [f.expr(f"if(found, match.v{i}, null)").alias(f"v{width + i}") for i in range(len(right.relation.value))]
    place = f.expr("slice(place, 2, size(place))").alias("place")
    kept = [name for name in frame_columns(left.relation) if name not in ("place", "headers")]
    return Rows(found.select(*kept, place, *values, "headers").select(*frame_columns(node.relation)), node.relation)


_HOW = {JoinKind.INNER: "inner", JoinKind.LEFT: "left", JoinKind.RIGHT: "right", JoinKind.FULL: "full"}


@native.register
def _(node: n.TableJoin, records: DataFrame) -> Rows:
    left, right = settle(native(node.left, records)), settle(native(node.right, records))
    keys, width = key_columns(left.relation), len(left.relation.value)
    one, other = left.frame.alias("l"), right.frame.alias("r")
    equal = [f.col(f"l.{key}").eqNullSafe(f.col(f"r.{key}")) for key in keys]
    joined = one.join(other, equal, _HOW[node.kind])
    shared = [f.coalesce(f"l.{name}", f"r.{name}").alias(name) for name in (*ORDER, *keys, "valued", "headers")]
    time = f.greatest("l.time", "r.time").alias("time")
    values = [f.col(f"l.v{i}").alias(f"v{i}") for i in range(width)]
    values += [f.col(f"r.v{i}").alias(f"v{width + i}") for i in range(len(right.relation.value))]
    return Rows(
        joined.select(*shared, time, *values).select(*frame_columns(node.relation)), node.relation, settled=True
    )
