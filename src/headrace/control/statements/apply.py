"""Applies the actions of statements: creates topics, and registers, pauses and terminates queries.

Rows of INSERT and DELETE are only encoded here. The caller writes them, since it knows how often a statement may be
executed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import pyarrow as pa

from headrace.clock import Clock
from headrace.contracts import Log, TopicSpec
from headrace.control.queries.supervisor import Supervisor
from headrace.control.statements.describe import OFFSET_RESET
from headrace.control.statements.row_codec import encode_rows
from headrace.control.statements.sink_topic import sink_topic_spec
from headrace.engine.io.log_adapter import Position, log_adapter_for
from headrace.engine.query import input_topics
from headrace.errors import BadProperty, UnknownTopic
from headrace.log.topic_spec import ensure_topic
from headrace.plan.catalog import Action, Control, Create, Delete, Drop, Insert, Write
from headrace.plan.nodes import Query
from headrace.settings import Settings


class StatementApplier:
    """Call `ready` first, which may raise; then `do`, each time the statement is executed.

    `properties` returns the properties of the current statement.
    """

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
        self._done: dict[type, Callable[[Any, Position | None], None]] = {
            Create: self._create,
            Insert: lambda action, start: supervisor.enlist(action.query, start),
            Control: self._control,
            Drop: self._drop,
        }

    # -- sources and queries ----------------------------------------------------------------------------------------

    def ready(self, action: Action) -> Position | None:
        """Create the topics that an action needs; returns where its query starts, None is the beginning."""
        query = action.query if isinstance(action, Create | Insert) else None
        if query is not None:
            for topic in input_topics(query):
                ensure_topic(self._log, topic)
            ensure_topic(self._log, query.sink.topic, sink_topic_spec(query.sink, self._settings))
            return self._start_of(query)
        if isinstance(action, Create):
            ensure_topic(self._log, action.source.topic, TopicSpec(partitions=action.source.partitions or 1))
        return None

    def do(self, action: Action, start: Position | None = None) -> None:
        """Apply an action to topics and queries; other actions are ignored here."""
        if (deed := self._done.get(type(action))) is not None:
            deed(action, start)

    def _start_of(self, query: Query) -> Position | None:
        """With 'auto.offset.reset' = 'latest', the end of the input topics at the time of the statement."""
        properties = self._properties()
        given = properties.get(OFFSET_RESET, properties.get(f"ksql.streams.{OFFSET_RESET}", "earliest"))
        if str(given).lower() not in ("earliest", "latest"):
            raise BadProperty(f"{OFFSET_RESET} cannot be '{given}'", fix="write 'earliest' or 'latest'")
        if str(given).lower() == "earliest":
            return None
        return log_adapter_for(self._log, self._settings).end(input_topics(query))

    def _create(self, action: Create, start: Position | None) -> None:
        if action.query is None:
            return
        if action.replaces in self._supervisor.queries:
            self._supervisor.hand_over(action.replaces, action.query.id)
        self._supervisor.enlist(action.query, start)

    def _control(self, action: Control, start: Position | None) -> None:
        del start
        for query in action.queries:
            if action.verb == "TERMINATE":
                self._supervisor.end(query)
            else:
                self._supervisor.pause(query, paused=action.verb == "PAUSE")

    def _drop(self, action: Drop, start: Position | None) -> None:
        del start
        for query in action.ends:
            self._supervisor.end(query)
        if action.delete_topic:
            with suppress(UnknownTopic):
                self._log.delete_topic(action.source.topic)

    # -- rows -------------------------------------------------------------------------------------------------------

    def rows(self, action: Write | Delete) -> pa.RecordBatch:
        """The rows that INSERT VALUES or DELETE writes to the source's topic."""
        now = self._clock.now()
        if isinstance(action, Write):
            events = [(now if action.timestamp is None else action.timestamp, action.key, action.value)]
        else:
            events = [(now, key, None) for key in action.keys]
        return encode_rows(self._log.topic(action.source.topic), action.source, events)
