"""The record way on Kafka: its topics as packed pages, and what pages gave out by lanes of transactional producers.

A lane is a task of the operator, whose number is fixed for the query's life: a page is always in the same one, so a
key's rows keep their order, and a repeat of a batch writes the same rows by the same producer, which skips them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from headrace.contracts import Append
from headrace.engine.kafka_rows import batches_of
from headrace.engine.kafka_sink import write_lane
from headrace.engine.kafka_source import Cuts, subscribed, worker_log
from headrace.engine.record.operator import OUTPUT, OUTPUT_SPARK, Finish, as_it_is
from headrace.engine.record.packing import kept
from headrace.engine.record.placing import PACKED_SPARK, packed
from headrace.engine.record.sink import packed_topics
from headrace.engine.record.work import Work
from headrace.engine.reports import OnReport, Report
from headrace.faultpoints import reach
from headrace.log.kafka.log import KafkaLog
from headrace.settings import Settings


def read_pages(
    spark: SparkSession, log: KafkaLog, work: Work, topics: Sequence[str], *, max_rows: int, start: str = "earliest"
) -> DataFrame:
    """The topics of a query, and its ticks, as a stream of packed pages."""
    known = [log.topic(name) for name in topics]
    reader = subscribed(spark.readStream.format("kafka"), log.settings, known).option("startingOffsets", start)
    rows = reader.option("maxOffsetsPerTrigger", str(max_rows)).load()
    return rows.mapInArrow(_packing(log.settings, work), PACKED_SPARK)


def _packing(settings: Settings, work: Work) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        log, raw = worker_log(settings), {layout.topic for layout in work.layouts if layout.columns is None}
        for messages in batches:
            for batch in batches_of(messages, log, raw):
                if len(batch):
                    yield packed(batch, work)

    return pack


class LaneSink:
    """Writes rows of `operator.OUTPUT_SPARK`; pass `write` to `foreachBatch`."""

    def __init__(self, log: KafkaLog, query: str, topics: Sequence[str], cuts: Cuts, on_report: OnReport) -> None:
        self._settings = log.settings
        self._query = query
        self._topics = [log.topic(name) for name in topics]
        self._cuts = cuts
        self._on_report = on_report

    def finish(self) -> Finish:
        """A lane must know its batch: what a task has made goes on as it is."""
        return as_it_is

    def write(self, rows: DataFrame, batch: int) -> None:
        """Write a batch, once: each lane's part in one transaction."""
        self._cuts.journal(batch)
        reach("cut.journalled")
        reports = rows.mapInArrow(self._lane(batch), OUTPUT_SPARK).collect()
        reach("lanes.written")
        self._on_report(batch, [Report.unpacked(row.payload) for row in reports])

    def _lane(self, batch: int) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
        settings, query, topics = self._settings, self._query, {topic.name: topic for topic in self._topics}

        def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            context = TaskContext.get()
            lane = context.partitionId() if context else 0
            appends: list[Append] = []
            for one in batches:
                rows, reports = kept(one)
                results = zip(rows.column("topic").to_pylist(), rows.column("payload").to_pylist(), strict=True)
                appends += [Append(topic.name, part) for topic, part in packed_topics(results, topics)]
                yield reports.select(OUTPUT.names)
            write_lane(settings, f"query.{query}.{lane}", batch, appends)

        return write
