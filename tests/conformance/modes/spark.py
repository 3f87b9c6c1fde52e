"""Cases of the KSQL corpus on Spark: planned as in memory, and computed from a log as `verify` recomputes a query.

A case's queries feed each other, so they run level by level: first, of all cases together, those that read inputs
only, in one Spark job, then those that read what these wrote, and so on. Queries that can also run natively do, and a
difference fails the case. Refusals are the planner's; they need no Spark.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from tests.conformance import corpus_functions
from tests.conformance.modes import memory
from tests.conformance.modes.log_case import CaseQuery, LogCase
from tests.conformance.modes.memory import Case, Outcome, Planned
from tests.spark.native_batch import BoundedQuery, comparable, runs_natively, written_natively

from headrace.control.verify.query import unverifiable_reasons
from headrace.engine.execution_mode import RECORD
from headrace.engine.record.task_spec import RecordTaskSpec, record_task_spec
from headrace.engine.spark.session import spark_session
from headrace.engine.verify.recompute import LogReader, ReadPart, recompute_parts
from headrace.errors import QueryFailed
from headrace.log.embedded import EmbeddedLog
from headrace.plan.analysis.record_layout import RecordLayout
from headrace.settings import Settings, Size

TICKS = "ticks"
"""A topic that no case has: records alone advance the time."""

RESULTS = pa.schema([("number", pa.int64()), ("topic", pa.string()), ("payload", pa.binary())])
"""Rows that a query of a level writes; without a topic, the reason of its failure."""

Level = list[tuple[LogCase, CaseQuery]]
Task = tuple[RecordTaskSpec, Sequence[ReadPart]]


def run(cases: Sequence[Case], jobs: int) -> list[Outcome]:
    """All cases, in a few Spark jobs; in memory scripts with assertions in between, and what cannot be recomputed."""
    planned = {case["id"]: _planned(case) for case in cases if case["suite"] != "sql"}
    planned = {name: p for name, p in planned.items() if _is_recomputable(p)}
    with tempfile.TemporaryDirectory() as folder:
        settings = _settings(Path(folder), jobs)
        with EmbeddedLog(settings.storage.data, settings) as log:
            on_log = [LogCase(p, log) for p in planned.values() if isinstance(p, Planned) and p.accepted]
            _run_levels(log, on_log)
    for case in on_log:
        memory.conclude(case.planned, case.finish)
    outcomes = {name: p.outcome if isinstance(p, Planned) else p for name, p in planned.items()}
    return [outcomes.get(case["id"]) or memory.run(case) for case in cases]


def _planned(case: Case) -> Planned | Outcome:
    try:
        return memory.plan(case)
    except Exception as error:
        return memory.crashed(case, error)


def _is_recomputable(planned: Planned | Outcome) -> bool:
    """As `verify` decides it."""
    queries = [running.query for running in planned.world.running.values()] if isinstance(planned, Planned) else []
    return not any(reason for query in queries for reason in unverifiable_reasons(query, RECORD))


def _settings(folder: Path, jobs: int) -> Settings:
    return Settings.of(
        storage_data=folder,
        storage_maintenance_interval=timedelta(0),
        spark_driver_memory=Size(1 << 30),
        spark_master=f"local[{max(jobs, 1)}]",
    )


# -- level by level -------------------------------------------------------------------------------------------------


def _run_levels(log: EmbeddedLog, cases: Sequence[LogCase]) -> None:
    session = spark_session(log.settings, "conformance")
    try:
        for level in _levels(cases):
            _run_level(session, log, level)
    finally:
        session.stop()


def _levels(cases: Sequence[LogCase]) -> Iterator[Level]:
    queries = [(case, query) for case in cases for query in case.queries]
    for level in range(max((query.level for _, query in queries), default=-1) + 1):
        yield [(case, query) for case, query in queries if query.level == level]


def _run_level(session: SparkSession, log: EmbeddedLog, level: Level) -> None:
    for case, query in level:
        case.prepare(query)
    payloads = defaultdict[int, list[bytes]](list)
    for row in _recomputed(session, log, [(_task_spec(query), query.parts) for _, query in level]):
        query = level[row["number"]][1]
        if row["topic"] is None:
            query.failure = row["payload"].decode()
        elif row["topic"] == query.query.sink.topic:
            payloads[row["number"]].append(row["payload"])
    for number, (case, query) in enumerate(level):
        case.write(query, payloads[number])
    _compare_natively(session, log, [query for _, query in level])


def _task_spec(query: CaseQuery) -> RecordTaskSpec:
    topics = dict.fromkeys([*(source.topic for source in query.query.sources), TICKS])
    return record_task_spec(query.query, tuple(map(RecordLayout, topics)), TICKS, setup=corpus_functions.install)


def _recomputed(session: SparkSession, log: EmbeddedLog, tasks: Sequence[Task]) -> list[dict]:
    """Rows of RESULTS, in order for each query."""
    reader = LogReader(log.settings, str(log.folder.resolve()))

    def recompute(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in (number for batch in batches for number in batch.column("id").to_pylist()):
            yield _run_task(reader, number, tasks[number])

    return session.range(len(tasks)).mapInArrow(recompute, from_arrow_schema(RESULTS)).toArrow().to_pylist()


def _run_task(reader: LogReader, number: int, task: Task) -> pa.RecordBatch:
    """In a worker: recomputes a query."""
    spec, parts = task
    try:
        written = list(recompute_parts(reader, parts, spec))
    except QueryFailed as failure:
        written = [(None, failure.what.encode())]
    rows = [{"number": number, "topic": topic, "payload": payload} for topic, payload in written]
    return pa.RecordBatch.from_pylist(rows, RESULTS)


def _compare_natively(session: SparkSession, log: EmbeddedLog, level: Sequence[CaseQuery]) -> None:
    """Where Spark's own operators can compute a query, the results must be the same."""
    queries = {q.query.sink.topic + q.query.id: q for q in level if q.parts and q.failure is None}
    native = {name: q for name, q in queries.items() if runs_natively(log, q.query)}
    bounded = {name: BoundedQuery(q.query, q.parts) for name, q in native.items()}
    found = written_natively(session, log, bounded, corpus_functions.install)
    for name, query in native.items():
        if comparable(query.query, found[name]) != comparable(query.query, query.written):
            query.failure = f"native-differs: natively {query.query.id} writes {found[name]}"
    print(f"{len(native)} of {len(queries)} queries also ran natively")
