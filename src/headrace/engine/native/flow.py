"""A plan as Spark's own streaming operators, from the log to the log.

    flow = native_flow(spark, log, query, settings, folder, run, on_report)
    flow.rows.writeStream.outputMode(flow.mode).foreachBatch(flow.write) ...

What has no state is compiled as for a bounded read (`batch.native`). A group's state is Spark's; each batch gives the
last result of every group that it changed, which is what EMIT CHANGES comes to when the changes of a batch are merged.

A window's state goes when it has closed. Lateness is decided before, row by row (see `rows`); Spark's watermark only
cleans up, and never drops a row: it follows the ends of windows, which are at most a window's size ahead of the time of
the stream, by size and grace. So it is never ahead of that time less the grace.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
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
from headrace.engine.checkpoint import Checkpoint
from headrace.engine.native.columns import matched, same_fields
from headrace.engine.native.sink import NativeSink
from headrace.engine.native.source import read_rows
from headrace.engine.native.work import Hops, Work, work_for
from headrace.engine.reports import OnReport
from headrace.errors import SchemaMismatch
from headrace.log.embedded import EmbeddedLog
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
) -> Flow:
    """The query over its topic; `folder` is its checkpoint's, `run` names its writer. Both topics must be there, and
    that of the dead letters. Raises SchemaMismatch if a topic has a schema that the statement does not fit.
    """
    notes, by_time = str((folder / "notes").resolve()), not isinstance(log, EmbeddedLog)
    work = work_for(query, notes, setup, by_time=by_time)
    plan, source = work.plan, log.topic(work.source.topic)
    if not source.schema.is_raw:
        matched(work.source.relation.columns, source, work.source.name)
    sink, mode = log.topic(plan.sink.topic), "update" if work.aggregates else "append"
    bounds: dict[str, Any] = {"max_rows": settings.batch_rows, "start": start}
    if not isinstance(log, EmbeddedLog):
        return _on_kafka(spark, log, work, folder, run, on_report, bounds, mode)
    rows = compiled(read_rows(spark, log.folder, source.name, work, **bounds), work)
    made = encodable(rows, plan.sink, work) if sink.schema.is_raw else typed(rows, plan.sink, sink, work)
    return Flow(made, NativeSink(log, run, work, on_report).write, mode)


def _on_kafka(
    spark: SparkSession,
    log: Any,
    work: Work,
    folder: Path,
    run: str,
    on_report: OnReport,
    bounds: dict[str, Any],
    mode: str,
) -> Flow:
    from headrace.engine.kafka_source import Cuts  # its client is an extra
    from headrace.engine.native import kafka

    plan, cuts = work.plan, Cuts(log, run, Checkpoint(folder).spark)
    rows = compiled(kafka.read_rows(spark, log, plan.sources[0].topic, work, **bounds), work)
    lanes = kafka.NativeLanes(log, run, work, cuts, folder, on_report)
    return Flow(encodable(rows, plan.sink, work), lanes.write, mode)


# -- what is done with the rows -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Arrived(n.Source):
    """A source whose rows are a frame already."""


@dataclass(frozen=True)
class Running(n.Aggregate):
    """An aggregate whose groups go on from batch to batch."""

    hops: Hops | None = None


def compiled(read: DataFrame, work: Work) -> DataFrame:
    """The frame of the rows that reach the sink."""

    def streaming(node: n.Node) -> n.Node:
        if isinstance(node, n.Source):
            return Arrived(**_fields(node))
        return Running(**_fields(node), hops=work.hops) if isinstance(node, n.Aggregate) else node

    return native(everywhere(work.plan.sink, streaming), framed(read, work)).frame


def _fields(node: n.Node) -> dict[str, Any]:
    return {field.name: getattr(node, field.name) for field in fields(node)}


def framed(read: DataFrame, work: Work) -> DataFrame:
    """What the source gives as a frame. Columns that nobody reads are null.

    Nothing above an aggregate sees headers: where rows lie in several windows, their column carries `now` up to it.
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
    made, by = grouping.grouped(native(node.input, records).frame, node, "headers")
    forms = grouping.spark_forms(node)
    assert forms is not None  # `choice` has seen to it
    if node.hops is None:
        return Rows(grouping.as_frame(grouping.in_spark(made, forms, by), node), node.relation, settled=True)
    results = grouping.in_spark(_in_windows(made, node), forms, [*by, "closes"])
    end = f.unix_millis("closes")
    bounds = results.withColumns({"window_end": end, "window_start": end - node.hops.size})
    return Rows(grouping.as_frame(bounds, node), node.relation, settled=True)


def _in_windows(rows: DataFrame, node: Any) -> DataFrame:
    """Each row in its windows, which go by their ends: as times, since Spark cleans up by times only."""
    hops: Hops = node.hops
    if hops.overlap:
        rows = grouping.in_open_windows(rows.withColumnRenamed("headers", "now"), node.relation.window)
    else:
        rows = rows.withColumn("window_end", f.expr(f"time - time % {hops.size} + {hops.size}"))
    closing = rows.withColumn("closes", f.timestamp_millis("window_end"))
    return closing.withWatermark("closes", f"{hops.size + hops.grace} milliseconds")


# -- what becomes of the results ------------------------------------------------------------------------------------


def encodable(rows: DataFrame, sink: n.Sink, work: Work) -> DataFrame:
    """What the encoder reads."""
    return rows.select(*row_columns(sink.relation), *(["headers"] if work.carries_headers else []))


_BOUNDS = {"WINDOWSTART": "window_start", "WINDOWEND": "window_end"}


def typed(rows: DataFrame, sink: n.Sink, topic: Topic, work: Work) -> DataFrame:
    """The columns of a topic that has a schema. One of windows has WINDOWSTART among them, and perhaps WINDOWEND."""
    keys, values = ({f"{letter}{i}": c for i, c in enumerate(those)} for letter, those in _letters(sink.relation))
    bounds = [Field("WINDOWSTART", BIGINT)] if sink.relation.window else []
    names = matched([*keys.values(), *values.values(), *bounds], topic, sink.name)
    columns = [_natural(place, field, topic, names[field.name]) for place, field in {**keys, **values}.items()]
    if sink.relation.window:
        there = {name.upper(): name for name in topic.schema.names}
        columns += [f"{column} as {quoted(there[name])}" for name, column in _BOUNDS.items() if name in there]
    columns += ["time as `$timestamp`", "if(valued, null, true) as `$deleted`"]
    return rows.selectExpr(*columns, *(["headers as `$headers`"] if work.carries_headers else []))


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
