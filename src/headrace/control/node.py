"""The server's node: journals and applies statements, and keeps queries running until it is closed.

    with Node(log, settings) as node:
        node.execute("CREATE TABLE counts AS SELECT ...;")

A statement is either journalled and applied, or it has no effect. After a restart the node replays the journal and
restores sources, types and queries, and which queries are paused. A `Reconciler` starts and restarts queries.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self

from headrace.access.authorization import ALL_RIGHTS, Rights
from headrace.access.guard import Guard
from headrace.clock import Clock, SystemClock
from headrace.contracts import Log
from headrace.control.alerts.delivery import AlertDelivery, send_test_message
from headrace.control.alerts.history import AlertHistory, user_can_see_notices
from headrace.control.queries.idle import IdleTracker
from headrace.control.queries.reconciler import Reconciler
from headrace.control.queries.supervisor import RegisteredQuery, Supervisor
from headrace.control.serving.materialized_tables import MaterializedTables
from headrace.control.serving.prepared import ParameterizedPlan, PreparedQueryCache
from headrace.control.serving.print_topic import TopicPrinter, source_of_topic
from headrace.control.serving.pull import PullQueries
from headrace.control.serving.push import PushQueries
from headrace.control.statements.deployed_apps import AppRegistry, DeployedApp
from headrace.control.statements.inserts import RowInserter
from headrace.control.statements.journal import Journal, JournalEntry
from headrace.control.statements.permissions import Permissions, redact_errors, with_row_filters
from headrace.control.statements.replay import Replay, empty_catalog
from headrace.control.statements.runtime import LogRuntime
from headrace.control.workers.isolation import Isolation, SharedProcess, create_isolation
from headrace.errors import (
    AppInUse,
    BadQuery,
    HeadraceError,
    TooManyStatements,
    UnknownNotifier,
    UnknownQuery,
    UnknownTopic,
    Unsupported,
)
from headrace.lang.contract import MAX_STATEMENTS
from headrace.lang.executor import ScriptExecutor
from headrace.lang.interpreter import Interpreter
from headrace.lang.listing import Listing
from headrace.lang.python.app_code import AppCode
from headrace.lang.registry import KSQL, dialect_of
from headrace.notifiers.contract import Notice, SenderContext
from headrace.notifiers.push_subscriptions import PushSubscriptions
from headrace.plan import actions
from headrace.plan.actions import Action, MetadataKind
from headrace.plan.catalog import Catalog
from headrace.plan.nodes import Query as Plan
from headrace.plan.notifiers import Notifier
from headrace.plan.serialization import Setup, no_setup
from headrace.settings import Settings
from headrace.views.stores import open_store

PROGRAM_NAME = "server"
_COMPACT_AFTER = 100  # obsolete journal entries: with more than this, the journal is compacted
_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class StatementResult:
    """The result of a statement."""

    text: str
    action: Action
    entry: JournalEntry | None = None
    """The journal entry, if the statement was journalled."""
    answer: Listing | None = None


class Node:
    def __init__(
        self,
        log: Log,
        settings: Settings,
        *,
        clock: Clock | None = None,
        setup: Setup = no_setup,
        isolation: Isolation | None = None,
    ) -> None:
        self.log = log
        self.settings = settings
        store = open_store(settings)  # fails, if at all, before anything is started
        self._clock = clock = clock or SystemClock()
        self.guard = Guard(log, settings, clock)
        isolation = isolation or _isolation(log, settings)
        self.supervisor = Supervisor(log, settings, PROGRAM_NAME, isolation, clock, self._setup_of)
        self._lock = threading.RLock()
        self.reconciler = Reconciler(
            self.supervisor, IdleTracker(settings.query.suspend_after.total_seconds()), self._lock
        )
        self._journal = Journal(log, clock)
        self._replay = Replay(empty_catalog(log), AppRegistry(base=setup))
        self.tables = MaterializedTables(log, store)
        self.pull_queries = PullQueries(log, self.tables, settings)
        self.push_queries = PushQueries(log, clock, settings.query.max_push_queries)
        self.prepared_queries = PreparedQueryCache(dialect_of(), self._plan_parameterized)
        self.alert_history = AlertHistory(log)
        self.sender_context = SenderContext(settings, PushSubscriptions(log), self.is_shown)
        self._alert_delivery = AlertDelivery(log, self.sender_context, clock, self.is_muted)
        self._restore()
        self.reconciler.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def catalog(self) -> Catalog:
        return self._replay.catalog

    @property
    def apps(self) -> AppRegistry:
        return self._replay.apps

    @property
    def broken(self) -> Mapping[int, HeadraceError]:
        """Journalled statements that can no longer be planned, by entry number."""
        return self._replay.broken

    def _restore(self) -> None:
        """Restore the state that the journal describes."""
        self._replay.read(self._journal.entries)
        for topic, made_at in self._replay.deleted:
            self._delete_topic(topic, made_at)
        self.supervisor.queries.update(self._replay.queries)
        self.supervisor.delete_orphaned_checkpoints()
        self._reconcile()
        self._compact_journal()

    def _reconcile(self) -> None:
        """Reconcile views, alert delivery and alert history with the catalog."""
        self.tables.reconcile(self.catalog)
        self._alert_delivery.reconcile(self.catalog)
        self.alert_history.forget_other_queries(self.catalog.queries)

    def _compact_journal(self) -> None:
        needed = self._replay.needed()
        if len(self._journal.entries) - len(needed) > _COMPACT_AFTER:
            self._journal.compact(needed)

    # -- statements -------------------------------------------------------------------------------------------------

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
            self.catalog.numbered = self._journal.next
            kept = [self.catalog.copy()]

            def apply(action: Action, own_text: str) -> None:
                try:
                    permits().check(action)
                    result = self._apply(action, own_text, execution, rights)
                except BaseException:
                    self.catalog.restore(kept[0])
                    raise
                self.catalog.numbered = self._journal.next
                kept[0] = self.catalog.copy()
                on_done(result)

            def permits() -> Permissions:
                return Permissions(rights, kept[0], self.log)

            execution = ScriptExecutor(
                dialect,
                dialect.planner(self.catalog, properties),
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
            self.catalog.numbered = self._journal.next
            dialect = dialect_of()
            planner = dialect.planner(self.catalog.copy(), properties)
            permits = Permissions(rights, self.catalog, self.log)
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
                return TopicPrinter(self.log, wanted, source_of_topic(planner.catalog, wanted.name))
        raise BadQuery(
            "the text is not a single SELECT or PRINT", fix="send other statements to /ksql, and one query per request"
        )

    def _plan_parameterized(self, text: str, values: Sequence[Any]) -> ParameterizedPlan | None:
        with self._lock:
            return dialect_of().plan_parameterized(text, values, self.catalog)

    def inserter(self, name: str, *, rights: Rights = ALL_RIGHTS) -> RowInserter:
        """An inserter of rows for a stream or table."""
        with self._lock, redact_errors(rights):
            inserter = RowInserter(self.log, self.catalog, name, self._clock)
            Permissions(rights, self.catalog, self.log).check(actions.InsertRow(inserter.source, (), ()))
            return inserter

    def _apply(self, action: Action, text: str, execution: ScriptExecutor, rights: Rights) -> StatementResult:
        answers: list[Listing] = []
        runtime = LogRuntime(self.log, self.settings, self.supervisor, self._clock, rights)
        interpreter = Interpreter(runtime, execution, answers.append)
        if action.journaled:
            _logger.info("statement by %s: %s", rights.who.name, " ".join(text.split()))
            self.guard.audit.note("statement", rights.who.name, text=text)
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
                made_at = self.log.topic(action.source.topic).created_at
        properties = execution.planner.properties
        entry = self._journal.add(text, properties, start, made_at, language=execution.dialect.name)
        self._replay.add(entry, action)
        for query in _affected_queries(action):
            self.reconciler.forget(query)
        try:
            interpreter.apply(action, text, start)
            self._reconcile()
            self.prepared_queries.clear()
            self._compact_journal()
        except HeadraceError as error:  # it is journalled: replaying the journal completes the rest
            _logger.warning("%s was applied, but a later step failed: %s", text, error)
        return StatementResult(text, action, entry)

    def _delete_topic(self, topic: str, made_at: int) -> None:
        with suppress(UnknownTopic):
            if self.log.topic(topic).created_at == made_at:
                self.log.delete_topic(topic)

    # -- apps -------------------------------------------------------------------------------------------------------

    def deploy(
        self,
        code: AppCode,
        *,
        rights: Rights = ALL_RIGHTS,
        on_done: Callable[[StatementResult], None] = lambda result: None,
    ) -> DeployedApp:
        """Deploy an app's code, and apply those of its statements that are not applied yet. Deployed again, it replaces
        the earlier version: queries that call it resume with the new code, or the deployment is refused as a whole."""
        rights.check_admin("send code")
        with self._lock:
            with self.apps.stage(code) as deployed:
                before = self.apps.deployed_apps.get(deployed.name)
                replay = self._replay.with_app(empty_catalog(self.log), deployed)
                changed = self._changed_by(replay, before, deployed)
                left = "\n".join(deployed.unapplied_statements(before, {entry.text for entry in replay.needed()}))
                self._check_statements(left, replay.catalog.copy())
                self.guard.audit.note("code", rights.who.name, app=deployed.name)
                entry = self._journal.add_code(deployed.name, {"source": code.source, "path": code.path})
            replay.add_code(entry)
            self._replay = replay
            self._resume_changed(changed)
            self.execute(left, rights=rights, on_done=on_done)
        return deployed

    def _check_statements(self, text: str, catalog: Catalog) -> None:
        dialect = dialect_of()
        ScriptExecutor(dialect, dialect.planner(catalog), lambda action, text: None, reads_files=False).run(text)

    def _setup_of(self, query: Plan) -> Setup:
        return self.apps.setup_of(query)

    def _changed_by(
        self, replay: Replay, before: DeployedApp | None, deployed: DeployedApp
    ) -> dict[str, RegisteredQuery]:
        """Queries that call the app's code; raises if one of them, or a statement, does not fit the new code."""
        for number in replay.broken.keys() - self.broken.keys():
            raise replay.broken[number]
        if before is None or before.code == deployed.code:
            return {}
        users = replay.apps.dependent_queries(
            deployed.name, (registered.query for registered in replay.queries.values())
        )
        for query in users:
            self.supervisor.check_code(replay.queries[query].query)
        return {query: replay.queries[query] for query in users}

    def _resume_changed(self, changed: Mapping[str, RegisteredQuery]) -> None:
        for query, registered in changed.items():
            self.supervisor.stop(query)
            self.supervisor.queries[query] = registered
            self.reconciler.forget(query)
        self.prepared_queries.clear()

    def withdraw(self, app: str, *, rights: Rights = ALL_RIGHTS) -> None:
        """Remove an app's code; refused while queries call it."""
        rights.check_admin("withdraw code")
        with self._lock:
            self.apps.get(app)
            if users := self.apps.dependent_queries(
                app, (registered.query for registered in self.supervisor.queries.values())
            ):
                raise AppInUse(
                    f'queries use functions or operators of app "{app}": {", ".join(users)}', fix="terminate them first"
                )
            self.guard.audit.note("code-withdrawn", rights.who.name, app=app)
            entry = self._journal.add_code(app, None)
            self._replay.add_code(entry)
            self.apps.withdraw(app)
            self.prepared_queries.clear()

    # -- alerts -----------------------------------------------------------------------------------------------------

    def mutes(self, alert: str) -> dict[str | None, int]:
        """By key, the time in ms until which an alert's notices are muted; the key None stands for all."""
        now = self._clock.now()
        there = list(self._replay.mutes.items())  # copied, because notifier threads read it while statements change it
        return {muted.key: until for muted, until in there if muted.alert == alert and until > now}

    def is_muted(self, notice: Notice) -> bool:
        return not self.mutes(notice.alert).keys().isdisjoint((None, notice.target))

    def is_shown(self, owner: str, query: str) -> bool:
        """Whether a user may see the notices of an alert's query, by their current rights."""
        return user_can_see_notices(self.guard, self.catalog, owner, query)

    def notifier(self, name: str) -> Notifier:
        if name not in self.catalog.notifiers:
            raise UnknownNotifier(f'notifier "{name}" does not exist', fix="LIST NOTIFIERS shows the existing ones")
        return self.catalog.notifiers[name]

    def send_test_message(self, notifier: str) -> None:
        """Send a test message by the notifier; raises if it is not delivered."""
        send_test_message(self.notifier(notifier), self.sender_context, self._clock)

    # -- queries ----------------------------------------------------------------------------------------------------

    def restart(self, query: str, *, rights: Rights = ALL_RIGHTS) -> None:
        """Restart a query from its checkpoint; a paused query stays stopped."""
        with self._lock:
            if query not in self.supervisor.queries:
                raise UnknownQuery(f'query "{query}" does not exist', fix="LIST QUERIES shows the existing ones")
            Permissions(rights, self.catalog, self.log).controls(self.supervisor.queries[query].query)
            self.reconciler.restart(query)

    def reload(self, settings: Settings) -> None:
        """Apply the settings that take effect without a restart (see `settings_reload`)."""
        with self._lock:
            self.settings = self.pull_queries.settings = settings
            self.push_queries.max_queries = settings.query.max_push_queries
            self.reconciler.set_suspend_after(settings.query.suspend_after.total_seconds())

    def close(self) -> None:
        """Finish the current batches and stop; the next node resumes from there."""
        self.reconciler.stop()
        self._alert_delivery.close()
        self.push_queries.close()
        self.tables.close()
        self.supervisor.close()
        self._journal.close()
        self.guard.close()


def _isolation(log: Log, settings: Settings) -> Isolation:
    """The server's own process has no Spark: shared isolation uses one worker process for all queries."""
    return (
        SharedProcess(PROGRAM_NAME, log, settings)
        if settings.query.isolation == "shared"
        else create_isolation(PROGRAM_NAME, log, settings)
    )


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
