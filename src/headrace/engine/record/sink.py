"""Writes the results of key groups to a log: rows in one transaction per batch, and reports to a callback.

Tasks stage their results where they are produced: a separate Spark stage for it would be one more process and one more
hop in every batch.
"""

from __future__ import annotations

import marshal
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame

from headrace.contracts import Topic
from headrace.engine.io.sink import BatchCommitter, Sink, staged_extents
from headrace.engine.record.chain_operator import Output
from headrace.engine.record.result_writer import read_written
from headrace.engine.task_report import OnTaskReports, TaskReport
from headrace.log.embedded.storage.extents import ExtentEncoder

_STAGED = "staged"


class RecordSink(Sink):
    """A sink for rows of `chain_operator.OUTPUT_SPARK_SCHEMA`."""

    def __init__(self, committer: BatchCommitter, topics: Sequence[str], on_report: OnTaskReports) -> None:
        super().__init__(committer, topics)
        self._on_report = on_report

    def finish(self) -> ResultStager:
        """Returns the function with which tasks stage their results."""
        return ResultStager(self._committer.staging, {topic.name: topic for topic in self._topics})

    def write(self, rows: DataFrame, batch: int) -> None:
        """Writes a batch, once. A batch that is already in the log is still computed, to produce its state."""
        collected = rows.collect()
        self.commit(batch, [one for row in collected if row.topic == _STAGED for one in marshal.loads(row.payload)])
        self._on_report(batch, [TaskReport.unpacked(row.payload) for row in collected if row.topic is None])


@dataclass(frozen=True)
class ResultStager:
    """In a task: encodes results as extents that the driver can commit."""

    writer: ExtentEncoder
    topics: Mapping[str, Topic]

    def __call__(self, results: Iterable[Output]) -> list[Output]:
        staged = staged_extents(topic_rows(results, self.topics), self.writer)
        return [(_STAGED, marshal.dumps(staged))] if staged else []


def topic_rows(results: Iterable[Output], topics: Mapping[str, Topic]) -> Iterator[tuple[Topic, pa.RecordBatch]]:
    for name, payload in results:
        topic = topics[name or ""]
        yield topic, read_written(payload, topic)
