"""Cases of the KSQL corpus on Spark: planned as in memory, run as batches of the chain inside Spark.

A case's queries feed each other, so they run level by level: first, of all cases together, those that read inputs
only, in one Spark job, then those that read what these wrote, and so on. Queries that can
also run natively, and a difference fails the case. Refusals are the planner's; they need no Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql import SparkSession
from tests.conformance import corpus_functions
from tests.conformance.modes import memory, native
from tests.conformance.modes.memory import Case, Outcome, Planned
from tests.spark import chain_batch

from headrace.engine.spark.session import spark_session
from headrace.engine.sparksql.record_frames import headers_of, records_frame
from headrace.errors import QueryFailed
from headrace.lang.ksql.properties import STRICT
from headrace.plan.chain.records import RawRecord
from headrace.plan.nodes import Query
from headrace.settings import Settings, Size
from headrace.testing.memory_log import INPUT_ORIGIN
from headrace.testing.memory_query import raw_record
from headrace.testing.world import World

Inputs = list[tuple[str, RawRecord]]
"""Topic and record, in order of arrival."""

DIFFERS = "native-differs"
"""The problem of a query for which Spark's own operators write something else."""


@dataclass
class Running:
    """A query of a case: how deep it lies, and what came of it."""

    name: str
    query: Query
    level: int = 0
    written: list[RawRecord] = field(default_factory=list)
    problems: list[tuple[str, str, str]] = field(default_factory=list)


class BatchCase:
    """A case whose queries run elsewhere. What each reads follows ksqlDB's runner: see `headrace.testing.world`."""

    def __init__(self, planned: Planned) -> None:
        self.planned = planned
        self.world: World = planned.world
        memory.give(planned)
        self._given = {entry.topic for entry in self.world.topics.entries if entry.origin == INPUT_ORIGIN}
        self.queries: list[Running] = []
        for running in self.world.running.values():
            self.queries.append(Running(f"{planned.case['id']}/{running.query.id}", running.query))
            self.queries[-1].level = self._level(self.queries[-1])

    def _feeders(self, reader: Running) -> list[Running]:
        """The earlier queries of which it reads what they write."""
        topics = {source.topic for source in reader.query.sources} - self._given
        earlier = self.queries[: self.queries.index(reader)]
        return [query for query in earlier if query.query.sink.topic in topics]

    def _level(self, reader: Running) -> int:
        return max((feeder.level + 1 for feeder in self._feeders(reader)), default=0)

    def inputs(self, reader: Running) -> Inputs:
        """Inputs of its topics in their order; then, topic by topic, what was written where there are none."""
        topics = list(dict.fromkeys(self.world.running[reader.query.id].topics))
        entries = self.world.topics.entries
        inputs = [(e.topic, raw_record(e)) for e in entries if e.origin == INPUT_ORIGIN and e.topic in topics]
        for topic in topics:
            if topic not in self._given:
                inputs += [(topic, record) for record in self._in_topic(topic, self._feeders(reader))]
        return inputs

    def _in_topic(self, topic: str, feeders: Iterable[Running]) -> list[RawRecord]:
        records = [raw_record(entry) for entry in self.world.topics[topic]]
        records += [record for feeder in feeders if feeder.query.sink.topic == topic for record in feeder.written]
        return [record._replace(offset=offset) for offset, record in enumerate(records)]

    def finish(self) -> None:
        """Into the topics with what was written, unless a problem ends the case."""
        for running in self.queries:
            self._check(running)
            for r in running.written:
                self.world.topics.append(running.query.sink.topic, r.key, r.value, r.time, r.headers, running.query.id)

    def _check(self, running: Running) -> None:
        strict = [
            DIFFERS,
            *(c for name, c in STRICT.items() if str(self.world.planner.properties.get(name)).lower() == "true"),
        ]
        for code, reason, where in running.problems:
            if code in strict:
                raise QueryFailed(reason, where=where, fix="correct the record")


def run(cases: Sequence[Case], jobs: int) -> list[Outcome]:
    """All cases, in a few Spark jobs. Scripts with assertions in between (suite "sql") are no batches: in memory."""
    planned = {case["id"]: _planned(case) for case in cases if case["suite"] != "sql"}
    ready = [BatchCase(p) for p in planned.values() if isinstance(p, Planned) and p.accepted]
    session = spark_session(
        Settings.of(spark_driver_memory=Size(1 << 30), spark_master=f"local[{max(jobs, 1)}]"), "conformance"
    )
    try:
        for level in _levels(ready):
            _run_level(session, level)
    finally:
        session.stop()
    for case in ready:
        memory.conclude(case.planned, case.finish)
    outcomes = {name: p.outcome if isinstance(p, Planned) else p for name, p in planned.items()}
    return [outcomes.get(case["id"]) or memory.run(case) for case in cases]


def _planned(case: Case) -> Planned | Outcome:
    try:
        return memory.plan(case)
    except Exception as error:
        return memory.crashed(case, error)


Level = list[tuple[BatchCase, Running]]


def _levels(cases: Sequence[BatchCase]) -> Iterator[Level]:
    queries = [(case, running) for case in cases for running in case.queries]
    for level in range(max((running.level for _, running in queries), default=-1) + 1):
        yield [(case, running) for case, running in queries if running.level == level]


def _run_level(session: SparkSession, level: Level) -> None:
    by_name: Mapping[str, Running] = {running.name: running for _, running in level}
    inputs = {running.name: case.inputs(running) for case, running in level}
    rows = records_frame(session, [(name, *record) for name, records in inputs.items() for record in records])
    plans = chain_batch.query_plans(
        {name: running.query for name, running in by_name.items()}, corpus_functions.install
    )
    results = chain_batch.run_queries(rows, plans).toArrow()
    for row in results.sort_by([("sequence", "ascending"), ("index", "ascending")]).to_pylist():
        _take(by_name[row["query"]], row)
    _compare(session, by_name, inputs)


def _compare(session: SparkSession, by_name: Mapping[str, Running], inputs: native.Inputs) -> None:
    """Where Spark's own operators can do it, they must come to the same."""
    queries = {name: r.query for name, r in by_name.items() if inputs[name] and native.is_native(r.query)}
    found = native.written(session, queries, inputs)
    for name, query in queries.items():
        if native.answer(query, found.get(name, [])) != native.answer(query, by_name[name].written):
            by_name[name].problems.append((DIFFERS, f"natively {name} writes {found.get(name)}", name))


def _take(running: Running, row: Mapping) -> None:
    if row["problem"] is not None:
        running.problems.append((row["problem"]["code"], row["problem"]["reason"], row["problem"]["where"]))
    else:
        running.written.append(RawRecord(row["key"], row["value"], row["time"], headers_of(row["headers"])))
