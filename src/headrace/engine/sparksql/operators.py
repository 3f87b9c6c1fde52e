"""Compiles stateless nodes of a plan to Spark's own operators; `native` and `realtime` add theirs.

`planning.sparksql_support` says which nodes have the same results as in the chain.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

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
from headrace.plan.relations import Relation
from headrace.plan.rewrite import relation_of


@dataclass(frozen=True)
class FrameSource(n.Source):
    """A source whose rows are a frame already."""


@singledispatch
def compile_node(node: n.Node, rows: DataFrame) -> DataFrame:
    """The frame of a node's relation; `rows` are those of the source."""
    raise NotImplementedError(f"{type(node).__name__} has no native form")


@compile_node.register
def _(node: FrameSource, rows: DataFrame) -> DataFrame:
    del node
    return rows


@compile_node.register
def _(node: n.Sink, rows: DataFrame) -> DataFrame:
    return compile_node(node.input, rows)


@compile_node.register
def _(node: n.Filter, rows: DataFrame) -> DataFrame:
    return filter_rows(node, rows, "valued and coalesce(holds, false)")


def filter_rows(node: n.Filter, rows: DataFrame, condition: str) -> DataFrame:
    """The rows for which the condition holds; its column `holds` is the result of the node's own."""
    below = compile_node(node.input, rows)
    return with_expressions(below, relation_of(node.input), {"holds": node.condition}).where(condition).drop("holds")


@compile_node.register
def _(node: n.Select, rows: DataFrame) -> DataFrame:
    new = {f"new{i}": named.expression for i, named in enumerate(node.values)}
    computed = with_expressions(compile_node(node.input, rows), relation_of(node.input), new)
    values = [f.expr(f"if(valued, {name}, null)").alias(f"v{i}") for i, name in enumerate(new)]
    return computed.select(*ORDER, "time", *key_columns(node.relation), "valued", *values, "headers")


@compile_node.register
def _(node: n.Rekey, rows: DataFrame) -> DataFrame:
    before = relation_of(node.input)
    names = [f"new{i}" for i in range(len(node.keys))]
    new = {name: named.expression for name, named in zip(names, node.keys, strict=True)}
    computed = with_expressions(compile_node(node.input, rows), before, new)
    computed = computed.withColumns({name: f.expr(_if_available(name, new[name], before)) for name in names})
    # A key of one column that is null counts as no key.
    keyed = f.col("new0").isNotNull() if len(names) == 1 else f.lit(bool(names))
    computed = computed.withColumn("newly_keyed", keyed)
    if not node.explicit:
        computed = computed.where(f.expr(" and ".join(f"{name} is not null" for name in names)))
    return computed.select(*_rekeyed(node, before, names))


def _if_available(name: str, expression: Any, relation: Relation) -> str:
    """Without a row only what comes from the old key is known."""
    from_key = column_names(expression) <= {field.name for field in relation.key}
    return name if from_key else f"if(valued, {name}, null)"


def _rekeyed(node: n.Rekey, before: Relation, names: list[str]) -> list[Column]:
    """The new key, then the values, then the columns of the old key that the relation includes."""
    old = [field.name for field in before.key]
    old_keys = [f"k{old.index(field.name)}" for field in node.relation.value[len(before.value) :]]
    keys = [f.col(name).alias(f"k{i}") for i, name in enumerate(names)]
    values = [f.col(name) for name in value_columns(before)]
    more = [f.expr(f"if(valued, {k}, null)").alias(f"v{len(before.value) + i}") for i, k in enumerate(old_keys)]
    order = [f.col(name) for name in (*ORDER, "time")]
    return [*order, f.col("newly_keyed").alias("keyed"), *keys, *values, *more, f.col("headers")]


@compile_node.register
def _(node: n.Explode, rows: DataFrame) -> DataFrame:
    before = relation_of(node.input)
    width = len(before.value)
    lists = python_expressions({f"list{i}": named.expression for i, named in enumerate(node.functions)}, before)
    computed = compile_node(node.input, rows).where("valued").withColumns(lists)
    filled = [f.coalesce(f.col(name), f.array()).alias(name) for name in lists]
    others = [name for name in frame_columns(before) if name not in ("place", "headers")]
    computed = computed.select(
        *others, "place", "headers", f.posexplode(f.arrays_zip(*filled)).alias("number", "items")
    )
    items = [f.col(f"items.{name}").alias(f"v{width + i}") for i, name in enumerate(lists)]
    place = f.concat("place", f.array("number")).alias("place")
    return computed.select(*others, place, *items, "headers").select(*frame_columns(node.relation))


def distinct_rows(node: n.Distinct, rows: DataFrame) -> tuple[DataFrame, list[str]]:
    """The rows that DISTINCT compares, and the columns that it compares."""
    on = {f"on{i}": named.expression for i, named in enumerate(node.on)}
    return with_expressions(compile_node(node.input, rows).where("valued"), relation_of(node.input), on), list(on)
