"""The record way on Kafka: its topics as packed pages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from headrace.engine.columns import gathered
from headrace.engine.kafka_rows import batches_of
from headrace.engine.kafka_source import streamed, worker_log
from headrace.engine.record.placing import PACKED_SPARK, packed
from headrace.engine.record.work import Work
from headrace.log.kafka.log import KafkaLog
from headrace.settings import Settings


def read_pages(
    spark: SparkSession, log: KafkaLog, work: Work, topics: Sequence[str], *, max_rows: int, start: str = "earliest"
) -> DataFrame:
    """The topics of a query, and its ticks, as a stream of packed pages."""
    known = [log.topic(name) for name in topics]
    rows = streamed(spark, log.settings, known, start, max_rows)
    return rows.mapInArrow(_packing(log.settings, work), PACKED_SPARK)


def _packing(settings: Settings, work: Work) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        log, raw = worker_log(settings), {layout.topic for layout in work.layouts if layout.columns is None}
        for messages in gathered(batches):
            for batch in batches_of(messages, log, raw):
                if len(batch):
                    yield packed(batch, work)

    return pack
