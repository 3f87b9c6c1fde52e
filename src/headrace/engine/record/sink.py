"""What pages gave out, on its way into the embedded log: rows in one transaction per batch, reports to whoever asks.

Tasks stage their results themselves, where they have made them: a step of Spark's own for it would be one more process
and one more hop in every batch.
"""

from __future__ import annotations

import marshal
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame

from headrace.contracts import Topic
from headrace.engine.record.operator import Output
from headrace.engine.record.writing import unpacked
from headrace.engine.reports import OnReport, Report
from headrace.engine.sink import EmbeddedSink, staged_extents
from headrace.log.embedded import EmbeddedLog
from headrace.log.embedded.extents import Writer

_STAGED = "staged"


class PageSink(EmbeddedSink):
    """An embedded sink for rows of `operator.OUTPUT_SPARK`."""

    def __init__(self, log: EmbeddedLog, query: str, topics: Sequence[str], on_report: OnReport) -> None:
        super().__init__(log, query, topics)
        self._on_report = on_report

    def finish(self) -> Staging:
        """What tasks do with their results."""
        by_name, inline = {topic.name: topic for topic in self._topics}, int(self._log.settings.inline_bytes)
        return Staging(self._log.folder.resolve() / "extents", self._log.owner, inline, by_name)

    def write(self, rows: DataFrame, batch: int) -> None:
        """Write a batch, once. One that is there already is computed all the same: its state must come to be."""
        found = rows.collect()
        self.commit(batch, [one for row in found if row.topic == _STAGED for one in marshal.loads(row.payload)])
        self._on_report(batch, [Report.unpacked(row.payload) for row in found if row.topic is None])


@dataclass(frozen=True)
class Staging:
    """In a task: results become extents that the driver can commit."""

    folder: Path
    owner: str
    inline: int
    topics: Mapping[str, Topic]

    def __call__(self, results: Iterable[Output]) -> list[Output]:
        staged = staged_extents(packed_topics(results, self.topics), Writer(self.folder, self.owner, self.inline))
        return [(_STAGED, marshal.dumps(staged))] if staged else []


def packed_topics(results: Iterable[Output], topics: Mapping[str, Topic]) -> Iterator[tuple[Topic, pa.RecordBatch]]:
    for name, payload in results:
        topic = topics[name or ""]
        yield topic, unpacked(payload, topic)
