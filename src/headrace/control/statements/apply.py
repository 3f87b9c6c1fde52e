"""Plans, journals and applies the statements of a server.

A statement is either journalled and applied, or it has no effect.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from typing import Any

from headrace.access.authorization import ALL_RIGHTS, Rights
from headrace.access.guard import Guard
from headrace.clock import Clock
from headrace.contracts import Log
from headrace.control.queries.reconciler import Reconciler
from headrace.control.queries.supervisor import Supervisor
from headrace.control.serving.prepared import ParameterizedPlan
from headrace.control.serving.print_topic import TopicPrinter, source_of_topic
from headrace.control.statements.inserts import RowInserter
from headrace.control.statements.journal import JournalEntry
from headrace.control.statements.permissions import Permissions, redact_errors, with_row_filters
from headrace.control.statements.runtime import LogRuntime
from headrace.control.statements.state import ServerState
from headrace.errors import (
    BadQuery,
    HeadraceError,
    TooManyStatements,
    UnknownTopic,
    Unsupported,
)
from headrace.lang.contract import MAX_STATEMENTS
from headrace.lang.executor import ScriptExecutor
from headrace.lang.interpreter import Interpreter
from headrace.lang.listing import Listing
from headrace.lang.registry import KSQL, dialect_of
from headrace.plan import actions
from headrace.plan.actions import Action, MetadataKind
from headrace.settings import Settings

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class StatementResult:
    """The result of a statement."""

    text: str
    action: Action
    entry: JournalEntry | None = None
    """The journal entry, if the statement was journalled."""
    answer: Listing | None = None


class StatementExecutor:
    """Executes statements, one script at a time. `on_applied` is called after each that changed the catalog."""

    def __init__(
        self,
        log: Log,
        settings: Settings,
        clock: Clock,
        guard: Guard,
        state: ServerState,
        supervisor: Supervisor,
        reconciler: Reconciler,
        lock: AbstractContextManager[object],
        on_applied: Callable[[], None],
    ) -> None:
        self.settings = settings
        self._log = log
        self._clock = clock
        self._guard = guard
        self._state = state
        self._supervisor = supervisor
        self._reconciler = reconciler
        self._lock = lock
        self._on_applied = on_applied

    def execute(
        self,
        text: str,
        properties: Mapping[str, Any] | None = None,
        variables: dict[str, str] | None = None,
        *,
        language: str = KSQL,
        rights: Rights = ALL_RIGHTS,
        on_done: Callable[[StatementResult], None] = lambda result: None,
    ) -> None:
        """Apply statements in order and report each to `on_done`; the first error stops, earlier ones stay applied."""
        dialect = dialect_of(language)
        if dialect.count(text) > MAX_STATEMENTS:
            what = f"the request has more than {MAX_STATEMENTS} statements"
            raise TooManyStatements(what, fix="split the request, or send rows with POST /inserts-stream")
        with self._lock, redact_errors(rights):
            self._state.catalog.numbered = self._state.journal.next
            kept = [self._state.catalog.copy()]

            def apply(action: Action, own_text: str) -> None:
                try:
                    permits().check(action)
                    result = self._apply(action, own_text, execution, rights)
                except BaseException:
                    self._state.catalog.restore(kept[0])
                    raise
                self._state.catalog.numbered = self._state.journal.next
                kept[0] = self._state.catalog.copy()
                on_done(result)

            def permits() -> Permissions:
                return Permissions(rights, kept[0], self._log)

            execution = ScriptExecutor(
                dialect,
                dialect.planner(self._state.catalog, properties),
                apply,
                {} if variables is None else variables,
                reads_files=False,
                before_planning=lambda statement: permits().check_named(statement),
            )
            execution.run(text)

    def plan_select(
        self,
        text: str,
        properties: Mapping[str, Any] | None = None,
        variables: dict[str, str] | None = None,
        *,
        rights: Rights = ALL_RIGHTS,
    ) -> actions.TransientSelect:
        """Plan a SELECT: `pull_queries` or `push_queries` executes it."""
        found = self.plan_transient_query(text, properties, variables, rights=rights)
        if isinstance(found, TopicPrinter):
            raise BadQuery("the statement is not a SELECT", fix="send PRINT to /query or /query-stream")
        return found

    def plan_transient_query(
        self,
        text: str,
        properties: Mapping[str, Any] | None = None,
        variables: dict[str, str] | None = None,
        *,
        rights: Rights = ALL_RIGHTS,
    ) -> actions.TransientSelect | TopicPrinter:
        """Plan a SELECT or a PRINT, limited to the rows that the principal may read."""
        found: list[Action] = []
        with self._lock, redact_errors(rights):
            self._state.catalog.numbered = self._state.journal.next
            dialect = dialect_of()
            planner = dialect.planner(self._state.catalog.copy(), properties)
            permits = Permissions(rights, self._state.catalog, self._log)
            ScriptExecutor(
                dialect,
                planner,
                lambda action, _: found.append(action),
                {} if variables is None else variables,
                reads_files=False,
                before_planning=permits.check_named,
            ).run(text)
        match found:
            case [actions.TransientSelect() as ask]:
                return with_row_filters(ask, rights, planner.catalog)
            case [actions.MetadataQuery(about=MetadataKind.TOPIC) as wanted]:
                permits.check(wanted)
                return TopicPrinter(self._log, wanted, source_of_topic(planner.catalog, wanted.name))
        raise BadQuery(
            "the text is not a single SELECT or PRINT", fix="send other statements to /ksql, and one query per request"
        )

    def plan_parameterized(self, text: str, values: Sequence[Any]) -> ParameterizedPlan | None:
        with self._lock:
            return dialect_of().plan_parameterized(text, values, self._state.catalog)

    def inserter(self, name: str, *, rights: Rights = ALL_RIGHTS) -> RowInserter:
        """An inserter of rows for a stream or table."""
        with self._lock, redact_errors(rights):
            inserter = RowInserter(self._log, self._state.catalog, name, self._clock)
            Permissions(rights, self._state.catalog, self._log).check(actions.InsertRow(inserter.source, (), ()))
            return inserter

    def _apply(self, action: Action, text: str, execution: ScriptExecutor, rights: Rights) -> StatementResult:
        answers: list[Listing] = []
        runtime = LogRuntime(self._log, self.settings, self._supervisor, self._clock, rights)
        interpreter = Interpreter(runtime, execution, answers.append)
        if action.journaled:
            _logger.info("statement by %s: %s", rights.principal.name, " ".join(text.split()))
            self._guard.audit.note("statement", rights.principal.name, text=text)
            return self._journal_and_apply(action, text, execution, interpreter)
        if (refused := _refused(action)) is not None:
            raise refused
        interpreter.run(action, text)
        return StatementResult(text, action, answer=answers[0] if answers else None)

    def _journal_and_apply(
        self, action: Action, text: str, execution: ScriptExecutor, interpreter: Interpreter
    ) -> StatementResult:
        start, made_at = interpreter.prepare(action), None
        if isinstance(action, actions.DropSource) and action.delete_topic:
            with suppress(UnknownTopic):
                made_at = self._log.topic(action.source.topic).created_at
        properties = execution.planner.properties
        entry = self._state.journal.add(text, properties, start, made_at, language=execution.dialect.name)
        self._state.replay.add(entry, action)
        for query in _affected_queries(action):
            self._reconciler.forget(query)
        try:
            interpreter.apply(action, text, start)
            self._on_applied()
            self._state.compact()
        except HeadraceError as error:  # it is journalled: replaying the journal completes the rest
            _logger.warning("%s was applied, but a later step failed: %s", text, error)
        return StatementResult(text, action, entry)


def _affected_queries(action: Action) -> tuple[str, ...]:
    """Queries that an action creates, stops, pauses or resumes."""
    if isinstance(action, actions.CreateSource | actions.StartQuery):
        return (action.query.id,) if action.query else ()
    if isinstance(action, actions.ControlQueries):
        return action.queries
    return action.queries if isinstance(action, actions.DropSource) else ()


def _refused(action: Action) -> Unsupported | None:
    """The error for an action that a server does not apply as a statement."""
    match action:
        case actions.TransientSelect():
            return Unsupported(
                "a SELECT returns rows and cannot be one of several statements", fix="send it as a query"
            )
        case actions.MetadataQuery(about=MetadataKind.TOPIC):
            return Unsupported("PRINT returns rows and cannot be one of several statements", fix="send it as a query")
        case actions.ExpectRecord() | actions.ExpectSource():
            return Unsupported(
                "the server does not support ASSERT", fix="run it with `headrace test` or `headrace run`"
            )
    return None
