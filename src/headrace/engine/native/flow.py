"""A plan as Spark's own streaming operators, from the log to the log.

    flow = native_flow(spark, log, query, settings, folder, run, on_report)
    flow.rows.writeStream.outputMode(flow.mode).foreachBatch(flow.write) ...

What has no state is compiled as for a bounded read (`batch.native`). A group's state is Spark's; each batch gives the
last result of every group that it changed, which is what EMIT CHANGES comes to when the changes of a batch are merged.

A window's state goes when it has closed. Lateness is decided before, row by row (see `rows`); Spark's watermark only
cleans up, and never drops a row: it follows the ends of windows, which are at most a window's size ahead of the time of
the stream, by size and grace. So it is never ahead of that time less the grace.

With EMIT FINAL it also decides what goes out, so it must be exact. Clocks, rows that have no group, bring it to the end
of the last window that is closed; it follows by so much that other rows never get that far. Spark gives out in a batch
what the one before has closed, and runs one without rows if there are none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_type

from headrace.contracts import Log, Topic
from headrace.engine.batch import grouping
from headrace.engine.batch.carriers import natural, quoted, sql_type
from headrace.engine.batch.edges import row_columns
from headrace.engine.batch.frames import frame_columns, type_of
from headrace.engine.batch.native import Rows, native
from headrace.engine.batch.shipping import Setup, no_setup
from headrace.engine.ground import ground_of
from headrace.engine.native.columns import matched, same_fields
from headrace.engine.native.distinct import Remembering
from headrace.engine.native.join_frames import Half, Meeting, half, in_order, ordering
from headrace.engine.native.joins import JoinWork, join_for
from headrace.engine.native.partials import Partial
from headrace.engine.native.sink import NativeSink
from headrace.engine.native.work import Hops, Work, work_for
from headrace.engine.reports import OnReport
from headrace.errors import SchemaMismatch
from headrace.plan import nodes as n
from headrace.plan.rewriting import everywhere
from headrace.plan.types import BIGINT, is_nested
from headrace.schema import Field
from headrace.settings import Settings


@dataclass(frozen=True)
class Flow:
    """A native query, ready to be started."""

    rows: DataFrame
    write: Callable[[DataFrame, int], None]
    mode: str


def native_flow(
    spark: SparkSession,
    log: Log,
    query: n.Query,
    settings: Settings,
    folder: Path,
    run: str,
    on_report: OnReport = lambda batch, reports: None,
    *,
    start: str = "earliest",
    setup: Setup = no_setup,
    ticks: str = "",
) -> Flow:
    """The query over its topic; `folder` is its checkpoint's, `run` names its writer. Both topics must be there, and
    those of the dead letters and of its ticks, if it has any. Raises SchemaMismatch if a topic has a schema that the
    statement does not fit.
    """
    ground, notes = ground_of(log, settings), str((folder / "notes").resolve())
    join = join_for(query, notes, setup, by_time=ground.by_time)
    work = join.left if join else work_for(query, notes, setup, by_time=ground.by_time, ticks=ticks)
    plan = work.plan
    for side in plan.sources:
        if not (topic := log.topic(side.topic)).schema.is_raw:
            matched(side.relation.columns, topic, side.name)
    spark = _going_on(spark) if work.final else spark
    rows = met(ground.both(spark, join, start), join) if join else compiled(ground.rows(spark, work, start), work)
    sorts = join is not None or work.distinct
    topic, order = log.topic(plan.sink.topic), ordering(plan.sink.relation) if sorts else ()
    raw = topic.schema.is_raw
    made = encodable(rows, plan.sink, work, *order) if raw else typed(rows, plan.sink, topic, work, *order)
    write = NativeSink(ground.outlet(run, folder), work, ground.telling(folder, join or work), on_report).write
    if sorts:
        return Flow(made, lambda results, batch: write(in_order(results), batch), "append")
    return Flow(made, write, "update" if work.aggregates and not work.final else "append")


@cache
def _going_on(spark: SparkSession) -> SparkSession:
    """A session whose queries run a batch without rows, if there is something to give out. Others have no need of it:
    where windows are only cleaned up, that can wait for rows. It is one for all: Spark tells what happens to every
    session that ever ran a query.
    """
    session = spark.newSession()
    session.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "true")
    return session


# -- what is done with the rows -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Arrived(n.Source):
    """A source whose rows are a frame already."""


@dataclass(frozen=True)
class Running(n.Aggregate):
    """An aggregate whose groups go on from batch to batch."""

    hops: Hops | None = None
    final: bool = False
    partial: Partial | None = None


def compiled(read: DataFrame, work: Work) -> DataFrame:
    """The frame of the rows that reach the sink."""

    def streaming(node: n.Node) -> n.Node:
        if isinstance(node, n.Source):
            return Arrived(**_fields(node))
        if isinstance(node, n.Aggregate):
            return Running(**_fields(node), hops=work.hops, final=work.final, partial=work.partial)
        if isinstance(node, n.Distinct):
            return Remembering(**_fields(node), hops=work.hops)
        return node

    return native(everywhere(work.above, streaming), framed(read, work) if work.partial is None else read).frame


def met(read: DataFrame, join: JoinWork) -> DataFrame:
    """The same for two streams that are joined."""
    frames = {work.source.topic: framed(half(read, join, work.side), work) for work in join.sides}

    def streaming(node: n.Node) -> n.Node:
        if isinstance(node, n.Source):
            return Half(**_fields(node), frame=frames[node.topic])
        return Meeting(**_fields(node), join=join) if isinstance(node, n.StreamJoin) else node

    return native(everywhere(join.left.plan.sink, streaming), read).frame


def _fields(node: n.Node) -> dict[str, Any]:
    return {field.name: getattr(node, field.name) for field in fields(node)}


def framed(read: DataFrame, work: Work) -> DataFrame:
    """What the source gives as a frame. Columns that nobody reads are null.

    Nothing above an aggregate sees headers: where rows lie in several windows, or clocks are among them, their column
    carries `now` up to it.
    """
    relation, there = work.source.relation, set(read.columns)
    single = len(relation.key) == 1 and "k0" in there
    made: dict[str, Column] = {
        "sequence": f.lit(0).cast("bigint"),
        "place": f.array().cast("array<int>"),
        "keyed": f.col("k0").isNotNull() if single else f.lit(bool(relation.key)),
        "headers": f.col("now") if "now" in there else f.lit(None).cast("bigint"),
    }
    columns = [
        f.col(name) if name in there else made.get(name, _nothing(name, relation)) for name in frame_columns(relation)
    ]
    return read.select(*(column.alias(name) for column, name in zip(columns, frame_columns(relation), strict=True)))


def _nothing(name: str, relation: n.Relation) -> Column:
    is_value = name[0] in "kv" and name[1:].isdigit()
    return f.lit(None).cast(sql_type(type_of(name, relation))) if is_value else f.lit(None)


@native.register
def _(node: Arrived, records: DataFrame) -> Rows:
    return Rows(records, node.relation)


@native.register
def _(node: Running, records: DataFrame) -> Rows:
    made, by, forms = _rows_of(node, records) if node.partial is None else _parts_of(node.partial, records)
    if node.hops is None:
        return Rows(grouping.as_frame(grouping.in_spark(made, forms, by), node), node.relation, settled=True)
    results = grouping.in_spark(_in_windows(made, node), forms, [*by, "closes"])
    end = f.unix_millis("closes")
    bounds = results.withColumns({"window_end": end, "window_start": end - node.hops.size})
    return Rows(grouping.as_frame(bounds, node), node.relation, settled=True)


def _rows_of(node: Running, records: DataFrame) -> tuple[DataFrame, list[str], list[str]]:
    """What is to be aggregated, by which columns, and how."""
    group = grouping.with_groups if node.final else grouping.grouped
    made, by = group(native(node.input, records).frame, node, "headers")
    forms = grouping.spark_forms(node)
    assert forms is not None  # `choice` has seen to it
    return made, by, forms


def _parts_of(partial: Partial, records: DataFrame) -> tuple[DataFrame, list[str], list[str]]:
    return records, [f"g{i}" for i in range(len(partial.groups))], partial.wholes()


@native.register
def _(node: n.Final, records: DataFrame) -> Rows:
    """Spark has seen to it."""
    return native(node.input, records)


def _in_windows(rows: DataFrame, node: Any) -> DataFrame:
    """Each row in its windows, which go by their ends: as times, since Spark cleans up by times only."""
    hops: Hops = node.hops
    rows = rows.withColumnRenamed("headers", "now")
    if hops.overlap:
        rows = grouping.in_open_windows(rows, node.relation.window)
    else:
        rows = rows.withColumn("window_end", f.expr(f"time - time % {hops.size} + {hops.size}"))
    closing = rows.withColumn("closes", f.timestamp_millis("window_end"))
    if node.final:
        return _by_clocks(closing, hops)
    return closing.withWatermark("closes", f"{hops.size + hops.grace} milliseconds")


def _by_clocks(rows: DataFrame, hops: Hops) -> DataFrame:
    """Clocks have times between milliseconds. By those they are told apart behind the watermark, as by nothing else:
    Spark would filter before it.
    """
    delay = 2 * hops.size + hops.grace
    clock = f.expr(f"timestamp_micros((now + {delay}) * 1000 + 1)")
    marked = rows.withColumn("closes", f.when(f.col("g0").isNull(), clock).otherwise(f.col("closes")))
    return marked.withWatermark("closes", f"{delay} milliseconds").where("unix_micros(closes) % 1000 = 0")


# -- what becomes of the results ------------------------------------------------------------------------------------


def encodable(rows: DataFrame, sink: n.Sink, work: Work, *more: str) -> DataFrame:
    """What the encoder reads, and `more` that goes with it."""
    return rows.selectExpr(*row_columns(sink.relation), *(["headers"] if work.carries_headers else []), *more)


_BOUNDS = {"WINDOWSTART": "window_start", "WINDOWEND": "window_end"}


def typed(rows: DataFrame, sink: n.Sink, topic: Topic, work: Work, *more: str) -> DataFrame:
    """The columns of a topic that has a schema. One of windows has WINDOWSTART among them, and perhaps WINDOWEND."""
    keys, values = ({f"{letter}{i}": c for i, c in enumerate(those)} for letter, those in _letters(sink.relation))
    bounds = [Field("WINDOWSTART", BIGINT)] if sink.relation.window else []
    names = matched([*keys.values(), *values.values(), *bounds], topic, sink.name)
    columns = [_natural(place, field, topic, names[field.name]) for place, field in {**keys, **values}.items()]
    if sink.relation.window:
        there = {name.upper(): name for name in topic.schema.names}
        columns += [f"{column} as {quoted(there[name])}" for name, column in _BOUNDS.items() if name in there]
    columns += ["time as `$timestamp`", "if(valued, null, true) as `$deleted`"]
    return rows.selectExpr(*columns, *(["headers as `$headers`"] if work.carries_headers else []), *more)


def _letters(relation: n.Relation) -> tuple[tuple[str, tuple[Field, ...]], ...]:
    return (("k", relation.key), ("v", relation.value))


def _natural(place: str, field: Field, topic: Topic, name: str) -> str:
    """Fields of structs have the topic's names, by their places."""
    text, kind = natural(place, field.type), topic.schema[name].type
    if is_nested(kind):
        if not same_fields(kind, field.type):
            raise SchemaMismatch(
                f'column "{field.name}" has other fields in topic "{topic.name}"',
                fix=f"give them the same names in the same order: {topic.schema}",
            )
        text = f"cast({text} as {from_arrow_type(kind).simpleString()})"
    return f"{text} as {quoted(name)}"
