"""A plan by Spark's real-time trigger, from Kafka to Kafka: one query without Python, without batches to wait for.

    flow = realtime_flow(spark, log, query, run, start)
    flow.writing().option("checkpointLocation", ...).start()

A record that cannot be used keeps its row: it passes every step beside the others, and the one sink writes it to the
topic of the dead letters. What was read is noted now and then; after a crash, what came since then comes again.
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
from headrace.engine.batch.frames import computed, frame_columns
from headrace.engine.batch.native import Rows, native
from headrace.engine.kafka_source import java_options, subscribed
from headrace.engine.native.flow import Arrived
from headrace.engine.realtime import envelope, payloads, slots
from headrace.engine.realtime.course import COUNTS
from headrace.engine.realtime.values import quoted
from headrace.log.kafka.client import options_of
from headrace.log.kafka.log import KafkaLog
from headrace.plan import nodes as n
from headrace.plan.rewriting import everywhere
from headrace.plan.rules import optimized

_COUNTED = 32

# Why each of these is set, in a session of the query's own:
_CONF = {
    "spark.sql.variant.allowDuplicateKeys": "true",  # the last one counts, as in our own parser
    "spark.sql.codegen.wholeStage": "false",  # all steps in one method are more than Java compiles to machine code
}


@dataclass(frozen=True)
class RealtimeFlow:
    """A query, ready to be started."""

    rows: DataFrame
    options: dict[str, str]
    log: KafkaLog
    topic: str
    every: timedelta
    """How often it is noted what was read."""

    @property
    def slots(self) -> int:
        """Of Spark's, that it holds."""
        return self.log.topic(self.topic).partitions

    def waiting(self, position: Mapping[str, Mapping[str, int]] | None) -> int:
        """How many records lie behind a position; None is the beginning."""
        reached = (position or {}).get(self.topic, {})
        return sum(
            self._count(partition, max(reached.get(str(partition), 0), bounds.start), bounds.end)
            for partition, bounds in self.log.bounds(self.topic).items()
        )

    def _count(self, partition: int, start: int, end: int) -> int:
        """Few are counted: marks of transactions have offsets too, and Spark stays before the last of them."""
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


def realtime_flow(
    spark: SparkSession, log: KafkaLog, query: n.Query, run: str, start: Mapping[str, Any] | None, every: timedelta
) -> RealtimeFlow:
    """The query over its topic; `run` names its life, and `start` is the position behind which it begins. All topics
    must be there, and that of the dead letters.
    """
    plan = optimized(query)
    source, sink = plan.sources[0], plan.sink
    slots.check(spark, query.id, log.topic(source.topic).partitions)
    own = spark.newSession()
    for name, value in _CONF.items():
        own.conf.set(name, value)
    reader = subscribed(own.readStream.format("kafka"), log.settings, [log.topic(source.topic)])
    read = framed(reader.option("startingOffsets", json.dumps(start) if start else "earliest").load(), source)
    made = native(everywhere(sink, _passing), read).frame
    codes = [f.expr(f"count_if(headers.code = {quoted(code)})").alias(code) for code in envelope.CODES]
    counted = made.observe(COUNTS, f.count("*").alias("all"), *codes)
    return RealtimeFlow(_written(counted, plan, run), _options(log, sink), log, source.topic, every)


def _options(log: KafkaLog, sink: n.Sink) -> dict[str, str]:
    settings = log.settings
    given = java_options(options_of(settings))
    largest = max(log.topic(name).spec.max_record_bytes for name in (sink.topic, dead_letter_topic(sink.topic)))
    return {
        "kafka.bootstrap.servers": settings.kafka_servers,
        "kafka.max.request.size": str(largest),
        **{f"kafka.{name}": value for name, value in given.items()},
    }


# -- from records to rows -------------------------------------------------------------------------------------------


def framed(records: DataFrame, source: n.Source) -> DataFrame:
    """Kafka's columns as a frame (see `batch.frames`), with the rows of records that cannot be read."""
    for stage in [*payloads.decoding(source, secrets.token_hex(8)), *envelope.arrived(source)]:
        records = records.selectExpr("*", *(f"{text} as `{name}`" for name, text in stage.items()))
    made = {
        "sequence": "0L",
        "place": "cast(array() as array<int>)",
        "time": "coalesce(time, 0L)",
        "keyed": "k0 is not null" if len(source.relation.key) == 1 else "key_there",
        "valued": "value_there",
        "headers": envelope.carried_on(),
    }
    return records.selectExpr(*(f"{made.get(name, name)} as {name}" for name in frame_columns(source.relation)))


# -- what is done with the rows -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Passing(n.Filter):
    """A filter that holds no dead letter back."""


@native.register
def _(node: Passing, records: DataFrame) -> Rows:
    below = native(node.input, records)
    held = computed(below.frame, below.relation, {"holds": node.condition})
    fits = "headers.code is not null or (valued and coalesce(holds, false))"
    return Rows(held.where(fits).drop("holds"), node.relation)


def _passing(node: n.Node) -> n.Node:
    others: dict[type[n.Node], Any] = {n.Source: Arrived, n.Filter: Passing}
    given = {field.name: getattr(node, field.name) for field in fields(node)}
    return others[type(node)](**given) if type(node) in others else node


# -- from rows to records -------------------------------------------------------------------------------------------


def _written(rows: DataFrame, plan: n.Query, run: str) -> DataFrame:
    """What Spark's sink for Kafka writes; which topic a row goes to is in the row."""
    source, sink = plan.sources[0], plan.sink
    results = {
        "topic": quoted(sink.topic),
        "key": payloads.key_bytes(sink.key_format, sink.relation),
        "value": payloads.value_bytes(sink.value_format, sink.relation),
        "headers": envelope.result_headers(run, source),
    }
    letters = {
        "topic": quoted(dead_letter_topic(sink.topic)),
        "key": "headers.key",
        "value": "headers.value",
        "headers": envelope.letter_headers(plan, run, source),
    }
    return rows.selectExpr(
        *(f"if(headers.code is null, {results[name]}, {letters[name]}) as {name}" for name in results)
    )
