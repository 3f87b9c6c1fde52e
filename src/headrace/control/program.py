"""A script at work on a log: its topics are made, its rows written, its queries run on Spark until it is stopped.

    with Program(log, settings, name="orders") as program:
        program.execute(text)
        program.wait(until_idle=True)

Run again under the same name, a program goes on where it was: queries from their checkpoints, and a row that was
inserted by a statement is not inserted again, however often that statement is read.

A query begins when its script has been read to the end, or when an ASSERT wants to see results. So one that a later
statement ends, pauses or replaces does not run before it, in the first run as in those after it.
"""

from __future__ import annotations

import logging
import re
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from headrace.clock import Clock, SystemClock
from headrace.contracts import Log, TopicSpec
from headrace.control.hold import Hold
from headrace.control.inserts import Inserts
from headrace.control.isolation import Isolation, isolation_of
from headrace.control.questions import OFFSET_RESET, Questions
from headrace.control.remains import forgetting, renumbered
from headrace.control.rows import rows_for
from headrace.control.running import Running
from headrace.control.sinks import sink_spec
from headrace.control.ticks import Ticker
from headrace.engine.batch.shipping import Setup, no_setup
from headrace.engine.checkpoint import Checkpoint, checkpoints, sweep
from headrace.engine.ground import Position, ground_of
from headrace.engine.query import topics_of
from headrace.errors import BadProperty, HeadraceError, OutOfMemory, ProcessLost, UnknownTopic, Unsupported
from headrace.lang.ksql.ast import AssertSchema, AssertTopic
from headrace.lang.ksql.execution import Execution
from headrace.lang.ksql.planner import Planner
from headrace.log.embedded.store import translated
from headrace.log.topics import ensure_topic
from headrace.plan import catalog as actions
from headrace.plan.answers.listing import Listing
from headrace.plan.catalog import Action, Catalog, SourceInfo
from headrace.plan.chain.contract import Event
from headrace.plan.nodes import Query
from headrace.settings import Settings

_PAUSE = 0.5  # seconds between two looks at running queries
_SHORT_PAUSE = 0.05  # where somebody waits for their end
_AT_ONCE = 2  # queries that are being started
_TRIES = {ProcessLost: 5, OutOfMemory: 1}  # how often in a row a query that lost a process is started again
_logger = logging.getLogger(__name__)


@dataclass
class Enlisted:
    """A query that a statement made, and the position behind which it is to begin; None is the beginning."""

    query: Query
    start: Position | None = None
    paused: bool = False


class Program:
    def __init__(
        self,
        log: Log,
        settings: Settings,
        *,
        name: str = "program",
        properties: Mapping[str, Any] | None = None,
        clock: Clock | None = None,
        on_answer: Callable[[Listing], None] = lambda listing: None,
        setup: Setup = no_setup,
        isolation: Isolation | None = None,
    ) -> None:
        self.log = log
        self.settings = settings
        self.name = name
        self.folder = settings.data / "checkpoints" / name
        self._isolation = isolation or isolation_of(name, log, settings, setup)
        self._hold = Hold(self.folder, name)
        sweep(self.folder, forgetting(log))
        self.catalog = Catalog(partitions={topic.name: topic.partitions for topic in log.topics()})
        self.queries: dict[str, Enlisted] = {}
        self.running: dict[str, Running] = {}
        self.failed: dict[str, HeadraceError] = {}
        """Queries that have ended while others go on; their errors are raised when those are done."""
        self._tries: Counter[str] = Counter()
        self.stopping = threading.Event()
        """Set from anywhere, it ends what is being executed or waited for."""
        self.inserts = Inserts(log, name)
        self._clock = clock or SystemClock()
        self._ticker = Ticker(log, self._clock)
        self._text = ""
        self._was_read = False
        self._execution = Execution(Planner(self.catalog, properties), self._apply)
        self.questions = Questions(log, self._execution)
        self._on_answer = on_answer
        self._deeds: dict[type, Callable[[Any], None]] = {
            actions.Create: self._create,
            actions.Insert: lambda action: self._enlist(action.query),
            actions.Write: self._write,
            actions.Delete: self._delete,
            actions.Control: self._control,
            actions.Drop: self._drop,
            actions.Expect: self._expect,
            actions.ExpectSource: self.questions.expect_source,
            actions.Answer: lambda action: self._on_answer(self.questions.answer(action, self.paused)),
            actions.Ask: self._ask,
            actions.Done: self._done,
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def paused(self) -> frozenset[str]:
        return frozenset(name for name, enlisted in self.queries.items() if enlisted.paused)

    @property
    def left(self) -> list[str]:
        """Queries of earlier runs that no statement names any more; what they remember is kept."""
        if not self._was_read:
            return []  # nobody knows yet
        known = {self._folder(query).name for query in self.queries}
        return [there.folder.name for there in checkpoints(self.folder) if there.folder.name not in known]

    # -- statements -------------------------------------------------------------------------------------------------

    def execute(self, text: str, script: str | None = None) -> list[Action]:
        """Do one statement after another, then begin the queries. The first error stops it."""
        try:
            done = self._execution.run(text, script)
            self._was_read = True
            self._begin()
            return done
        except _Stopping:
            return []

    def _apply(self, action: Action, text: str) -> None:
        if self.stopping.is_set():
            raise _Stopping
        self._text = text
        self._deeds[type(action)](action)

    def _create(self, action: actions.Create) -> None:
        if action.query is None:
            ensure_topic(self.log, action.source.topic, TopicSpec(partitions=action.source.partitions or 1))
        else:
            if action.replaces in self.queries:
                self._hand_over(action.replaces, action.query.id)
            self._enlist(action.query)

    def _ask(self, action: actions.Ask) -> None:
        raise refused_question()

    def _done(self, action: actions.Done) -> None:
        """The catalog has changed already; what is left are ASSERTs about the surroundings."""
        if isinstance(action.statement, AssertTopic):
            self.questions.expect_topic(action.statement)
        elif isinstance(action.statement, AssertSchema):
            raise Unsupported("ASSERT SCHEMA is not done in a script", fix="look with `headrace schema list`")

    def _expect(self, action: actions.Expect) -> None:
        """A look at the topic once everything that leads there is done."""
        for name in self.queries.keys() - self.running.keys():
            # What is compared must not hang on how the input was cut into batches.
            self.queries[name].query = replace(self.queries[name].query, every_change=True)
        self._begin(at_the_end=False)
        self.wait(until_idle=True)
        if self.stopping.is_set():
            raise _Stopping
        self.questions.expect(action)

    # -- queries ----------------------------------------------------------------------------------------------------

    def _enlist(self, query: Query) -> None:
        for topic in topics_of(query):
            ensure_topic(self.log, topic)
        ensure_topic(self.log, query.sink.topic, sink_spec(query.sink, self.settings))
        self.queries[query.id] = Enlisted(query, self._start_of(query))

    def _start_of(self, query: Query) -> Position | None:
        """SET 'auto.offset.reset' = 'latest' counts from where the statement stands."""
        properties = self._execution.planner.properties
        given = properties.get(OFFSET_RESET, properties.get(f"ksql.streams.{OFFSET_RESET}", "earliest"))
        if str(given).lower() not in ("earliest", "latest"):
            raise BadProperty(f"{OFFSET_RESET} cannot be '{given}'", fix="write 'earliest' or 'latest'")
        if str(given).lower() == "earliest":
            return None
        return ground_of(self.log, self.settings).end(topics_of(query))

    def _begin(self, *, at_the_end: bool = True) -> None:
        """Start what is enlisted, does not run and is not paused."""
        for name, enlisted in self.queries.items():
            if name in self.running or enlisted.paused or self.stopping.is_set():
                continue
            if at_the_end:
                self._find(enlisted.query)
            elif self._was_another(enlisted.query):
                continue
            self._await_turn()
            self._start(enlisted)

    def _await_turn(self) -> None:
        """Few at a time: Spark gives up a process of Python's that is not there within 10 s, however busy it is."""
        while sum(running.is_starting for running in self.running.values()) >= _AT_ONCE:
            if self.stopping.wait(_SHORT_PAUSE):
                return

    def _was_another(self, query: Query) -> bool:
        """In a run before, a later statement has replaced the query: it must not touch that one's state."""
        there = Checkpoint(self._folder(query.id)).manifest
        return there is not None and there.text != query.text

    def _find(self, query: Query) -> None:
        """A statement that stands at another place now goes on from where it was."""
        folder, known = self._folder(query.id), {self._folder(name).name for name in self.queries}
        if not folder.exists() and (there := renumbered(self.folder, query, known)) is not None:
            with translated(self.folder):
                there.folder.rename(folder)

    def _start(self, enlisted: Enlisted) -> None:
        """A process that is lost on the way, or not there in time, is as one that is lost later."""
        name, folder = enlisted.query.id, self._folder(enlisted.query.id)
        while not self.stopping.is_set():
            try:
                with translated(self.folder):
                    running = self._isolation.start(enlisted.query, folder, enlisted.start, self._ticker.watch)
            except ProcessLost as lost:
                self._count_try(name, lost)
            else:
                self.running[name] = running
                self._ticker.begin(running)
                return

    def _count_try(self, query: str, lost: ProcessLost) -> None:
        """Raises the error if it is not worth another one."""
        self._tries[query] += 1
        if self._tries[query] > _TRIES[type(lost)]:
            raise lost
        _logger.warning("query %s is started again: %s", query, lost.what)

    def start_spark(self) -> None:
        """What the first query would start too, where queries share it; somebody may want to say that it takes long."""
        self._isolation.warm_up()

    def _folder(self, query: str) -> Path:
        return self.folder / re.sub(r"[^A-Za-z0-9._-]", "-", query)

    def _halt(self, query: str) -> None:
        self._ticker.forget(query)
        self.failed.pop(query, None)
        if (running := self.running.pop(query, None)) is not None:
            running.stop()

    def _hand_over(self, old: str, new: str) -> None:
        """The new query goes on from the old one's checkpoint, and as the same writer; `start` sees if it fits."""
        self._halt(old)
        del self.queries[old]
        before, after = self._folder(old), self._folder(new)
        if before != after and before.exists() and not after.exists():
            with translated(self.folder):
                before.rename(after)

    def _end(self, query: str) -> None:
        """For good: a query of the same name would begin anew."""
        self._halt(query)
        self.queries.pop(query, None)
        with translated(self.folder):
            Checkpoint(self._folder(query)).remove(forgetting(self.log))

    def _control(self, action: actions.Control) -> None:
        for query in action.queries:
            if action.verb == "TERMINATE":
                self._end(query)
                continue
            self.queries[query].paused = action.verb == "PAUSE"
            if self.queries[query].paused:
                self._halt(query)

    def _drop(self, action: actions.Drop) -> None:
        for query in action.ends:
            self._end(query)
        if action.delete_topic:
            with suppress(UnknownTopic):
                self.log.delete_topic(action.source.topic)

    # -- rows -------------------------------------------------------------------------------------------------------

    def _write(self, action: actions.Write) -> None:
        time = self._clock.now() if action.timestamp is None else action.timestamp
        self._insert(action.source, [(time, action.key, action.value)])

    def _delete(self, action: actions.Delete) -> None:
        now = self._clock.now()
        self._insert(action.source, [(now, key, None) for key in action.keys])

    def _insert(self, source: SourceInfo, events: Sequence[Event]) -> None:
        self.inserts.write(self._text, source.topic, rows_for(self.log.topic(source.topic), source, events))

    # -- running ----------------------------------------------------------------------------------------------------

    def wait(self, *, until_idle: bool = False, on_look: Callable[[], None] = lambda: None) -> None:
        """Wait until a query fails (its error is raised), `stopping` is set or, if asked for, nothing is left to do.

        A query that lost a process is started again from its checkpoint, a few times. Where each has a process of its
        own, the others go on when one has failed, and its error is raised in the end.
        """
        while True:
            on_look()
            self.revive()
            if (until_idle and self.is_idle()) or self.stopping.wait(_SHORT_PAUSE if until_idle else _PAUSE):
                break
        for failure in self.failed.values():
            raise failure

    def revive(self) -> None:
        """Look after queries that have failed; raises the error of one that the others cannot go on without."""
        for name, running in list(self.running.items()):
            failure = None if name in self.failed else running.failure()
            if failure is None:
                continue
            try:
                self._revive(name, running, failure)
            except HeadraceError as error:
                _logger.warning("query %s has failed: %s", name, error)
                self._ticker.forget(name)
                self.failed[name] = error
                if not self._isolation.apart or self.failed.keys() >= self.running.keys():
                    raise

    def _revive(self, name: str, running: Running, failure: HeadraceError) -> None:
        if not isinstance(failure, ProcessLost) or (isinstance(failure, OutOfMemory) and not self._isolation.apart):
            raise failure  # all share one memory, which is gone
        if running.progress.batches:
            del self._tries[name]  # what counts is how often in a row
        self._count_try(name, failure)
        running.stop()
        self._ticker.forget(name)
        self._await_turn()
        self._start(self.queries[name])

    def is_idle(self) -> bool:
        """Whether every query has done all there is to read, what other queries wrote included."""
        queries = [running for name, running in self.running.items() if name not in self.failed]
        before = [running.progress.batches for running in queries]
        if any(running.waiting() for running in queries):
            return False
        # Who ended a batch meanwhile may have written what another, that was looked at before, has yet to read.
        return before == [running.progress.batches for running in queries]

    def wake(self) -> None:
        """The clock was moved by hand."""
        self._ticker.wake()

    def close(self) -> None:
        """Let the batches under way end, query after query, and stop."""
        self._ticker.close()
        queries = list(self.running.values())
        for running in queries:
            running.drain()
        if queries:
            with ThreadPoolExecutor(len(queries)) as pool:  # each may take a second to notice
                list(pool.map(lambda running: running.stop(), queries))
        self._hold.close()


class _Stopping(Exception):
    """Nothing more is to be done."""


def refused_question() -> Unsupported:
    """Of a SELECT in a script that is run."""
    return Unsupported(
        "a query that answers somebody has no place in a script that is run",
        fix="write CREATE STREAM ... AS or CREATE TABLE ... AS in front of it, and look with `headrace consume`",
    )
