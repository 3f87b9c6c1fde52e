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

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

from headrace.clock import Clock, SystemClock
from headrace.contracts import Log
from headrace.control.queries.supervisor import RegisteredQuery, Supervisor
from headrace.control.serving.row_codec import encode_rows
from headrace.control.statements.idempotent_inserts import IdempotentInserts
from headrace.control.statements.replay import empty_catalog
from headrace.control.statements.runtime import LogRuntime
from headrace.control.workers.handle import QueryHandle
from headrace.control.workers.isolation import Isolation, create_isolation
from headrace.errors import HeadraceError
from headrace.lang.executor import ScriptExecutor
from headrace.lang.interpreter import Interpreter
from headrace.lang.listing import Listing
from headrace.lang.registry import KSQL, dialect_of
from headrace.plan.actions import Action
from headrace.plan.serialization import Setup, no_setup
from headrace.plan.sources import SourceInfo
from headrace.plan.steps import Event
from headrace.settings import Settings

_POLL_SECONDS = 0.5  # seconds between checks of running queries
_IDLE_POLL_SECONDS = 0.05  # the same, with `until_idle`


class Program:
    def __init__(
        self,
        log: Log,
        settings: Settings,
        *,
        name: str = "program",
        language: str = KSQL,
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
        self._is_executed = False
        self._ended: dict[str, QueryHandle] = {}
        dialect = dialect_of(language)
        self._execution = ScriptExecutor(dialect, dialect.planner(self.catalog, properties), self._apply)
        runtime = _ScriptRuntime(log, settings, self._supervisor, clock, self.inserts, self._run_until_idle)
        self.interpreter = Interpreter(runtime, self._execution, on_answer)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def queries(self) -> dict[str, RegisteredQuery]:
        return self._supervisor.queries

    @property
    def running(self) -> dict[str, QueryHandle]:
        """The running queries by name; after `close` those that ran until then, with their final progress."""
        return self._supervisor.running or self._ended

    @property
    def failed(self) -> dict[str, HeadraceError]:
        """Queries that have failed while others still run; `wait` raises their errors in the end."""
        return self._supervisor.failed

    @property
    def paused(self) -> frozenset[str]:
        return self._supervisor.paused

    @property
    def orphaned_checkpoints(self) -> list[str]:
        """Checkpoints of earlier runs' queries that the script no longer contains; they are retained."""
        return self._supervisor.orphaned_checkpoints() if self._is_executed else []  # else it is not known yet

    # -- statements -------------------------------------------------------------------------------------------------

    def execute(self, text: str, script: str | None = None) -> list[Action]:
        """Apply statements in order, then start the queries. The first error stops execution."""
        try:
            applied = self._execution.run(text, script)
            self._is_executed = True
            self._start_queries()
            return applied
        except _Stopping:
            return []

    def _apply(self, action: Action, text: str) -> None:
        if self.stopping.is_set():
            raise _Stopping
        self.interpreter.run(action, text)

    def _run_until_idle(self) -> None:
        """Before an ASSERT: run all queries until they are idle."""
        for name in self.queries.keys() - self.running.keys():
            # The comparison must not depend on how the input was split into batches.
            self.queries[name].query = replace(self.queries[name].query, every_change=True)
        self._start_queries(script_is_complete=False)
        self.wait(until_idle=True)
        if self.stopping.is_set():
            raise _Stopping

    # -- running ----------------------------------------------------------------------------------------------------

    def start_spark(self) -> None:
        """Start Spark before the first query does, if queries share it: a caller can say that it takes a while."""
        self._supervisor.isolation.warm_up()

    def _start_queries(self, *, script_is_complete: bool = True) -> None:
        """Start registered queries that are neither running nor paused, once those that they replace have stopped."""
        self._supervisor.wait_until_stopped()
        for name, registered in self.queries.items():
            if name in self.running or registered.paused or self.stopping.is_set():
                continue
            if script_is_complete:
                self._supervisor.adopt_renumbered(registered.query)
            elif self._supervisor.was_replaced(registered.query):
                continue
            self._supervisor.start(name)

    def wait(self, *, until_idle: bool = False, on_poll: Callable[[], None] = lambda: None) -> None:
        """Wait until a query fails (raises its error), `stopping` is set or, with `until_idle`, all queries are idle.

        A query that lost its process is restarted from its checkpoint, a limited number of times. With a process per
        query, the others continue when one has failed, and its error is raised in the end.
        """
        while True:
            on_poll()
            self.restart_failed()
            if (until_idle and self.is_idle()) or self.stopping.wait(
                _IDLE_POLL_SECONDS if until_idle else _POLL_SECONDS
            ):
                break
        for failure in self.failed.values():
            raise failure

    def restart_failed(self) -> None:
        """Restart failed queries; raises the error of one that cannot be restarted if the others cannot continue."""
        for name, failure in self._supervisor.failures():
            try:
                self._supervisor.restart(name, failure)
            except HeadraceError as error:
                self._supervisor.mark_failed(name, error)
                if not self._supervisor.isolation.isolates_failures or self.failed.keys() >= self.running.keys():
                    raise

    def is_idle(self) -> bool:
        """Whether every query has processed all its input, including what other queries wrote."""
        return self._supervisor.is_idle()

    def wake(self) -> None:
        """Notify the ticker that a manual clock was moved."""
        self._supervisor.wake()

    def close(self) -> None:
        """Finish the current batches and stop."""
        self._ended |= self._supervisor.running
        self._supervisor.close()


class _Stopping(Exception):
    """Raised to leave `execute` when `stopping` is set."""


class _ScriptRuntime(LogRuntime):
    """A script may be executed again: its rows are written once, and its ASSERTs wait for the queries."""

    def __init__(
        self,
        log: Log,
        settings: Settings,
        supervisor: Supervisor,
        clock: Clock,
        inserts: IdempotentInserts,
        run_until_idle: Callable[[], None],
    ) -> None:
        super().__init__(log, settings, supervisor, clock)
        self._inserts = inserts
        self._run_until_idle = run_until_idle

    def write(self, source: SourceInfo, events: Sequence[Event], statement: str) -> None:
        rows = encode_rows(self._log.topic(source.topic), source, events)
        self._inserts.write(statement, source.topic, rows)

    def wait_until_idle(self) -> None:
        self._run_until_idle()
