"""A script at work on a log: its topics are made, its rows written, its queries run on Spark until it is stopped.

    with Program(log, settings, name="orders") as program:
        program.execute(text)
        program.wait(until_idle=True)

Run again under the same name, a program goes on where it was: queries from their checkpoints, and a row that was
inserted by a statement is not inserted again, however often that statement is read.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, Self

from headrace.clock import Clock, SystemClock
from headrace.contracts import Append, TopicSpec
from headrace.control.ticks import Ticker
from headrace.engine.query import RunningQuery, start
from headrace.engine.session import spark_session
from headrace.errors import TopicExists, Unsupported
from headrace.lang.ksql.execution import Execution
from headrace.lang.ksql.planner import Planner
from headrace.log.embedded import EmbeddedLog
from headrace.log.rows import from_records
from headrace.plan import catalog as actions
from headrace.plan.catalog import Action, Catalog, SourceInfo
from headrace.plan.chain.hand import encoded
from headrace.plan.chain.records import Raw
from headrace.plan.nodes import Query
from headrace.record import Record
from headrace.settings import Settings

_PAUSE = 0.05  # seconds between two looks at running queries


class Program:
    def __init__(
        self,
        log: EmbeddedLog,
        settings: Settings,
        *,
        name: str = "program",
        properties: Mapping[str, Any] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.log = log
        self.settings = settings
        self.name = name
        self.catalog = Catalog(partitions={topic.name: topic.partitions for topic in log.topics()})
        self.running: dict[str, RunningQuery] = {}
        self._clock = clock or SystemClock()
        self._ticker = Ticker(log, self._clock)
        self._written: Counter[str] = Counter()
        self._text = ""
        self._execution = Execution(Planner(self.catalog, properties), self._apply)
        self._deeds: dict[type, Callable[[Any], None]] = {
            actions.Create: self._create,
            actions.Insert: lambda action: self._start(action.query),
            actions.Write: self._write,
            actions.Delete: self._delete,
            actions.Control: self._control,
            actions.Drop: self._drop,
            actions.Done: lambda action: None,
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- statements -------------------------------------------------------------------------------------------------

    def execute(self, text: str, script: str | None = None) -> list[Action]:
        """Do one statement after another; the first error stops it."""
        return self._execution.run(text, script)

    def _apply(self, action: Action, text: str) -> None:
        self._text = text
        deed = self._deeds.get(type(action))
        if deed is None:
            raise Unsupported("this statement has no place in a program", fix="leave it out of the script")
        deed(action)

    def _create(self, action: actions.Create) -> None:
        self._ensure(action.source.topic, action.source.partitions)
        if action.replaces in self.running:
            self._end(action.replaces)
        if action.query is not None:
            self._start(action.query)

    def _ensure(self, topic: str, partitions: int | None) -> None:
        with suppress(TopicExists):
            self.log.create_topic(topic, TopicSpec(partitions=partitions or 1))

    def _start(self, query: Query) -> None:
        self._ensure(query.sink.topic, query.sink.partitions)
        spark = spark_session(self.settings, f"headrace {self.name}")
        self.running[query.id] = start(
            spark, self.log, query, self.settings, self._folder(query.id), self._ticker.watch
        )

    def _folder(self, query: str) -> Path:
        return self.settings.data / "checkpoints" / self.name / query

    def _end(self, query: str) -> None:
        self._ticker.forget(query)
        self.running.pop(query).stop()

    def _control(self, action: actions.Control) -> None:
        for query in action.queries:
            if action.verb == "TERMINATE":
                self._end(query)
            elif action.verb == "PAUSE":
                self.running[query].stop()
            else:
                self._start(self.running[query].query)

    def _drop(self, action: actions.Drop) -> None:
        for query in action.ends:
            self._end(query)
        if action.delete_topic:
            self.log.delete_topic(action.source.topic)

    # -- rows -------------------------------------------------------------------------------------------------------

    def _write(self, action: actions.Write) -> None:
        time = self._clock.now() if action.timestamp is None else action.timestamp
        self._once(action.source, [encoded(action.source, time, action.key, action.value)])

    def _delete(self, action: actions.Delete) -> None:
        now = self._clock.now()
        self._once(action.source, [encoded(action.source, now, key, None) for key in action.keys])

    def _once(self, source: SourceInfo, records: list[Raw]) -> None:
        """Rows of a statement, under its text and its number among equal ones."""
        self._written[self._text] += 1
        mark = sha256(f"{self._text}\n{self._written[self._text]}".encode()).hexdigest()[:32]
        writer = self.log.writer(f"program.{self.name}.{mark}")
        rows = from_records([Record(record.value, record.key, occurred_at=record.time) for record in records])
        writer.append(1, [Append(source.topic, rows)])
        writer.close()

    # -- running ----------------------------------------------------------------------------------------------------

    def wait(self, *, until_idle: bool = False, on_look: Callable[[], None] = lambda: None) -> None:
        """Wait until a query fails (its error is raised) or, if asked for, until nothing is left to do."""
        while True:
            on_look()
            for running in self.running.values():
                if (failure := running.failure()) is not None:
                    raise failure
            if until_idle and self.is_idle():
                return
            time.sleep(_PAUSE)

    def is_idle(self) -> bool:
        """Whether every query has done all there is to read."""
        return all(running.position >= self.log.head(running.topics) for running in self.running.values())

    def close(self) -> None:
        """Let the batches under way end, and stop."""
        self._ticker.close()
        for running in self.running.values():
            running.stop()
