"""Runs a script on a log: creates its topics, writes its rows, and runs its queries on Spark until stopped.

    with Program(log, settings, name="orders") as program:
        program.execute(text)
        program.wait(until_idle=True)

Run again under the same name, a program resumes: queries restart from their checkpoints, and a row that a statement
inserted is not inserted again, however often that statement is executed.

Queries start when the whole script has been executed, or when an ASSERT needs results. So a query that a later
statement terminates, pauses or replaces does not run before that statement, in the first run as in later ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Self

from headrace.clock import Clock, SystemClock
from headrace.contracts import Log
from headrace.control.queries.handle import QueryHandle
from headrace.control.queries.supervisor import RegisteredQuery, Supervisor
from headrace.control.statements.apply import StatementApplier
from headrace.control.statements.describe import DescribeExecutor
from headrace.control.statements.idempotent_inserts import IdempotentInserts
from headrace.control.statements.replay import empty_catalog
from headrace.control.workers.isolation import Isolation, create_isolation
from headrace.engine.planning.serialization import Setup, no_setup
from headrace.errors import HeadraceError, Unsupported
from headrace.lang.ksql.ast import AssertSchema, AssertTopic
from headrace.lang.ksql.describe.listing import Listing
from headrace.lang.ksql.scripts.executor import ScriptExecutor
from headrace.lang.ksql.statements.planner import Planner
from headrace.plan import catalog as actions
from headrace.plan.catalog import Action
from headrace.settings import Settings

_PAUSE = 0.5  # seconds between checks of running queries
_SHORT_PAUSE = 0.05  # the same, with `until_idle`


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
        isolation = isolation or create_isolation(name, log, settings)
        self._supervisor = Supervisor(log, settings, name, isolation, clock, lambda query: setup)
        self.stopping = self._supervisor.stopping
        """Any thread may set it, to stop `execute` and `wait`."""
        self.catalog = empty_catalog(log)
        self.inserts = IdempotentInserts(log, name)
        self._text = ""
        self._was_read = False
        self._execution = ScriptExecutor(Planner(self.catalog, properties), self._apply)
        self.questions = DescribeExecutor(log, self._execution)
        self._on_answer = on_answer
        deeds = StatementApplier(log, settings, self._supervisor, clock, lambda: self._execution.planner.properties)
        self._deeds: dict[type, Callable[[Any], None]] = {
            actions.Create: lambda action: deeds.do(action, deeds.ready(action)),
            actions.Insert: lambda action: deeds.do(action, deeds.ready(action)),
            actions.Write: lambda action: self._write(action, deeds),
            actions.Delete: lambda action: self._write(action, deeds),
            actions.Control: deeds.do,
            actions.Drop: deeds.do,
            actions.ExpectRecord: self._expect,
            actions.ExpectSource: self.questions.expect_source,
            actions.MetadataQuery: lambda action: self._on_answer(self.questions.answer(action, self.paused)),
            actions.TransientSelect: self._ask,
            actions.Done: self._done,
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def queries(self) -> dict[str, RegisteredQuery]:
        return self._supervisor.queries

    @property
    def running(self) -> dict[str, QueryHandle]:
        return self._supervisor.running

    @property
    def failed(self) -> dict[str, HeadraceError]:
        """Queries that have failed while others still run; `wait` raises their errors in the end."""
        return self._supervisor.failed

    @property
    def paused(self) -> frozenset[str]:
        return self._supervisor.paused

    @property
    def left(self) -> list[str]:
        """Checkpoints of earlier runs' queries that the script no longer contains; they are retained."""
        return self._supervisor.left() if self._was_read else []  # else it is not known yet

    # -- statements -------------------------------------------------------------------------------------------------

    def execute(self, text: str, script: str | None = None) -> list[Action]:
        """Apply statements in order, then start the queries. The first error stops execution."""
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

    def _write(self, action: actions.Write | actions.Delete, deeds: StatementApplier) -> None:
        self.inserts.write(self._text, action.source.topic, deeds.rows(action))

    def _ask(self, action: actions.TransientSelect) -> None:
        raise select_not_allowed()

    def _done(self, action: actions.Done) -> None:
        """The planner has already changed the catalog; ASSERT TOPIC and ASSERT SCHEMA remain."""
        if isinstance(action.statement, AssertTopic):
            self.questions.expect_topic(action.statement)
        elif isinstance(action.statement, AssertSchema):
            raise Unsupported("ASSERT SCHEMA is not done in a script", fix="look with `headrace schema list`")

    def _expect(self, action: actions.ExpectRecord) -> None:
        """Check the topic once all queries are idle."""
        for name in self.queries.keys() - self.running.keys():
            # The comparison must not depend on how the input was split into batches.
            self.queries[name].query = replace(self.queries[name].query, every_change=True)
        self._begin(at_the_end=False)
        self.wait(until_idle=True)
        if self.stopping.is_set():
            raise _Stopping
        self.questions.expect(action)

    # -- running ----------------------------------------------------------------------------------------------------

    def start_spark(self) -> None:
        """Start Spark before the first query does, if queries share it: a caller can say that it takes a while."""
        self._supervisor.isolation.warm_up()

    def _begin(self, *, at_the_end: bool = True) -> None:
        """Start registered queries that are neither running nor paused."""
        for name, enlisted in self.queries.items():
            if name in self.running or enlisted.paused or self.stopping.is_set():
                continue
            if at_the_end:
                self._supervisor.take_up(enlisted.query)
            elif self._supervisor.was_another(enlisted.query):
                continue
            self._supervisor.start(name)

    def wait(self, *, until_idle: bool = False, on_look: Callable[[], None] = lambda: None) -> None:
        """Wait until a query fails (raises its error), `stopping` is set or, with `until_idle`, all queries are idle.

        A query that lost its process is restarted from its checkpoint, a limited number of times. With a process per
        query, the others continue when one has failed, and its error is raised in the end.
        """
        while True:
            on_look()
            self.revive()
            if (until_idle and self.is_idle()) or self.stopping.wait(_SHORT_PAUSE if until_idle else _PAUSE):
                break
        for failure in self.failed.values():
            raise failure

    def revive(self) -> None:
        """Restart failed queries; raises the error of one that cannot be restarted if the others cannot continue."""
        for name, failure in self._supervisor.failures():
            try:
                self._supervisor.start_again(name, failure)
            except HeadraceError as error:
                self._supervisor.give_up(name, error)
                if not self._supervisor.isolation.apart or self.failed.keys() >= self.running.keys():
                    raise

    def is_idle(self) -> bool:
        """Whether every query has processed all its input, including what other queries wrote."""
        return self._supervisor.is_idle()

    def wake(self) -> None:
        """Notify the ticker that a manual clock was moved."""
        self._supervisor.wake()

    def close(self) -> None:
        """Finish the current batches, query by query, and stop."""
        self._supervisor.close()


class _Stopping(Exception):
    """Raised to leave `execute` when `stopping` is set."""


def select_not_allowed() -> Unsupported:
    """The error for a SELECT in a script."""
    return Unsupported(
        "a query that answers somebody has no place in a script that is run",
        fix="write CREATE STREAM ... AS or CREATE TABLE ... AS in front of it, and look with `headrace consume`",
    )
