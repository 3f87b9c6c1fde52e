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
from headrace.plan.catalog import Action, Control, Create, Delete, Drop, Insert, Write
from headrace.plan.nodes import Query
from headrace.settings import Settings


class Deeds:
    """First `ready`, which may refuse; then the action is `done`, as often as its statement is read.

    `properties` are those that count for the statement that is being done.
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
        """Make the topics that an action needs; says where a query of its begins, None is the beginning."""
        query = action.query if isinstance(action, Create | Insert) else None
        if query is not None:
            for topic in topics_of(query):
                ensure_topic(self._log, topic)
            ensure_topic(self._log, query.sink.topic, sink_spec(query.sink, self._settings))
            return self._start_of(query)
        if isinstance(action, Create):
            ensure_topic(self._log, action.source.topic, TopicSpec(partitions=action.source.partitions or 1))
        return None

    def do(self, action: Action, start: Position | None = None) -> None:
        """What an action asks of the queries; those that ask nothing of them are left to others."""
        if (deed := self._done.get(type(action))) is not None:
            deed(action, start)

    def _start_of(self, query: Query) -> Position | None:
        """SET 'auto.offset.reset' = 'latest' counts from where the statement stands."""
        properties = self._properties()
        given = properties.get(OFFSET_RESET, properties.get(f"ksql.streams.{OFFSET_RESET}", "earliest"))
        if str(given).lower() not in ("earliest", "latest"):
            raise BadProperty(f"{OFFSET_RESET} cannot be '{given}'", fix="write 'earliest' or 'latest'")
        if str(given).lower() == "earliest":
            return None
        return ground_of(self._log, self._settings).end(topics_of(query))

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
        """What INSERT VALUES or DELETE is to write into the source's topic."""
        now = self._clock.now()
        if isinstance(action, Write):
            events = [(now if action.timestamp is None else action.timestamp, action.key, action.value)]
        else:
            events = [(now, key, None) for key in action.keys]
        return rows_for(self._log.topic(action.source.topic), action.source, events)
