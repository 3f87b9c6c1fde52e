"""What the actions of statements do to a log and to the queries on it: topics are made, queries enlisted, ended.

Rows are only made here: who writes them knows how often a statement may be read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import pyarrow as pa

from headrace.clock import Clock
from headrace.contracts import Log, TopicSpec
from headrace.control.questions import OFFSET_RESET
from headrace.control.rows import rows_for
from headrace.control.sinks import sink_spec
from headrace.control.supervisor import Supervisor
from headrace.engine.ground import Position, ground_of
from headrace.engine.query import topics_of
from headrace.errors import BadProperty, UnknownTopic
from headrace.log.topics import ensure_topic
from headrace.plan.catalog import Control, Create, Delete, Drop, Insert, Write
from headrace.plan.nodes import Query
from headrace.settings import Settings


class Deeds:
    """`properties` are those that count for the statement that is being done."""

    def __init__(
        self,
        log: Log,
        settings: Settings,
        supervisor: Supervisor,
        clock: Clock,
        properties: Callable[[], Mapping[str, Any]],
    ) -> None:
        self._log = log
        self._settings = settings
        self._supervisor = supervisor
        self._clock = clock
        self._properties = properties

    # -- sources and queries ----------------------------------------------------------------------------------------

    def create(self, action: Create) -> None:
        if action.query is None:
            ensure_topic(self._log, action.source.topic, TopicSpec(partitions=action.source.partitions or 1))
            return
        if action.replaces in self._supervisor.queries:
            self._supervisor.hand_over(action.replaces, action.query.id)
        self._enlist(action.query)

    def insert(self, action: Insert) -> None:
        self._enlist(action.query)

    def _enlist(self, query: Query) -> None:
        for topic in topics_of(query):
            ensure_topic(self._log, topic)
        ensure_topic(self._log, query.sink.topic, sink_spec(query.sink, self._settings))
        self._supervisor.enlist(query, self._start_of(query))

    def _start_of(self, query: Query) -> Position | None:
        """SET 'auto.offset.reset' = 'latest' counts from where the statement stands."""
        properties = self._properties()
        given = properties.get(OFFSET_RESET, properties.get(f"ksql.streams.{OFFSET_RESET}", "earliest"))
        if str(given).lower() not in ("earliest", "latest"):
            raise BadProperty(f"{OFFSET_RESET} cannot be '{given}'", fix="write 'earliest' or 'latest'")
        if str(given).lower() == "earliest":
            return None
        return ground_of(self._log, self._settings).end(topics_of(query))

    def control(self, action: Control) -> None:
        for query in action.queries:
            if action.verb == "TERMINATE":
                self._supervisor.end(query)
            else:
                self._supervisor.pause(query, paused=action.verb == "PAUSE")

    def drop(self, action: Drop) -> None:
        for query in action.ends:
            self._supervisor.end(query)
        if action.delete_topic:
            with suppress(UnknownTopic):
                self._log.delete_topic(action.source.topic)

    # -- rows -------------------------------------------------------------------------------------------------------

    def rows(self, action: Write | Delete) -> pa.RecordBatch:
        """What INSERT VALUES or DELETE is to write into the source's topic."""
        now = self._clock.now()
        if isinstance(action, Write):
            events = [(now if action.timestamp is None else action.timestamp, action.key, action.value)]
        else:
            events = [(now, key, None) for key in action.keys]
        return rows_for(self._log.topic(action.source.topic), action.source, events)
