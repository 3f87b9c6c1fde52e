"""A whole small world in memory: a log, a catalog, and queries that run as chains. Statements go in, records come out.

    world = World()
    world.execute("CREATE STREAM clicks (id INT KEY, page STRING) WITH (kafka_topic='clicks', format='JSON'); ...")
    world.produce("clicks", b"1", b'{"PAGE": "/"}', timestamp=10)
    world.topics["COUNTS"]

A *live* world passes every record through all queries at once, in the order in which they were created, and what they
write through those that read it. A query sees what is written after it was created. Otherwise nothing moves until
`drain`, and then the queries run one after another, as in ksqlDB's own tests: each gets all inputs of its topics in the
order they were produced, then, from topics without inputs, what statements and earlier queries wrote there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from headrace.errors import UnknownTopic, Unsupported
from headrace.lang.ksql.ast import AssertSchema, AssertTopic
from headrace.lang.ksql.execution import Execution
from headrace.lang.ksql.planner import Planner
from headrace.lang.ksql.questions import DEFAULTS
from headrace.plan import catalog as actions
from headrace.plan.answers.asserts import check_record, check_source, check_topic
from headrace.plan.answers.listing import Listing
from headrace.plan.answers.lists import answered
from headrace.plan.answers.printing import printed
from headrace.plan.answers.surroundings import Surroundings, TopicFacts
from headrace.plan.catalog import About, Action, Catalog, SourceInfo
from headrace.plan.chain.contract import Problem
from headrace.plan.chain.hand import encoded
from headrace.plan.chain.records import Headers, Raw
from headrace.plan.chain.strict import check
from headrace.plan.nodes import Query
from headrace.testing.running import Running, Stores, raw
from headrace.testing.topics import INPUT, Entry, Topics

TODAY = 1_767_225_600_000
"""What time it is for functions that ask, such as UNIX_TIMESTAMP: always the first of January 2026 in UTC, so that
tests can say what they expect."""
STATEMENT = "statement"
"""The origin of what INSERT VALUES and DELETE wrote."""


class World:
    def __init__(self, properties: Mapping[str, Any] | None = None, *, live: bool = True, now: int = 0) -> None:
        self.catalog = Catalog()
        self.planner = Planner(self.catalog, dict(properties or {}))
        self.properties = dict(properties or {})
        self.variables: dict[str, str] = {}
        self.live = live
        self.now = now
        """The time of a row whose statement names none."""
        self.topics = Topics()
        self.running: dict[str, Running] = {}
        self.problems: list[Problem] = []
        self.declared: dict[str, SourceInfo] = {}
        """The first source over each topic, kept when it is dropped: how its records are read."""
        self.held = 0
        """How many ASSERTs were true."""
        self.answers: list[Listing] = []
        """Of LIST, DESCRIBE, EXPLAIN and PRINT, in the order they were asked."""
        self._asserted: dict[str, int] = {}
        self._execution = Execution(self.planner, self.apply, self.variables)
        self._deeds: dict[type, Callable[[Any], None]] = {
            actions.Create: self._create,
            actions.Insert: self._insert,
            actions.Write: self._write,
            actions.Delete: self._delete,
            actions.Control: self._control,
            actions.Drop: self._drop,
            actions.Expect: self._expect,
            actions.ExpectSource: self._expect_source,
            actions.Ask: self._ask,
            actions.Answer: self._answer,
            actions.Done: self._done,
        }

    # -- statements -------------------------------------------------------------------------------------------------

    def execute(self, statements: str, name: str | None = None) -> list[Action]:
        """Plan and do one statement after another. The first error stops it; those before it stay done.

        `name` is the script's file: it stands in errors, and RUN SCRIPT looks beside it.
        """
        return self._execution.run(statements, name)

    def apply(self, action: Action, text: str = "") -> None:
        """Do what a statement means."""
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
        self._append(action.source.topic, encoded(action.source, time, action.key, action.value), STATEMENT)

    def _delete(self, action: actions.Delete) -> None:
        for key in action.keys:
            self._append(action.source.topic, encoded(action.source, self.now, key, None), STATEMENT)

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

    def _expect(self, action: actions.Expect) -> None:
        topic = action.source.topic
        place = self._asserted.get(topic, 0)
        records = self.topics[topic]
        check_record(action, raw(records[place]) if place < len(records) else None)
        self._asserted[topic] = place + 1
        self.held += 1

    def _expect_source(self, action: actions.ExpectSource) -> None:
        check_source(action, self.catalog.sources.get(action.name))
        self.held += 1

    def _ask(self, action: actions.Ask) -> None:
        raise Unsupported(
            "a query that answers somebody has no place in a test in memory",
            fix="create a table with it and look at the table's records",
        )

    def _answer(self, action: actions.Answer) -> None:
        self.answers.append(
            self._printed(action) if action.about is About.TOPIC else answered(action, self._surroundings())
        )

    def _printed(self, action: actions.Answer) -> Listing:
        """The records so far, with or without FROM BEGINNING: nobody waits here for more."""
        topic = action.name
        if topic not in self.topics:
            known = ", ".join(sorted(self.topics)) or "none"
            raise UnknownTopic(f'topic "{topic}" does not exist', fix=f"topics: {known}")
        return printed(action, map(raw, self.topics[topic]), self.declared.get(topic))

    def _surroundings(self) -> Surroundings:
        # One partition in effect; what was asked for is shown, as it will be in a log.
        made = {s.topic: s.partitions for s in self.catalog.sources.values() if s.partitions}
        partitions = {**made, **self.catalog.partitions}
        return Surroundings(
            self.catalog,
            {t: TopicFacts(partitions.get(t, 1), records=len(self.topics[t])) for t in self.topics},
            frozenset(name for name, running in self.running.items() if running.paused),
            DEFAULTS,
            self.planner.properties,
            self.variables,
        )

    def _done(self, action: actions.Done) -> None:
        """The catalog has changed already; what is left are ASSERTs about the surroundings."""
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
        self.running[query.id] = Running(query, partial(self._report, query), stores, TODAY)

    # -- records ----------------------------------------------------------------------------------------------------

    def produce(
        self, topic: str, key: bytes | None, value: bytes | None, timestamp: int = 0, headers: Headers = ()
    ) -> None:
        """A record from outside."""
        self._append(topic, Raw(key, value, timestamp, headers), INPUT)

    def drain(self) -> None:
        """Run all queries over what is there, one after another. A live world has nothing left to do."""
        if self.live:
            return
        given = {entry.topic for entry in self.topics.entries if entry.origin == INPUT}
        for running in list(self.running.values()):
            self._feed(running, (e for e in self.topics.entries if e.origin == INPUT and e.topic in running.topics))
            for topic in running.topics:
                if topic not in given:
                    self._feed(running, self.topics[topic])

    def tick(self, now: int) -> None:
        """Time passes without records."""
        for running in list(self.running.values()):
            self._collect(running, running.tick(now))

    def _feed(self, running: Running, entries: Iterable[Entry]) -> None:
        for entry in list(entries):
            self._collect(running, running.feed(entry))

    def _collect(self, running: Running, written: Iterable[Raw]) -> None:
        for record in written:
            self._append(running.query.sink.topic, record, running.query.id)

    def _append(self, topic: str, record: Raw, origin: str) -> None:
        entry = self.topics.append(topic, record.key, record.value, record.time, record.headers, origin)
        if self.live:
            for running in list(self.running.values()):
                if topic in running.topics:
                    self._feed(running, [entry])

    def _report(self, query: Query, problem: Problem) -> None:
        self.problems.append(problem)
        check(problem, query)
