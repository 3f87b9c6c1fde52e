"""What a script asks about its log: LIST, DESCRIBE, EXPLAIN, PRINT and ASSERT, answered from what is there."""

from __future__ import annotations

from collections import Counter
from itertools import islice

from headrace.access.decision import ALL, Rights
from headrace.access.grants import Deed
from headrace.access.grants import topic as topic_named
from headrace.contracts import Log
from headrace.control.permits import visible
from headrace.control.printing import records_in, source_over
from headrace.lang.ksql.ast import AssertTopic
from headrace.lang.ksql.execution import Execution
from headrace.lang.ksql.questions import DEFAULTS
from headrace.plan.answers.asserts import check_record, check_source, check_topic
from headrace.plan.answers.listing import Listing
from headrace.plan.answers.lists import answered
from headrace.plan.answers.printing import printed
from headrace.plan.answers.surroundings import Surroundings, TopicFacts
from headrace.plan.catalog import About, Answer, Expect, ExpectSource

OFFSET_RESET = "auto.offset.reset"


class Questions:
    """Asked by one program, or one person, who sees what `rights` allow."""

    def __init__(self, log: Log, execution: Execution, rights: Rights = ALL) -> None:
        self._log = log
        self._execution = execution
        self._rights = rights
        self._asserted: Counter[str] = Counter()
        """Records of each topic that ASSERT VALUES has been through."""
        self.held = 0
        """How many ASSERTs were true."""

    def answer(self, action: Answer, paused: frozenset[str]) -> Listing:
        return self._printed(action) if action.about is About.TOPIC else answered(action, self._surroundings(paused))

    def _printed(self, action: Answer) -> Listing:
        """The records so far, with or without FROM BEGINNING: a script does not wait for more."""
        source = source_over(self._execution.planner.catalog, action.name)
        return printed(action, records_in(self._log, action.name, source), source)

    def _surroundings(self, paused: frozenset[str]) -> Surroundings:
        planner = self._execution.planner
        topics = [topic for topic in self._log.topics() if self._rights.may(Deed.READ, topic_named(topic.name))]
        return Surroundings(
            visible(planner.catalog, self._rights),
            {topic.name: TopicFacts(topic.partitions, records=self._count(topic.name)) for topic in topics},
            paused,
            {**DEFAULTS, OFFSET_RESET: "earliest"},
            planner.properties,
            self._execution.variables,
        )

    def expect(self, action: Expect) -> None:
        """ASSERT VALUES: the next record of the topic."""
        topic = action.source.topic
        found = islice(records_in(self._log, topic, action.source), self._asserted[topic], None)
        check_record(action, next(found, None))
        self._asserted[topic] += 1
        self.held += 1

    def expect_source(self, action: ExpectSource) -> None:
        check_source(action, self._execution.planner.catalog.sources.get(action.name))
        self.held += 1

    def expect_topic(self, statement: AssertTopic) -> None:
        names = [topic.name for topic in self._log.topics()]
        check_topic(statement.topic, names, exists=statement.exists)
        self.held += 1

    def _count(self, topic: str) -> int:
        return sum(bounds.end - bounds.start for bounds in self._log.bounds(topic).values())
