"""Compiles a plan for Spark's real-time trigger, from Kafka to Kafka: one query without Python and micro-batches.

    compiled = compile_realtime_query(spark, log, query, run, start, every)
    compiled.writing().option("checkpointLocation", ...).start()

A record that cannot be used stays in the frame: it passes every step with the other rows, and the one sink writes it to
the dead-letter topic. The offsets are checkpointed at intervals; after a crash, records since the last checkpoint are
processed again.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.readwriter import DataStreamWriter

from headrace.contracts import dead_letter_topic
from headrace.engine.io.kafka_source import java_client_options, subscribe
from headrace.engine.realtime import envelope, formats, task_slots
from headrace.engine.realtime.json_values import quote_text
from headrace.engine.realtime.progress_tracker import COUNTS_METRIC
from headrace.engine.sparksql.frames import frame_columns
from headrace.engine.sparksql.operators import FrameSource, compile_node, filter_rows
from headrace.log.kafka.client import client_options
from headrace.log.kafka.log import KafkaLog
from headrace.plan import nodes as n
from headrace.plan.rewrite import rewrite_nodes
from headrace.plan.rules import optimize

_COUNTED = 32

# Why each of these is set, in a session for this query alone:
_CONF = {
    "spark.sql.variant.allowDuplicateKeys": "true",  # the last one counts, as in headrace's own parser
    "spark.sql.codegen.wholeStage": "false",  # all steps in one method exceed what Java compiles to machine code
}


@dataclass(frozen=True)
class CompiledRealtimeQuery:
    """A query that is ready to start."""

    rows: DataFrame
    options: dict[str, str]
    log: KafkaLog
    topic: str
    every: timedelta
    """The interval between checkpoints."""

    @property
    def slots(self) -> int:
        """The number of Spark's task slots that it occupies."""
        return self.log.topic(self.topic).partitions

    def lag(self, position: Mapping[str, Mapping[str, int]] | None) -> int:
        """The number of records after a position; None is the beginning."""
        offsets = (position or {}).get(self.topic, {})
        return sum(
            self._count(partition, max(offsets.get(str(partition), 0), bounds.start), bounds.end)
            for partition, bounds in self.log.bounds(self.topic).items()
        )

    def _count(self, partition: int, start: int, end: int) -> int:
        """Counts a small lag exactly: transaction markers have offsets too, and Spark stops before the last of them."""
        if end - start > _COUNTED:
            return end - start
        rows = 0
        while start < end:
            batch = self.log.read(self.topic, partition, start, max_records=_COUNTED)
            rows, start = rows + batch.rows.num_rows, batch.next_offset
        return rows

    def writing(self) -> DataStreamWriter:
        writing = self.rows.writeStream.format("kafka").options(**self.options).outputMode("update")
        return writing.trigger(realTime=f"{self.every // timedelta(milliseconds=1)} milliseconds")  # pyright: ignore[reportCallIssue]


def compile_realtime_query(
    spark: SparkSession, log: KafkaLog, query: n.Query, run: str, start: Mapping[str, Any] | None, every: timedelta
) -> CompiledRealtimeQuery:
    """Compiles the query over its topic; `run` is its run id, and it reads the records after `start`.

    All topics must exist, including the dead-letter topic.
    """
    plan = optimize(query)
    source, sink = plan.sources[0], plan.sink
    task_slots.check_free_slots(spark, query.id, log.topic(source.topic).partitions)
    own = spark.newSession()
    for name, value in _CONF.items():
        own.conf.set(name, value)
    reader = subscribe(own.readStream.format("kafka"), log.settings, [log.topic(source.topic)])
    read = source_frame(reader.option("startingOffsets", json.dumps(start) if start else "earliest").load(), source)
    compiled = compile_node(rewrite_nodes(sink, _passing), read)
    codes = [f.expr(f"count_if(headers.code = {quote_text(code)})").alias(code) for code in envelope.CODES]
    counted = compiled.observe(COUNTS_METRIC, f.count("*").alias("all"), *codes)
    return CompiledRealtimeQuery(_kafka_rows(counted, plan, run), _options(log, sink), log, source.topic, every)


def _options(log: KafkaLog, sink: n.Sink) -> dict[str, str]:
    settings = log.settings
    java_options = java_client_options(client_options(settings))
    largest = max(log.topic(name).spec.max_record_bytes for name in (sink.topic, dead_letter_topic(sink.topic)))
    return {
        "kafka.bootstrap.servers": settings.kafka.bootstrap_servers,
        "kafka.max.request.size": str(largest),
        **{f"kafka.{name}": value for name, value in java_options.items()},
    }


# -- from records to rows -------------------------------------------------------------------------------------------


def source_frame(records: DataFrame, source: n.Source) -> DataFrame:
    """Kafka's columns as a frame (see `sparksql.frames`), including rows of records that cannot be read."""
    for stage in [*formats.decode_stages(source, secrets.token_hex(8)), *envelope.arrival_stages(source)]:
        records = records.selectExpr("*", *(f"{text} as `{name}`" for name, text in stage.items()))
    expressions = {
        "sequence": "0L",
        "place": "cast(array() as array<int>)",
        "time": "coalesce(time, 0L)",
        "keyed": "k0 is not null" if len(source.relation.key) == 1 else "key_present",
        "valued": "value_present",
        "headers": envelope.carried_headers(),
    }
    return records.selectExpr(*(f"{expressions.get(name, name)} as {name}" for name in frame_columns(source.relation)))


# -- processing of rows ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DeadLetterPassingFilter(n.Filter):
    """A filter that lets all dead letters pass."""


@compile_node.register
def _(node: DeadLetterPassingFilter, rows: DataFrame) -> DataFrame:
    return filter_rows(node, rows, "headers.code is not null or (valued and coalesce(holds, false))")


def _passing(node: n.Node) -> n.Node:
    others: dict[type[n.Node], Any] = {n.Source: FrameSource, n.Filter: DeadLetterPassingFilter}
    arguments = {field.name: getattr(node, field.name) for field in fields(node)}
    return others[type(node)](**arguments) if type(node) in others else node


# -- from rows to records -------------------------------------------------------------------------------------------


def _kafka_rows(rows: DataFrame, plan: n.Query, run: str) -> DataFrame:
    """The columns that Spark's Kafka sink writes; each row names its topic."""
    source, sink = plan.sources[0], plan.sink
    results = {
        "topic": quote_text(sink.topic),
        "key": formats.key_bytes(sink.key_format, sink.relation),
        "value": formats.value_bytes(sink.value_format, sink.relation),
        "headers": envelope.result_headers(run, source),
    }
    dead_letters = {
        "topic": quote_text(dead_letter_topic(sink.topic)),
        "key": "headers.key",
        "value": "headers.value",
        "headers": envelope.dead_letter_headers(plan, run, source),
    }
    return rows.selectExpr(
        *(f"if(headers.code is null, {results[name]}, {dead_letters[name]}) as {name}" for name in results)
    )
