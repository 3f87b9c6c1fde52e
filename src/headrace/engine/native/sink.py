"""What a native query gives, on its way into a log: encoded and staged in one Python stage, committed with the dead
letters of the tasks that read, once per batch.

A raw topic gets records in the declared formats; a topic with a schema gets columns, which Python does not look into.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from headrace.contracts import HEADERS_TYPE, Topic, dead_letter_topic
from headrace.engine.batch.carriers import quoted
from headrace.engine.batch.frames import tuples
from headrace.engine.columns import from_spark
from headrace.engine.native.headers import column, unpacked
from headrace.engine.native.moments import Deadlines
from headrace.engine.native.notes import Attempt
from headrace.engine.native.work import Work
from headrace.engine.payloads import Payloads, payloads
from headrace.engine.record.packing import ROWS, packed_rows, unpacked_rows
from headrace.engine.reports import OnReport, Report
from headrace.engine.sink import STAGED, Outlet, Rows, Sink, staged_extents
from headrace.plan.chain.contract import Problem
from headrace.plan.chain.records import Encoder, Raw


class Telling(Protocol):
    """How the tasks of a batch learn how far the stream was before it."""

    def begin(self, spark: SparkSession, batch: int) -> None: ...
    def end(self, batch: int, reports: Sequence[Report]) -> None:
        """The batch is in the log."""
        ...


class ToldBySource:
    """Its offsets say it."""

    def begin(self, spark: SparkSession, batch: int) -> None:
        pass

    def end(self, batch: int, reports: Sequence[Report]) -> None:
        pass


class NativeSink(Sink):
    """Pass `write` to `foreachBatch`. The query's results go to the plan's topic, dead letters beside it."""

    def __init__(self, outlet: Outlet, work: Work, telling: Telling, on_report: OnReport) -> None:
        self._topic = work.plan.sink.topic
        typed = not outlet.topic(self._topic).schema.is_raw
        topics = [self._topic, dead_letter_topic(self._topic)]
        super().__init__(outlet, topics, _columns if typed else Encoding(work))
        self._work = work
        self._folder = Path(work.folder)
        self._telling = telling
        self._on_report = on_report
        self._deadlines = Deadlines(work)

    def write(self, rows: DataFrame, batch: int) -> None:
        """Write a batch, once. One that is there already is computed all the same: its state must come to be."""
        self._telling.begin(rows.sparkSession, batch)
        attempt = Attempt(rows.sparkSession, self._folder)
        found = in_order(rows, self._work).mapInArrow(self.stage(), STAGED).collect()
        notes = attempt.notes()
        self.commit(batch, [*found, *self._letters([letters for _, letters in notes if letters])])
        reports = [*(report for report, _ in notes), report_of(found, self._topic)]
        self._telling.end(batch, reports)
        self._on_report(batch, self._deadlines.told(reports))

    def _letters(self, letters: Sequence[bytes]) -> list[tuple[Any, ...]]:
        dead = self._topics[1]
        return staged_extents([(dead, unpacked_rows(payload)) for payload in letters], self._outlet.staging)


def in_order(rows: DataFrame, work: Work) -> DataFrame:
    """Windows that come out once come one after another: for who reads on, time goes forward."""
    if not work.final:
        return rows
    names = {name.upper(): name for name in rows.columns}
    start = names.get("WINDOWSTART") or names["WINDOW_START"]  # a topic's column, or the frame's
    return rows.repartition(1).sortWithinPartitions(quoted(start))


def report_of(written: Sequence[Any], topic: str) -> Report:
    """Of the rows that a batch wrote into the topic; those beside it could not be written: their time is wrong, say."""
    good = sum(row.rows for row in written if row.topic == topic)
    bad = sum(row.rows for row in written if row.topic != topic)
    return Report(0, written=good, problems={"not-written": bad} if bad else {})


def _columns(rows: pa.RecordBatch, topics: Sequence[Topic]) -> Rows:
    at = rows.schema.get_field_index("$headers")
    if at >= 0:
        headers = rows.column(at)
        rows = rows.remove_column(at)
        if headers.null_count < len(headers):
            rows = rows.append_column("$headers", column(headers))
    return from_spark(rows, topics[:1])


@dataclass(frozen=True)
class Encoding:
    """In a task: rows of a frame to records of a raw topic."""

    work: Work

    def __call__(self, rows: pa.RecordBatch, topics: Sequence[Topic]) -> Rows:
        given = dict(zip(rows.schema.names, rows.columns, strict=True))
        written = encoded_at_once(given, self.work)
        return self.one_by_one(rows, given, topics) if written is None else [(topics[0], written)]

    def one_by_one(self, rows: pa.RecordBatch, given: dict[str, pa.Array], topics: Sequence[Topic]) -> Rows:
        """What is written at once must be this."""
        sink, encoder = self.work.plan.sink, _encoder(self.work)
        keys, values = tuples(given, "k", sink.relation, "keyed"), tuples(given, "v", sink.relation, "valued")
        headers = given["headers"].to_pylist() if "headers" in given else [None] * len(rows)
        events = zip(given["time"].to_pylist(), keys, values, headers, strict=True)
        made = [encoder.encode(event[:3], unpacked(event[3])) for event in events]
        report = Report(0)
        parts = (
            (topics[0], [record for record in made if isinstance(record, Raw)]),
            (topics[1], [report.letter(problem, self.work.plan) for problem in made if isinstance(problem, Problem)]),
        )
        return [(topic, unpacked_rows(packed_rows(records))) for topic, records in parts if records]


def encoded_at_once(given: Mapping[str, pa.Array], work: Work) -> pa.RecordBatch | None:
    """Records for a raw topic; None if formats cannot write columns, or a row may not be written at all."""
    made, relation = _payloads(work), work.plan.sink.relation
    if made is None or (pc.min(given["time"]).as_py() or 0) < 0:
        return None
    keys = made.keys([given[f"k{i}"] for i in range(len(relation.key))], given["keyed"], given.get("window_start"))
    values = made.values([given[f"v{i}"] for i in range(len(relation.value))], given["valued"])
    headers = column(given["headers"]) if "headers" in given else pa.nulls(len(keys), HEADERS_TYPE)
    return pa.RecordBatch.from_arrays([keys, values, given["time"], headers], schema=ROWS)


@lru_cache(64)
def _payloads(work: Work) -> Payloads | None:
    return payloads(work.plan.sink)


@lru_cache(64)
def _encoder(work: Work) -> Encoder:
    return Encoder(work.plan.sink)
