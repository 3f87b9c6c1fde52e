"""Compiles a plan to Spark's own streaming operators, from the log to the log.

    compiled = compile_native_query(spark, log, query, adapter, folder, run, on_report)
    compiled.rows.writeStream.outputMode(compiled.mode).foreachBatch(compiled.write) ...

Stateless nodes are compiled in `sparksql.operators`. The state of groups is Spark's; each batch emits the last result
of every group that it changed, which is EMIT CHANGES with the changes of a batch merged.

A window's state is removed when the window has closed. Lateness is decided before, row by row (see `input_rows`);
Spark's watermark only cleans up, and never drops a row: it trails the ends of windows, which are at most a window's
size ahead of stream time, by size and grace. So it is never ahead of stream time minus the grace.

With EMIT FINAL the watermark also decides what is emitted, so it must be exact. Clocks, which are rows without a group,
advance it to the end of the last closed window; its delay is so large that other rows never get that far. Spark emits
in a batch what the previous one has closed, and runs a batch without rows if there are none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_type

from headrace.contracts import Log, Topic
from headrace.engine.io.sink import BatchCommitter
from headrace.engine.native.distinct import StreamingDistinct, order_columns, order_rows
from headrace.engine.native.partial_aggregation import PartialAggregation
from headrace.engine.native.schema_match import match_names, same_fields
from headrace.engine.native.sink import NativeSink, StreamTimeProvider
from headrace.engine.native.task_spec import NativeTaskSpec, WindowSpec, native_task_spec
from headrace.engine.sparksql import aggregation
from headrace.engine.sparksql.column_types import natural_sql, quote_name, sql_type
from headrace.engine.sparksql.frames import frame_columns, row_columns, type_of
from headrace.engine.sparksql.operators import FrameSource, compile_node
from headrace.engine.task_report import OnTaskReports
from headrace.errors import SchemaMismatch
from headrace.plan import nodes as n
from headrace.plan.relations import Relation
from headrace.plan.rewrite import rewrite_nodes
from headrace.plan.serialization import Setup, no_setup
from headrace.plan.types import BIGINT, is_nested
from headrace.schema import Field


@dataclass(frozen=True)
class CompiledQuery:
    """A native query that is ready to start."""

    rows: DataFrame
    write: Callable[[DataFrame, int], None]
    mode: str


class NativeLogAdapter(Protocol):
    """What a native query needs of its log; see `engine.log_adapter`."""

    by_time: bool

    def read_rows(self, spark: SparkSession, spec: NativeTaskSpec, start: str) -> DataFrame: ...
    def stream_time(self, folder: Path, spec: NativeTaskSpec) -> StreamTimeProvider: ...
    def committer(self, run: str, folder: Path, query: n.Query) -> BatchCommitter: ...


def compile_native_query(
    spark: SparkSession,
    log: Log,
    query: n.Query,
    adapter: NativeLogAdapter,
    folder: Path,
    run: str,
    on_report: OnTaskReports = lambda batch, reports: None,
    *,
    start: str = "earliest",
    setup: Setup = no_setup,
    ticks: str = "",
) -> CompiledQuery:
    """Compiles the query over its topic; `folder` is its checkpoint, `run` names its writer.

    The topics of source and sink must exist, and the dead-letter topic, and that of the ticks if it has any. Raises
    SchemaMismatch if the schema of a topic does not fit the statement.
    """
    notes = str((folder / "notes").resolve())
    spec = native_task_spec(query, notes, setup, by_time=adapter.by_time, ticks=ticks)
    plan, source = spec.plan, spec.source
    if not (read := log.topic(source.topic)).schema.is_raw:
        match_names(source.relation.columns, read, source.name)
    spark = _session_with_empty_batches(spark) if spec.final else spark
    rows = compile_plan(adapter.read_rows(spark, spec, start), spec)
    topic, order = log.topic(plan.sink.topic), order_columns(plan.sink.relation) if spec.distinct else ()
    raw = topic.schema.is_raw
    output = encoder_input(rows, plan.sink, spec, *order) if raw else typed_output(rows, plan.sink, topic, spec, *order)
    write = NativeSink(adapter.committer(run, folder, query), spec, adapter.stream_time(folder, spec), on_report).write
    if spec.distinct:
        return CompiledQuery(output, lambda results, batch: write(order_rows(results), batch), "append")
    return CompiledQuery(output, write, "update" if spec.aggregates and not spec.final else "append")


@cache
def _session_with_empty_batches(spark: SparkSession) -> SparkSession:
    """A session whose queries run a batch without rows if there are results to emit.

    Other queries do not need it: where windows are only cleaned up, that can wait for rows. All queries share one
    session: Spark sends events to every session that ever ran a query.
    """
    session = spark.newSession()
    session.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "true")
    return session


# -- processing of rows ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StreamingAggregate(n.Aggregate):
    """An aggregate whose groups persist across batches."""

    hops: WindowSpec | None = None
    final: bool = False
    partial: PartialAggregation | None = None


def compile_plan(read: DataFrame, spec: NativeTaskSpec) -> DataFrame:
    """The frame of the rows that reach the sink."""

    def streaming(node: n.Node) -> n.Node:
        if isinstance(node, n.Source):
            return FrameSource(**_fields(node))
        if isinstance(node, n.Aggregate):
            return StreamingAggregate(**_fields(node), hops=spec.hops, final=spec.final, partial=spec.partial)
        if isinstance(node, n.Distinct):
            return StreamingDistinct(**_fields(node), hops=spec.hops)
        return node

    return compile_node(
        rewrite_nodes(spec.above, streaming), source_frame(read, spec) if spec.partial is None else read
    )


def _fields(node: n.Node) -> dict[str, Any]:
    return {field.name: getattr(node, field.name) for field in fields(node)}


def source_frame(read: DataFrame, spec: NativeTaskSpec) -> DataFrame:
    """The source's output as a frame. Columns that are not read are null.

    No node above an aggregate uses headers: where rows are in several windows, or include clocks, the headers' column
    carries `now` up to the aggregate.
    """
    relation, present = spec.source.relation, set(read.columns)
    single = len(relation.key) == 1 and "k0" in present
    computed: dict[str, Column] = {
        "sequence": f.lit(0).cast("bigint"),
        "place": f.array().cast("array<int>"),
        "keyed": f.col("k0").isNotNull() if single else f.lit(bool(relation.key)),
        "headers": f.col("now") if "now" in present else f.lit(None).cast("bigint"),
    }
    columns = [
        f.col(name) if name in present else computed.get(name, _null_column(name, relation))
        for name in frame_columns(relation)
    ]
    return read.select(*(column.alias(name) for column, name in zip(columns, frame_columns(relation), strict=True)))


def _null_column(name: str, relation: Relation) -> Column:
    is_value = name[0] in "kv" and name[1:].isdigit()
    return f.lit(None).cast(sql_type(type_of(name, relation))) if is_value else f.lit(None)


@compile_node.register
def _(node: StreamingAggregate, rows: DataFrame) -> DataFrame:
    output, by, forms = _rows_to_aggregate(node, rows) if node.partial is None else _partial_results(node.partial, rows)
    if node.hops is None:
        return aggregation.as_frame(aggregation.aggregate_in_spark(output, forms, by), node)
    results = aggregation.aggregate_in_spark(_with_windows(output, node), forms, [*by, "closes"])
    end = f.unix_millis("closes")
    bounds = results.withColumns({"window_end": end, "window_start": end - node.hops.size})
    return aggregation.as_frame(bounds, node)


def _rows_to_aggregate(node: StreamingAggregate, rows: DataFrame) -> tuple[DataFrame, list[str], list[str]]:
    """The rows to aggregate, the columns to group by, and the aggregates in SQL."""
    group = aggregation.with_groups if node.final else aggregation.group_rows
    output, by = group(compile_node(node.input, rows), node, "headers")
    return output, by, aggregation.aggregates_sql(node)


def _partial_results(partial: PartialAggregation, rows: DataFrame) -> tuple[DataFrame, list[str], list[str]]:
    return rows, [f"g{i}" for i in range(len(partial.groups))], partial.merging_sql()


@compile_node.register
def _(node: n.Final, rows: DataFrame) -> DataFrame:
    """Implemented by Spark's watermark."""
    return compile_node(node.input, rows)


def _with_windows(rows: DataFrame, node: Any) -> DataFrame:
    """Assigns rows to windows, identified by their ends: as timestamps, since Spark cleans up by timestamps only."""
    hops: WindowSpec = node.hops
    rows = rows.withColumnRenamed("headers", "now")
    if hops.overlap:
        rows = aggregation.in_open_windows(rows, node.relation.window)
    else:
        rows = rows.withColumn("window_end", f.expr(f"time - time % {hops.size} + {hops.size}"))
    closing = rows.withColumn("closes", f.timestamp_millis("window_end"))
    if node.final:
        return _with_clock_watermark(closing, hops)
    return closing.withWatermark("closes", f"{hops.size + hops.grace} milliseconds")


def _with_clock_watermark(rows: DataFrame, hops: WindowSpec) -> DataFrame:
    """Adds the watermark, and drops the clocks after it.

    Clocks have times between milliseconds, by which they are filtered out. By any other column Spark would filter
    before the watermark.
    """
    delay = 2 * hops.size + hops.grace
    clock = f.expr(f"timestamp_micros((now + {delay}) * 1000 + 1)")
    marked = rows.withColumn("closes", f.when(f.col("g0").isNull(), clock).otherwise(f.col("closes")))
    return marked.withWatermark("closes", f"{delay} milliseconds").where("unix_micros(closes) % 1000 = 0")


# -- results ---------------------------------------------------------------------------------------------------------


def encoder_input(rows: DataFrame, sink: n.Sink, spec: NativeTaskSpec, *more: str) -> DataFrame:
    """The columns that the encoder reads, and `more` columns."""
    return rows.selectExpr(*row_columns(sink.relation), *(["headers"] if spec.carries_headers else []), *more)


_BOUNDS = {"WINDOWSTART": "window_start", "WINDOWEND": "window_end"}


def typed_output(rows: DataFrame, sink: n.Sink, topic: Topic, spec: NativeTaskSpec, *more: str) -> DataFrame:
    """The columns of a topic with a schema. With windows they include WINDOWSTART, and optionally WINDOWEND."""
    keys, values = ({f"{prefix}{i}": c for i, c in enumerate(those)} for prefix, those in _letters(sink.relation))
    bounds = [Field("WINDOWSTART", BIGINT)] if sink.relation.window else []
    names = match_names([*keys.values(), *values.values(), *bounds], topic, sink.name)
    columns = [_natural_column(place, field, topic, names[field.name]) for place, field in {**keys, **values}.items()]
    if sink.relation.window:
        present = {name.upper(): name for name in topic.schema.names}
        columns += [f"{column} as {quote_name(present[name])}" for name, column in _BOUNDS.items() if name in present]
    columns += ["time as `$timestamp`", "if(valued, null, true) as `$deleted`"]
    return rows.selectExpr(*columns, *(["headers as `$headers`"] if spec.carries_headers else []), *more)


def _letters(relation: Relation) -> tuple[tuple[str, tuple[Field, ...]], ...]:
    return (("k", relation.key), ("v", relation.value))


def _natural_column(place: str, field: Field, topic: Topic, name: str) -> str:
    """Renames the fields of structs to the topic's names, by position."""
    text, kind = natural_sql(place, field.type), topic.schema[name].type
    if is_nested(kind):
        if not same_fields(kind, field.type):
            raise SchemaMismatch(
                f'column "{field.name}" has different fields in topic "{topic.name}"',
                fix=f"use the same names in the same order: {topic.schema}",
            )
        text = f"cast({text} as {from_arrow_type(kind).simpleString()})"
    return f"{text} as {quote_name(name)}"
