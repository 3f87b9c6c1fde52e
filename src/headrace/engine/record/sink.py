"""What pages gave out, on its way into a log: rows in one transaction per batch, reports to whoever asks.

Tasks stage their results themselves, where they have made them: a step of Spark's own for it would be one more process
and one more hop in every batch.
"""

from __future__ import annotations

import marshal
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame

from headrace.contracts import Topic
from headrace.engine.record.operator import Output
from headrace.engine.record.writing import unpacked
from headrace.engine.reports import OnReport, Report
from headrace.engine.sink import Outlet, Sink, staged_extents
from headrace.log.embedded.extents import Writer

_STAGED = "staged"


class PageSink(Sink):
    """A sink for rows of `operator.OUTPUT_SPARK`."""

    def __init__(self, outlet: Outlet, topics: Sequence[str], on_report: OnReport) -> None:
        super().__init__(outlet, topics)
        self._on_report = on_report

    def finish(self) -> Staging:
        """What tasks do with their results."""
        return Staging(self._outlet.staging, {topic.name: topic for topic in self._topics})

    def write(self, rows: DataFrame, batch: int) -> None:
        """Write a batch, once. One that is there already is computed all the same: its state must come to be."""
        found = rows.collect()
        self.commit(batch, [one for row in found if row.topic == _STAGED for one in marshal.loads(row.payload)])
        self._on_report(batch, [Report.unpacked(row.payload) for row in found if row.topic is None])


@dataclass(frozen=True)
class Staging:
    """In a task: results become extents that the driver can commit."""

    writer: Writer
    topics: Mapping[str, Topic]

    def __call__(self, results: Iterable[Output]) -> list[Output]:
        staged = staged_extents(packed_topics(results, self.topics), self.writer)
        return [(_STAGED, marshal.dumps(staged))] if staged else []


def packed_topics(results: Iterable[Output], topics: Mapping[str, Topic]) -> Iterator[tuple[Topic, pa.RecordBatch]]:
    for name, payload in results:
        topic = topics[name or ""]
        yield topic, unpacked(payload, topic)
