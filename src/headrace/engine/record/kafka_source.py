"""The record mode on Kafka: reads its topics as records packed by key group."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from headrace.engine.io.columns import coalesce_batches
from headrace.engine.io.kafka_messages import to_batches
from headrace.engine.io.kafka_source import stream_messages, worker_log
from headrace.engine.record.shuffle.partitioner import SHUFFLE_SPARK_SCHEMA, partition_batch
from headrace.engine.record.task_spec import RecordTaskSpec
from headrace.log.kafka.log import KafkaLog
from headrace.settings import Settings


def read_key_groups(
    spark: SparkSession,
    log: KafkaLog,
    spec: RecordTaskSpec,
    topics: Sequence[str],
    *,
    max_rows: int,
    start: str = "earliest",
) -> DataFrame:
    """Reads the topics of a query, and its ticks, as a stream of records packed by key group."""
    known = [log.topic(name) for name in topics]
    rows = stream_messages(spark, log.settings, known, start, max_rows)
    return rows.mapInArrow(_packing(log.settings, spec), SHUFFLE_SPARK_SCHEMA)


def _packing(
    settings: Settings, spec: RecordTaskSpec
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        log, raw = worker_log(settings), {layout.topic for layout in spec.layouts if layout.columns is None}
        for messages in coalesce_batches(batches):
            for batch in to_batches(messages, log, raw):
                if len(batch):
                    yield partition_batch(batch, spec)

    return pack
