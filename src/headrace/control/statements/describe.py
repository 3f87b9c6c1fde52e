"""Executes LIST, DESCRIBE, EXPLAIN, PRINT and ASSERT from the catalog and the log."""

from __future__ import annotations

from collections import Counter
from itertools import islice

from headrace.access.authorization import ALL_RIGHTS, Rights
from headrace.access.grants import Privilege
from headrace.access.grants import topic_resource as topic_named
from headrace.contracts import Log
from headrace.control.serving.print_topic import read_all_records, source_of_topic
from headrace.control.statements.permissions import visible_catalog
from headrace.lang.ksql.ast import AssertTopic
from headrace.lang.ksql.describe.assertions import check_record, check_source, check_topic
from headrace.lang.ksql.describe.context import DescribeContext, TopicStatistics
from headrace.lang.ksql.describe.listing import Listing
from headrace.lang.ksql.describe.lists import describe_metadata
from headrace.lang.ksql.describe.print_topic import print_records
from headrace.lang.ksql.scripts.executor import ScriptExecutor
from headrace.lang.ksql.statements.metadata import DEFAULT_PROPERTIES
from headrace.plan.catalog import ExpectRecord, ExpectSource, MetadataKind, MetadataQuery

OFFSET_RESET = "auto.offset.reset"


class DescribeExecutor:
    """Executes them for one program or one principal, limited to what `rights` allow."""

    def __init__(self, log: Log, execution: ScriptExecutor, rights: Rights = ALL_RIGHTS) -> None:
        self._log = log
        self._execution = execution
        self._rights = rights
        self._asserted: Counter[str] = Counter()
        """Records of each topic that ASSERT VALUES has already checked."""
        self.held = 0
        """Number of ASSERTs that passed."""

    def answer(self, action: MetadataQuery, paused: frozenset[str]) -> Listing:
        return (
            self._printed(action)
            if action.about is MetadataKind.TOPIC
            else describe_metadata(action, self._surroundings(paused))
        )

    def _printed(self, action: MetadataQuery) -> Listing:
        """All current records, with or without FROM BEGINNING: a script does not wait for more."""
        source = source_of_topic(self._execution.planner.catalog, action.name)
        return print_records(action, read_all_records(self._log, action.name, source), source)

    def _surroundings(self, paused: frozenset[str]) -> DescribeContext:
        planner = self._execution.planner
        topics = [topic for topic in self._log.topics() if self._rights.may(Privilege.READ, topic_named(topic.name))]
        return DescribeContext(
            visible_catalog(planner.catalog, self._rights),
            {topic.name: TopicStatistics(topic.partitions, records=self._count(topic.name)) for topic in topics},
            paused,
            {**DEFAULT_PROPERTIES, OFFSET_RESET: "earliest"},
            planner.properties,
            self._execution.variables,
        )

    def expect(self, action: ExpectRecord) -> None:
        """ASSERT VALUES: check the next record of the topic."""
        topic = action.source.topic
        found = islice(read_all_records(self._log, topic, action.source), self._asserted[topic], None)
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
