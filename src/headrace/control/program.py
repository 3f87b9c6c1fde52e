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

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Self

from headrace.clock import Clock, SystemClock
from headrace.contracts import Log
from headrace.control.deeds import Deeds
from headrace.control.inserts import Inserts
from headrace.control.isolation import Isolation, isolation_of
from headrace.control.questions import Questions
from headrace.control.replay import empty_catalog
from headrace.control.running import Running
from headrace.control.supervisor import Enlisted, Supervisor
from headrace.engine.batch.shipping import Setup, no_setup
from headrace.errors import HeadraceError, Unsupported
from headrace.lang.ksql.ast import AssertSchema, AssertTopic
from headrace.lang.ksql.execution import Execution
from headrace.lang.ksql.planner import Planner
from headrace.plan import catalog as actions
from headrace.plan.answers.listing import Listing
from headrace.plan.catalog import Action
from headrace.settings import Settings

_PAUSE = 0.5  # seconds between two looks at running queries
_SHORT_PAUSE = 0.05  # where somebody waits for their end


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
        clock = clock or SystemClock()
        isolation = isolation or isolation_of(name, log, settings)
        self._supervisor = Supervisor(log, settings, name, isolation, clock, lambda query: setup)
        self.stopping = self._supervisor.stopping
        """Set from anywhere, it ends what is being executed or waited for."""
        self.catalog = empty_catalog(log)
        self.inserts = Inserts(log, name)
        self._text = ""
        self._was_read = False
        self._execution = Execution(Planner(self.catalog, properties), self._apply)
        self.questions = Questions(log, self._execution)
        self._on_answer = on_answer
        deeds = Deeds(log, settings, self._supervisor, clock, lambda: self._execution.planner.properties)
        self._deeds: dict[type, Callable[[Any], None]] = {
            actions.Create: lambda action: deeds.do(action, deeds.ready(action)),
            actions.Insert: lambda action: deeds.do(action, deeds.ready(action)),
            actions.Write: lambda action: self._write(action, deeds),
            actions.Delete: lambda action: self._write(action, deeds),
            actions.Control: deeds.do,
            actions.Drop: deeds.do,
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
    def queries(self) -> dict[str, Enlisted]:
        return self._supervisor.queries

    @property
    def running(self) -> dict[str, Running]:
        return self._supervisor.running

    @property
    def failed(self) -> dict[str, HeadraceError]:
        """Queries that have ended while others go on; their errors are raised when those are done."""
        return self._supervisor.failed

    @property
    def paused(self) -> frozenset[str]:
        return self._supervisor.paused

    @property
    def left(self) -> list[str]:
        """Queries of earlier runs that no statement names any more; what they remember is kept."""
        return self._supervisor.left() if self._was_read else []  # else nobody knows yet

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

    def _write(self, action: actions.Write | actions.Delete, deeds: Deeds) -> None:
        self.inserts.write(self._text, action.source.topic, deeds.rows(action))

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

    # -- running ----------------------------------------------------------------------------------------------------

    def start_spark(self) -> None:
        """What the first query would start too, where queries share it; somebody may want to say that it takes long."""
        self._supervisor.isolation.warm_up()

    def _begin(self, *, at_the_end: bool = True) -> None:
        """Start what is enlisted, does not run and is not paused."""
        for name, enlisted in self.queries.items():
            if name in self.running or enlisted.paused or self.stopping.is_set():
                continue
            if at_the_end:
                self._supervisor.take_up(enlisted.query)
            elif self._supervisor.was_another(enlisted.query):
                continue
            self._supervisor.start(name)

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
        for name, failure in self._supervisor.failures():
            try:
                self._supervisor.start_again(name, failure)
            except HeadraceError as error:
                self._supervisor.give_up(name, error)
                if not self._supervisor.isolation.apart or self.failed.keys() >= self.running.keys():
                    raise

    def is_idle(self) -> bool:
        """Whether every query has done all there is to read, what other queries wrote included."""
        return self._supervisor.is_idle()

    def wake(self) -> None:
        """The clock was moved by hand."""
        self._supervisor.wake()

    def close(self) -> None:
        """Let the batches under way end, query after query, and stop."""
        self._supervisor.close()


class _Stopping(Exception):
    """Nothing more is to be done."""


def refused_question() -> Unsupported:
    """Of a SELECT in a script that is run."""
    return Unsupported(
        "a query that answers somebody has no place in a script that is run",
        fix="write CREATE STREAM ... AS or CREATE TABLE ... AS in front of it, and look with `headrace consume`",
    )
