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

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from headrace.errors import UnknownTopic, Unsupported
from headrace.lang.ksql.ast import AssertSchema, AssertTopic
from headrace.lang.ksql.describe.assertions import check_record, check_source, check_topic
from headrace.lang.ksql.describe.context import DescribeContext, TopicStatistics
from headrace.lang.ksql.describe.listing import Listing
from headrace.lang.ksql.describe.lists import describe_metadata
from headrace.lang.ksql.describe.print_topic import print_records
from headrace.lang.ksql.scripts.executor import ScriptExecutor
from headrace.lang.ksql.statements.metadata import DEFAULT_PROPERTIES
from headrace.lang.ksql.statements.planner import Planner
from headrace.plan import catalog as actions
from headrace.plan.catalog import Action, Catalog, MetadataKind, SourceInfo
from headrace.plan.chain.contract import Problem
from headrace.plan.chain.fail_on_error import fail_if_configured
from headrace.plan.chain.records import Headers, RawRecord
from headrace.plan.chain.row_codec import encode_row
from headrace.plan.nodes import Query
from headrace.testing.memory_log import INPUT_ORIGIN, MemoryLog, MemoryRecord
from headrace.testing.memory_query import InMemoryQuery, Stores, raw_record

FIXED_NOW = 1_767_225_600_000
"""The current time for functions such as UNIX_TIMESTAMP: always 1 January 2026 in UTC, so that tests can state the
expected result."""
STATEMENT_ORIGIN = "statement"
"""The origin of records that INSERT VALUES and DELETE write."""


class World:
    def __init__(self, properties: Mapping[str, Any] | None = None, *, live: bool = True, now: int = 0) -> None:
        self.catalog = Catalog()
        self.planner = Planner(self.catalog, dict(properties or {}))
        self.properties = dict(properties or {})
        self.variables: dict[str, str] = {}
        self.live = live
        self.now = now
        """The timestamp of rows whose statement gives none."""
        self.topics = MemoryLog()
        self.running: dict[str, InMemoryQuery] = {}
        self.problems: list[Problem] = []
        self.declared: dict[str, SourceInfo] = {}
        """The first source over each topic, which decodes its records; retained after it is dropped."""
        self.held = 0
        """Number of ASSERTs that passed."""
        self.answers: list[Listing] = []
        """Results of LIST, DESCRIBE, EXPLAIN and PRINT, in order of execution."""
        self._asserted: dict[str, int] = {}
        self._execution = ScriptExecutor(self.planner, self.apply, self.variables)
        self._deeds: dict[type, Callable[[Any], None]] = {
            actions.Create: self._create,
            actions.Insert: self._insert,
            actions.Write: self._write,
            actions.Delete: self._delete,
            actions.Control: self._control,
            actions.Drop: self._drop,
            actions.ExpectRecord: self._expect,
            actions.ExpectSource: self._expect_source,
            actions.TransientSelect: self._ask,
            actions.MetadataQuery: self._answer,
            actions.Done: self._done,
        }

    # -- statements -------------------------------------------------------------------------------------------------

    def execute(self, statements: str, name: str | None = None) -> list[Action]:
        """Plan and apply statements in order. The first error stops execution; earlier statements stay applied.

        `name` is the script's file: errors show it, and RUN SCRIPT resolves paths relative to it.
        """
        return self._execution.run(statements, name)

    def apply(self, action: Action, text: str = "") -> None:
        """Apply the action of a statement."""
        del text
        self._deeds[type(action)](action)

    def _create(self, action: actions.Create) -> None:
        self._know(action.source)
        ended = self.running.pop(action.replaces, None) if action.replaces else None
        if action.query is not None:
            self._start(action.query, ended.stores if ended else None)

    def _insert(self, action: actions.Insert) -> None:
        self._start(action.query)

    def _write(self, action: actions.Write) -> None:
        time = self.now if action.timestamp is None else action.timestamp
        self._append(action.source.topic, encode_row(action.source, time, action.key, action.value), STATEMENT_ORIGIN)

    def _delete(self, action: actions.Delete) -> None:
        for key in action.keys:
            self._append(action.source.topic, encode_row(action.source, self.now, key, None), STATEMENT_ORIGIN)

    def _control(self, action: actions.Control) -> None:
        for query in action.queries:
            if action.verb == "TERMINATE":
                self.running.pop(query, None)
            else:
                self._feed(self.running[query], self.running[query].held(action.verb == "PAUSE"))

    def _drop(self, action: actions.Drop) -> None:
        for query in action.ends:
            self.running.pop(query, None)
        if action.delete_topic:
            self.topics.drop(action.source.topic)

    def _expect(self, action: actions.ExpectRecord) -> None:
        topic = action.source.topic
        place = self._asserted.get(topic, 0)
        records = self.topics[topic]
        check_record(action, raw_record(records[place]) if place < len(records) else None)
        self._asserted[topic] = place + 1
        self.held += 1

    def _expect_source(self, action: actions.ExpectSource) -> None:
        check_source(action, self.catalog.sources.get(action.name))
        self.held += 1

    def _ask(self, action: actions.TransientSelect) -> None:
        raise Unsupported(
            "a query that answers somebody has no place in a test in memory",
            fix="create a table with it and look at the table's records",
        )

    def _answer(self, action: actions.MetadataQuery) -> None:
        self.answers.append(
            self._printed(action)
            if action.about is MetadataKind.TOPIC
            else describe_metadata(action, self._surroundings())
        )

    def _printed(self, action: actions.MetadataQuery) -> Listing:
        """All current records, with or without FROM BEGINNING: a test does not wait for more."""
        topic = action.name
        if topic not in self.topics:
            known = ", ".join(sorted(self.topics)) or "none"
            raise UnknownTopic(f'topic "{topic}" does not exist', fix=f"topics: {known}")
        return print_records(action, map(raw_record, self.topics[topic]), self.declared.get(topic))

    def _surroundings(self) -> DescribeContext:
        # Effectively one partition; the declared number is shown, as it would be in a log.
        made = {s.topic: s.partitions for s in self.catalog.sources.values() if s.partitions}
        partitions = {**made, **self.catalog.partitions}
        return DescribeContext(
            self.catalog,
            {t: TopicStatistics(partitions.get(t, 1), records=len(self.topics[t])) for t in self.topics},
            frozenset(name for name, running in self.running.items() if running.paused),
            DEFAULT_PROPERTIES,
            self.planner.properties,
            self.variables,
        )

    def _done(self, action: actions.Done) -> None:
        """The planner has already changed the catalog; ASSERT TOPIC and ASSERT SCHEMA remain."""
        if isinstance(action.statement, AssertSchema):
            raise Unsupported("there is no schema registry in memory", fix="leave ASSERT SCHEMA out of tests in memory")
        if isinstance(action.statement, AssertTopic):
            check_topic(action.statement.topic, self.topics.by_name, exists=action.statement.exists)
            self.held += 1

    def _know(self, source: SourceInfo) -> None:
        before = self.declared.get(source.topic)
        if before is None or before.name == source.name or before.name not in self.catalog.sources:
            self.declared[source.topic] = source
        self.topics.make(source.topic)

    def _start(self, query: Query, stores: Stores | None = None) -> None:
        self.topics.make(query.sink.topic)
        self.running[query.id] = InMemoryQuery(query, partial(self._report, query), stores, FIXED_NOW)

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
        given = {entry.topic for entry in self.topics.entries if entry.origin == INPUT_ORIGIN}
        for running in list(self.running.values()):
            self._feed(
                running, (e for e in self.topics.entries if e.origin == INPUT_ORIGIN and e.topic in running.topics)
            )
            for topic in running.topics:
                if topic not in given:
                    self._feed(running, self.topics[topic])

    def tick(self, now: int) -> None:
        """Advance time without records."""
        for running in list(self.running.values()):
            self._collect(running, running.tick(now))

    def _feed(self, running: InMemoryQuery, entries: Iterable[MemoryRecord]) -> None:
        for entry in list(entries):
            self._collect(running, running.feed(entry))

    def _collect(self, running: InMemoryQuery, written: Iterable[RawRecord]) -> None:
        for record in written:
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
