"""What pages gave out, on its way into the embedded log: rows in one transaction per batch, reports to whoever asks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame

from headrace.contracts import Topic
from headrace.engine.record.packing import kept
from headrace.engine.record.writing import unpacked
from headrace.engine.reports import OnReport, Report
from headrace.engine.sink import STAGED, STAGED_SCHEMA, EmbeddedSink
from headrace.log.embedded import EmbeddedLog

Run = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class PageSink(EmbeddedSink):
    """An embedded sink for rows of `operator.OUTPUT_SPARK`.

    What tasks do is part of the query from its start: planned anew for each batch it would cost a small one much.
    """

    def __init__(self, log: EmbeddedLog, query: str, topics: Sequence[str], on_report: OnReport) -> None:
        super().__init__(log, query, topics, packed_topics)
        self._on_report = on_report

    def staged(self, rows: DataFrame, run: Run = iter) -> DataFrame:
        """What a batch's tasks leave for `write`, when `run` has made results of the rows."""
        stage = self.stage()

        def staged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for one in run(batches):
                rows, reports = kept(one)
                yield from stage(iter([rows]))
                yield _carried(reports)

        return rows.mapInArrow(staged, STAGED)

    def write(self, rows: DataFrame, batch: int) -> None:
        """Write a batch, once. One that is there already is computed all the same: its state must come to be."""
        found = rows.collect()
        self.commit(batch, [row for row in found if row.topic is not None])
        self._on_report(batch, [Report.unpacked(row.payload) for row in found if row.topic is None])


def packed_topics(rows: pa.RecordBatch, topics: Sequence[Topic]) -> Iterator[tuple[Topic, pa.RecordBatch]]:
    by_name = {topic.name: topic for topic in topics}
    for name, payload in zip(rows.column("topic").to_pylist(), rows.column("payload").to_pylist(), strict=True):
        yield by_name[name], unpacked(payload, by_name[name])


def _carried(reports: pa.RecordBatch) -> pa.RecordBatch:
    """Reports as rows of what is staged, of which they fill the payload only."""
    columns = [
        reports.column("payload") if field.name == "payload" else pa.nulls(reports.num_rows, field.type)
        for field in STAGED_SCHEMA
    ]
    return pa.RecordBatch.from_arrays(columns, schema=STAGED_SCHEMA)
