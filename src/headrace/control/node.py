"""The server's node: journals and applies statements, and keeps queries running until it is closed.

    with Node(log, settings) as node:
        node.execute("CREATE TABLE counts AS SELECT ...;")

A statement is either journalled and applied, or it has no effect. After a restart the node replays the journal and
restores sources, types and queries, and which queries are paused. A `Reconciler` starts and restarts queries.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import Self

from headrace.access.authorization import ALL_RIGHTS, Rights
from headrace.access.guard import Guard
from headrace.clock import Clock, SystemClock
from headrace.contracts import Log
from headrace.control.alerts.service import AlertService
from headrace.control.queries.failure_events import FailureEvents
from headrace.control.queries.idle import IdleTracker
from headrace.control.queries.reconciler import Reconciler
from headrace.control.queries.supervisor import Supervisor
from headrace.control.serving.materialized_tables import MaterializedTables
from headrace.control.serving.prepared import PreparedQueryCache
from headrace.control.serving.processes import Processes
from headrace.control.serving.pull import PullQueries
from headrace.control.serving.pull_workers import PullWorkers
from headrace.control.serving.push import PushQueries
from headrace.control.statements.apply import StatementExecutor
from headrace.control.statements.deployed_apps import AppRegistry
from headrace.control.statements.deployment import AppDeployer
from headrace.control.statements.order import StatementOrder
from headrace.control.statements.permissions import Permissions
from headrace.control.statements.state import ServerState
from headrace.control.warm_up import warm_up
from headrace.control.workers.isolation import Isolation, SharedProcess, create_isolation
from headrace.errors import HeadraceError, UnknownQuery, UnknownTopic
from headrace.lang.registry import dialect_of
from headrace.plan.catalog import Catalog
from headrace.plan.nodes import Query as Plan
from headrace.plan.serialization import Setup, no_setup
from headrace.settings import Settings
from headrace.views.stores import open_store

PROGRAM_NAME = "server"
_logger = logging.getLogger(__name__)


class Node:
    """Joins the parts of a server. `execute`, `plan_select` and `deploy`, for example, are those of its parts."""

    def __init__(
        self,
        log: Log,
        settings: Settings,
        *,
        clock: Clock | None = None,
        setup: Setup = no_setup,
        isolation: Isolation | None = None,
        pull_workers: PullWorkers | None = None,
    ) -> None:
        self.log = log
        self.settings = settings
        store = open_store(settings)  # fails, if at all, before anything is started
        clock = clock or SystemClock()
        self.guard = guard = Guard(log, settings, clock)
        isolation = isolation or _isolation(log, settings)
        self.supervisor = Supervisor(log, settings, PROGRAM_NAME, isolation, clock, self._setup_of)
        self._order = order = StatementOrder()
        idle = IdleTracker(settings.query.suspend_after.total_seconds())
        self.failure_events = FailureEvents(log, clock)
        self.reconciler = Reconciler(self.supervisor, idle, on_failure=self.failure_events.add)
        self._state = state = ServerState(log, clock, setup)  # fences an earlier server: only with the program's lock
        parts = state, self.supervisor, self.reconciler, order
        self.processes = Processes(clock)
        self.statements = StatementExecutor(log, settings, clock, guard, *parts, self.processes, self._on_applied)
        self.execute = self.statements.execute
        self.plan_select = self.statements.plan_select
        self.plan_transient_query = self.statements.plan_transient_query
        self.inserter = self.statements.inserter
        self.tables = MaterializedTables(log, store)
        self.pull_queries = PullQueries(log, self.tables, settings, self.processes, pull_workers, self._setup_of)
        self.push_queries = PushQueries(log, clock, settings.query.max_push_queries, self.processes)
        self.prepared_queries = PreparedQueryCache(
            dialect_of(), self.statements.plan_parameterized, only_light=pull_workers is not None
        )
        deployer = AppDeployer(log, guard, *parts, self.execute, self.prepared_queries.clear)
        self.deploy = deployer.deploy
        self.withdraw = deployer.withdraw
        self.alerts = AlertService(log, settings, clock, guard, state)
        self._restore()
        self.reconciler.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def catalog(self) -> Catalog:
        """The catalog after the last statement; nobody changes it."""
        return self._state.snapshot

    @property
    def apps(self) -> AppRegistry:
        return self._state.apps

    @property
    def broken(self) -> Mapping[int, HeadraceError]:
        """Journalled statements that can no longer be planned, by entry number."""
        return self._state.broken

    def _setup_of(self, query: Plan) -> Setup:
        return self.apps.setup_of(query)

    def _restore(self) -> None:
        """Restore the state that the journal describes."""
        self._state.restore()
        replay = self._state.replay
        for topic, created_at in replay.deleted:
            self._delete_topic(topic, created_at)
        self.supervisor.queries.update(replay.queries)
        for old, new in replay.replaced:
            self.supervisor.finish_replacement(old, new)
        self.supervisor.delete_orphaned_checkpoints()
        self._reconcile()
        self._state.compact()

    def _delete_topic(self, topic: str, created_at: int) -> None:
        with suppress(UnknownTopic):
            if self.log.topic(topic).created_at == created_at:
                self.log.delete_topic(topic)

    def _reconcile(self) -> None:
        """Reconcile views and alerts with the catalog."""
        self.tables.reconcile(self._state.catalog)
        self.alerts.reconcile()

    def _on_applied(self) -> None:
        """Let a changed catalog take effect: first in the views, so that what readers can see can be read."""
        try:
            self._reconcile()
            self._state.compact()
        except HeadraceError as error:  # the statement is journalled: the next one, or a restart, completes the rest
            _logger.warning("views and alerts were not reconciled with the catalog: %s", error)
        self._state.publish()
        self.prepared_queries.clear()

    # -- queries ----------------------------------------------------------------------------------------------------

    def restart(self, query: str, *, rights: Rights = ALL_RIGHTS) -> None:
        """Restart a query from its checkpoint; a paused query stays stopped."""
        with self._order.turn(f"restart of {query}"):
            if query not in self.supervisor.queries:
                raise UnknownQuery(f'query "{query}" does not exist', fix="LIST QUERIES shows the existing ones")
            Permissions(rights, self.catalog, self.log).controls(self.supervisor.queries[query].query)
            self.reconciler.restart(query)

    def warm_up(self) -> None:
        """Start Spark in the background, unless a query has started it already."""
        if self.settings.spark.warm_start:
            self.supervisor.isolation.warm_up(warm_up)

    def reload(self, settings: Settings) -> None:
        """Apply the settings that take effect without a restart (see `settings_reload`)."""
        with self._order.turn("reload of the settings"):
            self.settings = self.pull_queries.settings = self.statements.settings = settings
            self.push_queries.max_queries = settings.query.max_push_queries
            self.reconciler.set_suspend_after(settings.query.suspend_after.total_seconds())

    def close(self) -> None:
        """Finish the current batches and stop; the next node resumes from there."""
        self.reconciler.stop()
        self.failure_events.close()
        self.alerts.close()
        self.push_queries.close()
        self.tables.close()
        self.supervisor.close()
        self._state.journal.close()
        self.guard.close()


def _isolation(log: Log, settings: Settings) -> Isolation:
    """The server's own process has no Spark: shared isolation uses one worker process for all queries."""
    return (
        SharedProcess(PROGRAM_NAME, log, settings)
        if settings.query.isolation == "shared"
        else create_isolation(PROGRAM_NAME, log, settings)
    )
