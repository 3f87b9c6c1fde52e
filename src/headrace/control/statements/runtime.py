"""Where the actions of statements take effect on a log: creates topics, writes rows, and runs queries (`Runtime`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from headrace.access.authorization import ALL_RIGHTS, Rights
from headrace.access.grants import Privilege, topic_resource
from headrace.clock import Clock
from headrace.contracts import Append, Log, TopicSpec
from headrace.control.queries.supervisor import Supervisor
from headrace.control.serving.print_topic import read_all_records, source_of_topic
from headrace.control.serving.processes import Processes
from headrace.control.serving.row_codec import encode_rows
from headrace.control.statements.permissions import visible_catalog
from headrace.control.statements.sink_topic import sink_topic_spec
from headrace.engine.log_adapter import Position, log_adapter_for
from headrace.engine.query import input_topics
from headrace.errors import BadProperty, UnknownTopic
from headrace.lang.contract import DescribeContext, TopicStatistics
from headrace.lang.executor import ScriptExecutor
from headrace.log.topic_spec import ensure_topic
from headrace.plan.catalog import Catalog
from headrace.plan.chain.records import RawRecord
from headrace.plan.nodes import Query
from headrace.plan.sources import SourceInfo
from headrace.plan.steps import Event
from headrace.settings import Settings

OFFSET_RESET = "auto.offset.reset"
OFFSET_RESET_DEFAULT = "earliest; of push queries latest"


class LogRuntime:
    """See `lang.interpreter.Runtime`. `rights` limit what metadata statements show; a script has no `processes`."""

    def __init__(
        self,
        log: Log,
        settings: Settings,
        supervisor: Supervisor,
        clock: Clock,
        rights: Rights = ALL_RIGHTS,
        processes: Processes | None = None,
    ) -> None:
        self._log = log
        self._settings = settings
        self._supervisor = supervisor
        self._clock = clock
        self._rights = rights
        self._processes = processes or Processes(clock)

    # -- queries ----------------------------------------------------------------------------------------------------

    def prepare_query(self, query: Query, properties: Mapping[str, Any]) -> Position | None:
        for topic in input_topics(query):
            ensure_topic(self._log, topic)
        ensure_topic(self._log, query.sink.topic, sink_topic_spec(query.sink, self._settings))
        return self._start_of(query, properties)

    def _start_of(self, query: Query, properties: Mapping[str, Any]) -> Position | None:
        """With 'auto.offset.reset' = 'latest', the end of the input topics at the time of the statement."""
        reset = properties.get(OFFSET_RESET, properties.get(f"ksql.streams.{OFFSET_RESET}", "earliest"))
        if str(reset).lower() not in ("earliest", "latest"):
            raise BadProperty(f"{OFFSET_RESET} cannot be '{reset}'", fix="write 'earliest' or 'latest'")
        if str(reset).lower() == "earliest":
            return None
        return log_adapter_for(self._log, self._settings).end_position(input_topics(query))

    def start_query(self, query: Query, start: Position | None, replaces: str | None) -> None:
        if replaces in self._supervisor.queries:
            self._supervisor.replace(replaces, query.id)
        self._supervisor.register(query, start)

    def terminate_query(self, query: str) -> None:
        self._supervisor.delete(query)

    def pause_query(self, query: str, *, paused: bool) -> None:
        self._supervisor.pause(query, paused=paused)

    def wait_until_idle(self) -> None:
        """A server compares no records."""

    def kill_process(self, process: str) -> None:
        self._processes.kill(process, self._rights)

    # -- topics and rows --------------------------------------------------------------------------------------------

    def create_topic(self, source: SourceInfo) -> None:
        ensure_topic(self._log, source.topic, TopicSpec(partitions=source.partitions or 1))

    def delete_topic(self, topic: str) -> None:
        with suppress(UnknownTopic):
            self._log.delete_topic(topic)

    def now(self) -> int:
        return self._clock.now()

    def write(self, source: SourceInfo, events: Sequence[Event], statement: str) -> None:
        del statement
        self._log.append([Append(source.topic, encode_rows(self._log.topic(source.topic), source, events))])

    # -- metadata ---------------------------------------------------------------------------------------------------

    def source_of_topic(self, topic: str, catalog: Catalog) -> SourceInfo | None:
        return source_of_topic(catalog, topic)

    def records(self, topic: str, source: SourceInfo | None) -> Iterable[RawRecord]:
        return read_all_records(self._log, topic, source)

    def describe_context(self, execution: ScriptExecutor) -> DescribeContext:
        planner = execution.planner
        topics = [topic for topic in self._log.topics() if self._rights.may(Privilege.READ, topic_resource(topic.name))]
        return DescribeContext(
            visible_catalog(planner.catalog, self._rights),
            {topic.name: TopicStatistics(topic.partitions, records=self._count(topic.name)) for topic in topics},
            self._supervisor.paused,
            {**execution.dialect.default_properties, OFFSET_RESET: OFFSET_RESET_DEFAULT},
            planner.properties,
            execution.variables,
            self._processes.statuses(self._rights),
        )

    def _count(self, topic: str) -> int:
        return sum(bounds.end - bounds.start for bounds in self._log.bounds(topic).values())
