"""Plans, journals and applies the statements of a server.

A statement is planned on a copy of the catalog, without a lock. One that changes the catalog is journalled and applied
under the lock, in order; if another was faster, it is planned again. It is either journalled and applied, or has no
effect.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from headrace.access.authorization import ALL_RIGHTS, Rights
from headrace.access.guard import Guard
from headrace.clock import Clock
from headrace.contracts import Log
from headrace.control.queries.reconciler import Reconciler
from headrace.control.queries.supervisor import Supervisor
from headrace.control.serving.prepared import ParameterizedPlan
from headrace.control.serving.print_topic import TopicPrinter, source_of_topic
from headrace.control.serving.processes import Processes
from headrace.control.statements.inserts import RowInserter
from headrace.control.statements.journal import JournalEntry
from headrace.control.statements.order import StatementOrder
from headrace.control.statements.permissions import Permissions, known_catalog, redact_errors, with_row_filters
from headrace.control.statements.runtime import LogRuntime
from headrace.control.statements.state import ServerState
from headrace.errors import (
    BadQuery,
    HeadraceError,
    StatementError,
    TooManyStatements,
    UnknownTopic,
    Unsupported,
)
from headrace.lang.contract import MAX_STATEMENTS, Dialect, ParsedStatement, StatementPlanner
from headrace.lang.executor import ScriptExecutor
from headrace.lang.interpreter import Interpreter
from headrace.lang.listing import Listing
from headrace.lang.registry import KSQL, dialect_of
from headrace.plan import actions
from headrace.plan.actions import Action, MetadataKind
from headrace.plan.catalog import Catalog
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
        order: StatementOrder,
        processes: Processes,
        on_applied: Callable[[], None],
    ) -> None:
        self.settings = settings
        self._log = log
        self._clock = clock
        self._guard = guard
        self.state = state
        self._supervisor = supervisor
        self._reconciler = reconciler
        self.order = order
        self._processes = processes
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
        with redact_errors(rights):
            _Script(self, dialect, properties, variables, rights, on_done).run(text)

    def plan_select(
        self,
        text: str,
        properties: Mapping[str, Any] | None = None,
        variables: dict[str, str] | None = None,
        *,
        rights: Rights = ALL_RIGHTS,
    ) -> actions.TransientSelect:
        """Plan a SELECT: `pull_queries` or `push_queries` executes it."""
        planned = self.plan_transient_query(text, properties, variables, rights=rights)
        if isinstance(planned, TopicPrinter):
            raise BadQuery("the statement is not a SELECT", fix="send PRINT to /query or /query-stream")
        return planned

    def plan_transient_query(
        self,
        text: str,
        properties: Mapping[str, Any] | None = None,
        variables: dict[str, str] | None = None,
        *,
        rights: Rights = ALL_RIGHTS,
    ) -> actions.TransientSelect | TopicPrinter:
        """Plan a SELECT or a PRINT, limited to the rows that the principal may read."""
        planned: list[Action] = []
        with redact_errors(rights):
            dialect, catalog = dialect_of(), self.state.snapshot
            planner = dialect.planner(catalog.copy(), properties)
            permits = Permissions(rights, catalog, self._log)
            ScriptExecutor(
                dialect,
                planner,
                lambda action, _: planned.append(action),
                {} if variables is None else variables,
                reads_files=False,
                before_planning=lambda statement: self.checked(
                    permits, statement, lambda known: dialect.planner(known, properties), is_executed=False
                ),
            ).run(text)
        match planned:
            case [actions.TransientSelect() as select]:
                query = replace(select, text=text.strip(), principal=rights.principal.name)
                return with_row_filters(query, rights, planner.catalog)
            case [actions.MetadataQuery(about=MetadataKind.TOPIC) as print_query]:
                permits.check(print_query)
                source = source_of_topic(planner.catalog, print_query.name)
                return TopicPrinter(self._log, print_query, source, rights.principal.name)
        raise BadQuery(
            "the text is not a single SELECT or PRINT", fix="send other statements to /ksql, and one query per request"
        )

    def checked(
        self,
        permissions: Permissions,
        statement: ParsedStatement,
        planner: Callable[[Catalog], StatementPlanner],
        *,
        is_executed: bool = True,
    ) -> Action | None:
        """Check a statement before it is planned; a name that is hidden, and so seems unknown, is audited."""
        try:
            return permissions.check_named(statement, planner, is_executed=is_executed)
        except StatementError as error:
            self._guard.audit.note_once("refused", permissions.rights.principal.name, what=error.what)
            raise

    def plan_parameterized(self, text: str, values: Sequence[Any]) -> ParameterizedPlan | None:
        return dialect_of().plan_parameterized(text, values, self.state.snapshot)

    def inserter(self, name: str, *, rights: Rights = ALL_RIGHTS) -> RowInserter:
        """An inserter of rows for a stream or table."""
        with redact_errors(rights):
            catalog = self.state.snapshot if rights.is_admin else known_catalog(self.state.snapshot, rights)
            inserter = RowInserter(self._log, catalog, name, self._clock)
            Permissions(rights, catalog, self._log).check(actions.InsertRow(inserter.source, (), ()))
            return inserter

    def run_action(self, action: Action, text: str, execution: ScriptExecutor, rights: Rights) -> StatementResult:
        """Run an action that leaves the catalog as it is."""
        if (refused := _refused(action)) is not None:
            raise refused
        answers: list[Listing] = []
        self._interpreter(execution, rights, answers.append).run(action, text)
        return StatementResult(text, action, answer=answers[0] if answers else None)

    def journal_and_apply(
        self, action: Action, text: str, execution: ScriptExecutor, rights: Rights
    ) -> StatementResult:
        """Journal and apply an action that the planner has made on the latest catalog; the caller holds the lock."""
        _logger.info("statement by %s: %s", rights.principal.name, " ".join(text.split()))
        self._guard.audit.note("statement", rights.principal.name, text=text)
        interpreter = self._interpreter(execution, rights)
        creates_topic = self._creates_topic(action)
        start, made_at = interpreter.prepare(action), None
        if isinstance(action, actions.DropSource) and action.delete_topic:
            with suppress(UnknownTopic):
                made_at = self._log.topic(action.source.topic).created_at
        entry = self.state.journal.add(
            text,
            execution.planner.properties,
            start,
            made_at,
            language=execution.dialect.name,
            by=rights.principal.name,
            creates_topic=creates_topic,
        )
        self.state.catalog.restore(execution.planner.catalog)
        self.state.replay.add(entry, action)
        for query in _affected_queries(action):
            self._reconciler.forget(query)
        try:
            interpreter.apply(action, text, start)
        except HeadraceError as error:  # it is journalled: replaying the journal completes the rest
            _logger.warning("%s was applied, but a later step failed: %s", text, error)
        self._on_applied()
        return StatementResult(text, action, entry)

    def _creates_topic(self, action: Action) -> bool:
        if isinstance(action, actions.CreateSource):
            with suppress(UnknownTopic):
                return not self._log.topic(action.source.topic)
            return True
        return False

    def _interpreter(
        self, execution: ScriptExecutor, rights: Rights, on_listing: Callable[[Listing], None] = lambda listing: None
    ) -> Interpreter:
        runtime = LogRuntime(self._log, self.settings, self._supervisor, self._clock, rights, self._processes)
        return Interpreter(runtime, execution, on_listing)

    def permissions(self, rights: Rights, catalog: Catalog) -> Permissions:
        return Permissions(rights, catalog, self._log)


class _Script:
    """One client's script. It is planned on a copy of the catalog, which follows the statements of others."""

    def __init__(
        self,
        executor: StatementExecutor,
        dialect: Dialect,
        properties: Mapping[str, Any] | None,
        variables: dict[str, str] | None,
        rights: Rights,
        on_done: Callable[[StatementResult], None],
    ) -> None:
        self._executor = executor
        self._rights = rights
        self._on_done = on_done
        self._base = executor.state.snapshot
        self.statement: ParsedStatement | None = None
        self._execution = ScriptExecutor(
            dialect,
            dialect.planner(self._base.copy(), properties),
            self._apply,
            {} if variables is None else variables,
            reads_files=False,
            before_planning=self._before_planning,
        )

    def run(self, text: str) -> None:
        self._execution.run(text)

    def _before_planning(self, statement: ParsedStatement) -> Action | None:
        self.statement = statement
        self._follow()
        return self._check_named(statement)

    def _check_named(self, statement: ParsedStatement) -> Action | None:
        execution = self._execution
        return self._executor.checked(
            self._permissions, statement, lambda known: execution.dialect.planner(known, execution.planner.properties)
        )

    @property
    def _permissions(self) -> Permissions:
        return self._executor.permissions(self._rights, self._base)

    def _follow(self) -> bool:
        """Adopt the latest catalog; False if this script has it already."""
        if (latest := self._executor.state.snapshot) is self._base:
            return False
        self._base = latest
        self._execution.planner.catalog.restore(latest)
        return True

    def _apply(self, action: Action, text: str) -> None:
        if action.journaled:
            with self._executor.order.turn(text):
                result = self._run(self._planned_on_latest(action), text)
        else:
            result = self._run(action, text)
        self._on_done(result)

    def _planned_on_latest(self, action: Action) -> Action:
        """The action, planned again if a statement of someone else was faster; the caller holds the lock."""
        if not self._follow():
            return action
        assert self.statement is not None
        return self._check_named(self.statement) or self._execution.planner.plan(self.statement)

    def _run(self, action: Action, text: str) -> StatementResult:
        self._permissions.check(action)
        run = self._executor.journal_and_apply if action.journaled else self._executor.run_action
        return run(action, text, self._execution, self._rights)


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
