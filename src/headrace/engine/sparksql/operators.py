"""Compiles a plan to Spark's own operators over a bounded read; `planning.sparksql_support` says which plans.

A stream is returned row for row, in the chain's order. A table is returned with the last row of every key, without
deleted ones. Up to its first aggregate or join a table is processed as *changes*, one row per record of its topic: so a
row of a stream finds in it what the table held when the row arrived.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from headrace.engine.sparksql import aggregation, serde
from headrace.engine.sparksql.frames import (
    ORDER,
    frame_columns,
    key_columns,
    python_expressions,
    value_columns,
    with_expressions,
)
from headrace.plan import nodes as n
from headrace.plan.expressions import column_names
from headrace.plan.nodes import JoinKind
from headrace.plan.relations import Kind, Relation


@dataclass(frozen=True)
class RelationFrame:
    """A frame with the relation it holds; `settled` if it is a table with one row per key."""

    frame: DataFrame
    relation: Relation
    settled: bool = False


@dataclass(frozen=True)
class FrameSource(n.Source):
    """A source whose rows are a frame already."""


def run_query(records: DataFrame, query: n.Query) -> DataFrame:
    """The rows that reach the sink, as a frame."""
    rows = (
        latest_by_key(compile_node(query.sink, records))
        if query.sink.relation.kind is Kind.TABLE
        else compile_node(query.sink, records)
    )
    return rows.frame


def run_typed(records: DataFrame, query: n.Query) -> DataFrame:
    """The rows that reach the sink, with their own names and types."""
    return serde.with_natural_types(run_query(records, query), query.sink.relation)


def run_encoded(records: DataFrame, query: n.Query) -> DataFrame:
    """The records for the sink's topic; those of a stream in order."""
    return serde.encode_rows(run_query(records, query), query.sink)


@singledispatch
def compile_node(node: n.Node, records: DataFrame) -> RelationFrame:
    raise NotImplementedError(f"{type(node).__name__} has no native form")


@compile_node.register
def _(node: n.Source, records: DataFrame) -> RelationFrame:
    rows = serde.decode_records(records, node)
    return RelationFrame(rows.where("keyed") if node.relation.kind is Kind.TABLE else rows, node.relation)


@compile_node.register
def _(node: FrameSource, records: DataFrame) -> RelationFrame:
    return RelationFrame(records, node.relation)


@compile_node.register
def _(node: n.Sink, records: DataFrame) -> RelationFrame:
    below = compile_node(node.input, records)
    return RelationFrame(below.frame, node.relation, below.settled)


@compile_node.register
def _(node: n.Filter, records: DataFrame) -> RelationFrame:
    below = compile_node(node.input, records)
    held = with_expressions(below.frame, below.relation, {"holds": node.condition})
    fits = f.expr("valued and coalesce(holds, false)")
    if node.relation.kind is Kind.STREAM or below.settled:
        return RelationFrame(held.where(fits).drop("holds"), node.relation, below.settled)
    # A change that does not pass the filter deletes the previous row.
    return RelationFrame(held.withColumn("valued", fits).drop("holds"), node.relation)


@compile_node.register
def _(node: n.Select, records: DataFrame) -> RelationFrame:
    below = compile_node(node.input, records)
    new = {f"new{i}": named.expression for i, named in enumerate(node.values)}
    made = with_expressions(below.frame, below.relation, new)
    values = [f.expr(f"if(valued, {name}, null)").alias(f"v{i}") for i, name in enumerate(new)]
    kept = [*ORDER, "time", *key_columns(node.relation), "valued"]
    return RelationFrame(made.select(*kept, *values, "headers"), node.relation, below.settled)


@compile_node.register
def _(node: n.Rekey, records: DataFrame) -> RelationFrame:
    below = compile_node(node.input, records)
    made = with_expressions(
        below.frame, below.relation, {f"new{i}": named.expression for i, named in enumerate(node.keys)}
    )
    keys = [f.expr(_known(f"new{i}", named, below.relation)) for i, named in enumerate(node.keys)]
    made = made.withColumns({f"new{i}": key for i, key in enumerate(keys)})
    # A key of one column that is null counts as no key.
    single, names = len(keys) == 1, [f"new{i}" for i in range(len(keys))]
    keyed = f.col("new0").isNotNull() if single else f.lit(bool(keys))
    made = made.withColumn("newly_keyed", keyed)
    if not node.explicit:
        made = made.where(f.expr(" and ".join(f"{name} is not null" for name in names)))
    return RelationFrame(made.select(*_rekeyed(node, below.relation, names)), node.relation)


def _known(name: str, named: Any, relation: Relation) -> str:
    """Without a row only what comes from the old key is known."""
    from_key = column_names(named.expression) <= {field.name for field in relation.key}
    return name if from_key else f"if(valued, {name}, null)"


def _rekeyed(node: n.Rekey, before: Relation, names: list[str]) -> list[Column]:
    """The new key, then the values, then the columns of the old key that the relation includes."""
    old = [field.name for field in before.key]
    held = [f"k{old.index(field.name)}" for field in node.relation.value[len(before.value) :]]
    keys = [f.col(name).alias(f"k{i}") for i, name in enumerate(names)]
    values = [f.col(name) for name in value_columns(before)]
    more = [f.expr(f"if(valued, {k}, null)").alias(f"v{len(before.value) + i}") for i, k in enumerate(held)]
    order = [f.col(name) for name in (*ORDER, "time")]
    return [*order, f.col("newly_keyed").alias("keyed"), *keys, *values, *more, f.col("headers")]


@compile_node.register
def _(node: n.Explode, records: DataFrame) -> RelationFrame:
    below = compile_node(node.input, records)
    lists = python_expressions({f"list{i}": named.expression for i, named in enumerate(node.functions)}, below.relation)
    made = below.frame.where("valued").withColumns(lists)
    filled = [f.coalesce(f.col(name), f.array()).alias(name) for name in lists]
    kept = [name for name in frame_columns(below.relation) if name not in ("place", "headers")]
    made = made.select(*kept, "place", "headers", f.posexplode(f.arrays_zip(*filled)).alias("number", "items"))
    width = len(below.relation.value)
    items = [f.col(f"items.{name}").alias(f"v{width + i}") for i, name in enumerate(lists)]
    place = f.concat("place", f.array("number")).alias("place")
    return RelationFrame(
        made.select(*kept, place, *items, "headers").select(*frame_columns(node.relation)), node.relation
    )


@compile_node.register
def _(node: n.Union, records: DataFrame) -> RelationFrame:
    sides = [_at_door(compile_node(side, records).frame, door) for door, side in enumerate((node.left, node.right))]
    return RelationFrame(sides[0].unionByName(sides[1]), node.relation)


def _at_door(frame: DataFrame, door: int) -> DataFrame:
    """Where both sides read one topic, a record passes the left side first."""
    return frame.withColumn("place", f.concat(f.array(f.lit(door)), f.col("place")))


@compile_node.register
def _(node: n.Aggregate, records: DataFrame) -> RelationFrame:
    below = compile_node(node.input, records)
    return RelationFrame(aggregation.aggregate(below.frame, node), node.relation, settled=True)


@compile_node.register
def _(node: n.Distinct, records: DataFrame) -> RelationFrame:
    """The first of each group of equal rows; Spark groups nulls together."""
    made, by = distinct_rows(node, records)
    if node.window is not None:
        made, by = aggregation.in_windows(made, node.window), [*by, "window_start"]
    numbered = made.withColumn("number", f.row_number().over(Window.partitionBy(*by).orderBy(*ORDER)))
    return RelationFrame(numbered.where("number = 1").select(*frame_columns(node.relation)), node.relation)


def distinct_rows(node: n.Distinct, records: DataFrame) -> tuple[DataFrame, list[str]]:
    """The rows that DISTINCT compares, and the columns that it compares."""
    below = compile_node(node.input, records)
    on = {f"on{i}": named.expression for i, named in enumerate(node.on)}
    return with_expressions(below.frame.where("valued"), below.relation, on), list(on)


# -- tables and joins -----------------------------------------------------------------------------------------------


def latest_by_key(table: RelationFrame) -> RelationFrame:
    """The last row of every key."""
    if table.settled:
        return table
    last = Window.partitionBy(*key_columns(table.relation)).orderBy(*(f.col(name).desc() for name in ORDER))
    numbered = table.frame.withColumn("number", f.row_number().over(last))
    return RelationFrame(numbered.where("number = 1 and valued").drop("number"), table.relation, settled=True)


@compile_node.register
def _(node: n.StreamTableJoin, records: DataFrame) -> RelationFrame:
    """Both sides in one order of arrival: a row finds the last change of its key before it."""
    left, right = compile_node(node.left, records), compile_node(node.right, records)
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
    return RelationFrame(
        found.select(*kept, place, *values, "headers").select(*frame_columns(node.relation)), node.relation
    )


_HOW = {JoinKind.INNER: "inner", JoinKind.LEFT: "left", JoinKind.RIGHT: "right", JoinKind.FULL: "full"}


@compile_node.register
def _(node: n.TableJoin, records: DataFrame) -> RelationFrame:
    left, right = latest_by_key(compile_node(node.left, records)), latest_by_key(compile_node(node.right, records))
    keys, width = key_columns(left.relation), len(left.relation.value)
    one, other = left.frame.alias("l"), right.frame.alias("r")
    equal = [f.col(f"l.{key}").eqNullSafe(f.col(f"r.{key}")) for key in keys]
    joined = one.join(other, equal, _HOW[node.kind])
    shared = [f.coalesce(f"l.{name}", f"r.{name}").alias(name) for name in (*ORDER, *keys, "valued", "headers")]
    time = f.greatest("l.time", "r.time").alias("time")
    values = [f.col(f"l.v{i}").alias(f"v{i}") for i in range(width)]
    values += [f.col(f"r.v{i}").alias(f"v{width + i}") for i in range(len(right.relation.value))]
    return RelationFrame(
        joined.select(*shared, time, *values).select(*frame_columns(node.relation)), node.relation, settled=True
    )
