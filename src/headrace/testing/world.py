"""The in-memory test world: a log, a catalog, and queries that run as chains. Statements in, records out.

    world = World()
    world.execute("CREATE STREAM clicks (id INT KEY, page STRING) WITH (kafka_topic='clicks', format='JSON'); ...")
    world.produce("clicks", b"1", b'{"PAGE": "/"}', timestamp=10)
    world.topics["COUNTS"]

A *live* world passes every record at once through all queries that read it, in the order of their creation, and so on
with what they write. A query sees records that are written after its creation. In a world that is not live, nothing
happens until `drain`; then the queries run one after another, as in ksqlDB's own tests: each gets all inputs of its
topics in the order they were produced, then, from topics without inputs, what statements and earlier queries wrote.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from headrace.errors import UnknownTopic, suggestion
from headrace.lang.contract import DescribeContext, TopicStatistics
from headrace.lang.executor import ScriptExecutor
from headrace.lang.interpreter import Interpreter, unknown_process
from headrace.lang.listing import Listing
from headrace.lang.registry import KSQL, dialect_of
from headrace.plan.actions import Action
from headrace.plan.catalog import Catalog
from headrace.plan.chain.fail_on_error import fail_if_configured
from headrace.plan.chain.records import Headers, RawRecord
from headrace.plan.chain.row_codec import encode_row
from headrace.plan.nodes import Query
from headrace.plan.sources import SourceInfo
from headrace.plan.steps import Event, Problem
from headrace.testing.memory_log import INPUT_ORIGIN, MemoryLog, MemoryRecord
from headrace.testing.memory_query import InMemoryQuery, raw_record

FIXED_NOW = 1_767_225_600_000
"""The current time for functions such as UNIX_TIMESTAMP: always 1 January 2026 in UTC, so that tests can state the
expected result."""
STATEMENT_ORIGIN = "statement"
"""The origin of records that INSERT VALUES and DELETE write."""


class World:
    def __init__(self, properties: Mapping[str, Any] | None = None, *, live: bool = True, now: int = 0) -> None:
        self.catalog = Catalog()
        self.properties = dict(properties or {})
        self.variables: dict[str, str] = {}
        self.live = live
        self.time = now
        """The timestamp of rows whose statement gives none."""
        self.topics = MemoryLog()
        self.running: dict[str, InMemoryQuery] = {}
        self.problems: list[Problem] = []
        self.declared: dict[str, SourceInfo] = {}
        """The first source over each topic, which decodes its records; retained after it is dropped."""
        self.answers: list[Listing] = []
        """Results of LIST, DESCRIBE, EXPLAIN and PRINT, in order of execution."""
        self._interpreters: dict[str, tuple[ScriptExecutor, Interpreter]] = {}
        self.planner = self._interpreter(KSQL)[0].planner

    # -- statements -------------------------------------------------------------------------------------------------

    def execute(self, statements: str, name: str | None = None, *, language: str = KSQL) -> list[Action]:
        """Plan and apply statements in order. The first error stops execution; earlier statements stay applied.

        `name` is the script's file: errors show it, and RUN SCRIPT resolves paths relative to it.
        """
        return self._interpreter(language)[0].run(statements, name)

    def apply(self, action: Action, text: str = "") -> None:
        """Apply the action of a KSQL statement."""
        self._interpreter(KSQL)[1].run(action, text)

    @property
    def assertions(self) -> int:
        """Number of ASSERTs that passed."""
        return sum(interpreter.assertions for _, interpreter in self._interpreters.values())

    def _interpreter(self, language: str) -> tuple[ScriptExecutor, Interpreter]:
        if language not in self._interpreters:
            dialect = dialect_of(language)
            planner = dialect.planner(self.catalog, self.properties)

            def apply(action: Action, text: str) -> None:
                interpreter.run(action, text)

            execution = ScriptExecutor(dialect, planner, apply, self.variables)
            interpreter = Interpreter(self, execution, self.answers.append)
            self._interpreters[language] = execution, interpreter
        return self._interpreters[language]

    # -- effects of actions: see `lang.interpreter.Runtime` -----------------------------------------------------------

    def prepare_query(self, query: Query, properties: Mapping[str, Any]) -> None:
        del properties
        sink = self.catalog.sources.get(query.sink.name)
        if sink is not None and sink.derived:
            self.create_topic(sink)
        self.topics.make(query.sink.topic)

    def create_topic(self, source: SourceInfo) -> None:
        before = self.declared.get(source.topic)
        if before is None or before.name == source.name or before.name not in self.catalog.sources:
            self.declared[source.topic] = source
        self.topics.make(source.topic)

    def start_query(self, query: Query, start: None, replaces: str | None) -> None:
        del start
        replaced = self.running.pop(replaces, None) if replaces else None
        stores = replaced.stores if replaced else None
        self.running[query.id] = InMemoryQuery(query, partial(self._report, query), stores, FIXED_NOW)

    def terminate_query(self, query: str) -> None:
        self.running.pop(query, None)

    def pause_query(self, query: str, *, paused: bool) -> None:
        self._feed(self.running[query], self.running[query].set_paused(paused))

    def kill_process(self, process: str) -> None:
        raise unknown_process(process)

    def delete_topic(self, topic: str) -> None:
        self.topics.drop(topic)

    def now(self) -> int:
        return self.time

    def write(self, source: SourceInfo, events: Sequence[Event], statement: str) -> None:
        del statement
        for time, key, value in events:
            self._append(source.topic, encode_row(source, time, key, value), STATEMENT_ORIGIN)

    def wait_until_idle(self) -> None:
        """A live world has processed every record at once."""

    def source_of_topic(self, topic: str, catalog: Catalog) -> SourceInfo | None:
        del catalog
        return self.declared.get(topic)

    def records(self, topic: str, source: SourceInfo | None) -> Iterable[RawRecord]:
        del source
        if topic not in self.topics:
            names = ", ".join(sorted(self.topics)) or "none"
            raise UnknownTopic(
                f'topic "{topic}" does not exist', fix=suggestion(topic, self.topics, f"topics: {names}")
            )
        return map(raw_record, self.topics[topic])

    def describe_context(self, execution: ScriptExecutor) -> DescribeContext:
        # Effectively one partition; the declared number is shown, as it would be in a log.
        declared = {s.topic: s.partitions for s in self.catalog.sources.values() if s.partitions}
        partitions = {**declared, **self.catalog.partitions}
        return DescribeContext(
            self.catalog,
            {t: TopicStatistics(partitions.get(t, 1), records=len(self.topics[t])) for t in self.topics},
            frozenset(name for name, running in self.running.items() if running.paused),
            execution.dialect.default_properties,
            execution.planner.properties,
            self.variables,
        )

    # -- records ----------------------------------------------------------------------------------------------------

    def produce(
        self, topic: str, key: bytes | None, value: bytes | None, timestamp: int = 0, headers: Headers = ()
    ) -> None:
        """Append a record from outside."""
        self._append(topic, RawRecord(key, value, timestamp, headers), INPUT_ORIGIN)

    def drain(self) -> None:
        """Run all queries over the existing records, one after another. A live world has nothing left to do."""
        if self.live:
            return
        input_topics = {entry.topic for entry in self.topics.entries if entry.origin == INPUT_ORIGIN}
        for running in list(self.running.values()):
            self._feed(
                running, (e for e in self.topics.entries if e.origin == INPUT_ORIGIN and e.topic in running.topics)
            )
            for topic in running.topics:
                if topic not in input_topics:
                    self._feed(running, self.topics[topic])

    def tick(self, now: int) -> None:
        """Advance time without records."""
        for running in list(self.running.values()):
            self._collect(running, running.tick(now))

    def _feed(self, running: InMemoryQuery, entries: Iterable[MemoryRecord]) -> None:
        for entry in list(entries):
            self._collect(running, running.feed(entry))

    def _collect(self, running: InMemoryQuery, records: Iterable[RawRecord]) -> None:
        for record in records:
            self._append(running.query.sink.topic, record, running.query.id)

    def _append(self, topic: str, record: RawRecord, origin: str) -> None:
        entry = self.topics.append(topic, record.key, record.value, record.time, record.headers, origin)
        if self.live:
            for running in list(self.running.values()):
                if topic in running.topics:
                    self._feed(running, [entry])

    def _report(self, query: Query, problem: Problem) -> None:
        self.problems.append(problem)
        fail_if_configured(problem, query)
