"""Deploys apps on a server, and withdraws them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from headrace.access.authorization import ALL_RIGHTS, Rights
from headrace.access.guard import Guard
from headrace.contracts import Log
from headrace.control.admin.dry_run import dry_run
from headrace.control.queries.reconciler import Reconciler
from headrace.control.queries.supervisor import RegisteredQuery, Supervisor
from headrace.control.statements.apply import StatementResult
from headrace.control.statements.deployed_apps import DeployedApp
from headrace.control.statements.order import StatementOrder
from headrace.control.statements.replay import Replay, empty_catalog
from headrace.control.statements.state import ServerState
from headrace.errors import AppInUse, HeadraceError
from headrace.lang.executor import ScriptExecutor
from headrace.lang.python.app_code import AppCode
from headrace.lang.registry import dialect_of
from headrace.plan.catalog import Catalog


class AppDeployer:
    """Replaces the code of apps and resumes their queries. `on_changed` is called when code was replaced."""

    def __init__(
        self,
        log: Log,
        guard: Guard,
        state: ServerState,
        supervisor: Supervisor,
        reconciler: Reconciler,
        order: StatementOrder,
        execute: Callable[..., None],
        on_changed: Callable[[], None],
    ) -> None:
        self._log = log
        self._guard = guard
        self._state = state
        self._supervisor = supervisor
        self._reconciler = reconciler
        self._order = order
        self._execute = execute
        self._on_changed = on_changed

    def deploy(
        self,
        code: AppCode,
        *,
        rights: Rights = ALL_RIGHTS,
        on_done: Callable[[StatementResult], None] = lambda result: None,
    ) -> DeployedApp:
        """Deploy an app's code, and apply those of its statements that are not applied yet. Deployed again, it replaces
        the earlier version: queries that call it resume with the new code, or the deployment is refused as a whole.

        The code is recorded in the audit log before a subprocess executes it, and so is its refusal."""
        rights.check_admin("send code")
        self._audit("code", rights, code)
        with self._refusal_audited(code, rights):
            dry_run(code)
        with self._order.turn(f"deployment of {code.path}"):
            with self._refusal_audited(code, rights), self._state.apps.stage(code) as deployed:
                before = self._state.apps.deployed_apps.get(deployed.name)
                replay = self._state.replay.with_app(empty_catalog(self._log), deployed)
                changed = self._changed_by(replay, before, deployed)
                left = "\n".join(deployed.unapplied_statements(before, {entry.text for entry in replay.needed()}))
                self._check_statements(left, replay.catalog.copy())
                self._audit("code-accepted", rights, code, app=deployed.name)
                entry = self._state.journal.add_code(deployed.name, {"source": code.source, "path": code.path})
            replay.add_code(entry)
            self._state.replay = replay
            self._state.publish()
            self._resume_changed(changed)
            self._execute(left, rights=rights, on_done=on_done)
        return deployed

    @contextmanager
    def _refusal_audited(self, code: AppCode, rights: Rights) -> Iterator[None]:
        try:
            yield
        except HeadraceError as error:
            self._audit("code-refused", rights, code, reason=str(error))
            raise

    def _audit(self, action: str, rights: Rights, code: AppCode, **details: str) -> None:
        self._guard.audit.note(action, rights.principal.name, file=code.path, sha256=code.sha256, **details)

    def _check_statements(self, text: str, catalog: Catalog) -> None:
        dialect = dialect_of()
        ScriptExecutor(dialect, dialect.planner(catalog), lambda action, text: None, reads_files=False).run(text)

    def _changed_by(
        self, replay: Replay, before: DeployedApp | None, deployed: DeployedApp
    ) -> dict[str, RegisteredQuery]:
        """Queries that call the app's code; raises if one of them, or a statement, does not fit the new code."""
        for number in replay.broken.keys() - self._state.broken.keys():
            raise replay.broken[number]
        if before is None or before.code == deployed.code:
            return {}
        users = replay.apps.dependent_queries(
            deployed.name, (registered.query for registered in replay.queries.values())
        )
        for query in users:
            self._supervisor.check_code(replay.queries[query].query)
        return {query: replay.queries[query] for query in users}

    def _resume_changed(self, changed: Mapping[str, RegisteredQuery]) -> None:
        for query, registered in changed.items():
            self._supervisor.replace_plan(query, registered)
            self._reconciler.forget(query)
        self._on_changed()

    def withdraw(self, app: str, *, rights: Rights = ALL_RIGHTS) -> None:
        """Remove an app's code; refused while queries call it."""
        rights.check_admin("withdraw code")
        with self._order.turn(f"withdrawal of app {app}"):
            self._state.apps.get(app)
            if users := self._state.apps.dependent_queries(
                app, (registered.query for registered in self._supervisor.queries.values())
            ):
                raise AppInUse(
                    f'queries use functions or operators of app "{app}": {", ".join(users)}', fix="terminate them first"
                )
            self._guard.audit.note("code-withdrawn", rights.principal.name, app=app)
            entry = self._state.journal.add_code(app, None)
            self._state.replay.add_code(entry)
            self._state.apps.withdraw(app)
            self._on_changed()
