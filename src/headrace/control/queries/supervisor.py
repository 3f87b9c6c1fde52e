"""Registers queries, and starts, stops, replaces and deletes them together with their checkpoints.

The owner of a supervisor decides when a query starts and what happens if it fails: `Program` for a script, `Reconciler`
for a server.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from headrace.clock import Clock
from headrace.contracts import Log
from headrace.control.admin.checkpoints import find_renumbered, internal_topic_remover
from headrace.control.admin.lock import ProgramLock
from headrace.control.queries.restart_policy import FailureTracker, script_policy
from headrace.control.queries.ticks import Ticker
from headrace.control.workers.handle import QueryHandle
from headrace.control.workers.isolation import Isolation
from headrace.engine.checkpoint import Checkpoint, finish_removals, list_checkpoints
from headrace.engine.log_adapter import Position
from headrace.engine.query import PreparedQuery, prepare_query
from headrace.errors import HeadraceError, ProcessLost
from headrace.log.embedded.storage.store import translate_errors
from headrace.plan.nodes import Query
from headrace.plan.serialization import Setup, no_setup
from headrace.settings import Settings

_PAUSE = 0.05  # seconds between checks of queries that are starting
_MAX_STARTING = 2  # queries that may be starting at once
_logger = logging.getLogger(__name__)


@dataclass
class RegisteredQuery:
    """A query that a statement created, and the position after which it starts; None is the beginning."""

    query: Query
    start: Position | None = None
    paused: bool = False


class Supervisor:
    """Supervises the queries whose checkpoints are in one folder, which one process locks at a time."""

    def __init__(
        self,
        log: Log,
        settings: Settings,
        name: str,
        isolation: Isolation,
        clock: Clock,
        setup_of: Callable[[Query], Setup] = lambda query: no_setup,
    ) -> None:
        self.folder = folder = settings.storage.data / "checkpoints" / name
        self._log = log
        self._settings = settings
        self.isolation = isolation
        self._setup_of = setup_of
        self.queries: dict[str, RegisteredQuery] = {}
        self.running: dict[str, QueryHandle] = {}
        self.failed: dict[str, HeadraceError] = {}
        """Queries that have failed and are not restarted."""
        self.stopping = threading.Event()
        """Any thread may set it; no further query is then started."""
        self._program_lock = ProgramLock(folder, name)
        self._delete_internal_topics = internal_topic_remover(log)
        finish_removals(folder, self._delete_internal_topics)
        policy = script_policy(isolates_failures=isolation.isolates_failures)
        self._restarts = FailureTracker(policy)
        self._ticker = Ticker(log, clock)

    @property
    def paused(self) -> frozenset[str]:
        return frozenset(name for name, registered in self.queries.items() if registered.paused)

    # -- registration -----------------------------------------------------------------------------------------------

    def register(self, query: Query, start: Position | None = None) -> None:
        self.queries[query.id] = RegisteredQuery(query, start)

    def pause(self, query: str, *, paused: bool = True) -> None:
        """Pause a query, or clear the mark: then its owner may start it again."""
        self.queries[query].paused = paused
        if paused:
            self.stop(query)

    def replace(self, old: str, new: str) -> None:
        """The new query resumes from the old one's checkpoint, as the same writer; `start` checks compatibility."""
        self.stop(old)
        del self.queries[old]
        before, after = self._checkpoint_folder(old), self._checkpoint_folder(new)
        if before != after and before.exists() and not after.exists():
            with translate_errors(self.folder):
                before.rename(after)

    def delete(self, query: str) -> None:
        """Delete a query with its checkpoint: a query of the same name would start from the beginning."""
        self.stop(query)
        self.queries.pop(query, None)
        with translate_errors(self.folder):
            Checkpoint(self._checkpoint_folder(query)).remove(self._delete_internal_topics)

    # -- checkpoints ------------------------------------------------------------------------------------------------

    def _checkpoint_folder(self, query: str) -> Path:
        return checkpoint_folder(self.folder, query)

    def adopt_renumbered(self, query: Query) -> None:
        """Let a statement whose number in the script has changed resume from its checkpoint."""
        folder, known = self._checkpoint_folder(query.id), {self._checkpoint_folder(name).name for name in self.queries}
        if not folder.exists() and (checkpoint := find_renumbered(self.folder, query, known)) is not None:
            with translate_errors(self.folder):
                checkpoint.folder.rename(folder)

    def was_replaced(self, query: Query) -> bool:
        """Whether the checkpoint belongs to a later statement, which replaced this query in an earlier run."""
        checkpoint = Checkpoint(self._checkpoint_folder(query.id)).manifest
        return checkpoint is not None and checkpoint.text != query.text

    def orphaned_checkpoints(self) -> list[str]:
        """Names of checkpoints that belong to no registered query."""
        known = {self._checkpoint_folder(query).name for query in self.queries}
        return [
            checkpoint.folder.name
            for checkpoint in list_checkpoints(self.folder)
            if checkpoint.folder.name not in known
        ]

    def delete_orphaned_checkpoints(self) -> None:
        """Delete checkpoints that belong to no registered query."""
        for name in self.orphaned_checkpoints():
            with translate_errors(self.folder):
                Checkpoint(self.folder / name).remove(self._delete_internal_topics)

    def prepare(self, query: str) -> PreparedQuery:
        """Prepare a query without running it; raises what `start` would raise."""
        registered = self.queries[query]
        with translate_errors(self.folder):
            return prepare_query(
                self._log, registered.query, self._settings, self._checkpoint_folder(query), registered.start
            )

    def check_code(self, query: Query) -> None:
        """Raise if the query's state was created by an incompatible version of the user's code."""
        Checkpoint(self._checkpoint_folder(query.id)).check_code(query)

    # -- running ----------------------------------------------------------------------------------------------------

    def start(self, query: str) -> None:
        """Start a query. A process that dies or times out during the start is handled like one that dies later."""
        self._wait_for_start_slot()
        registered, folder = self.queries[query], self._checkpoint_folder(query)
        while not self.stopping.is_set():
            try:
                with translate_errors(self.folder):
                    setup = self._setup_of(registered.query)
                    running = self.isolation.start(
                        registered.query, folder, registered.start, self._ticker.on_batch, setup
                    )
            except ProcessLost as lost:
                self._count_restart(query, lost)
            else:
                self.running[query] = running
                self._ticker.add(running)
                _logger.info("query %s started", query)
                return

    @property
    def can_start(self) -> bool:
        """Whether another query may start: few at once, since Spark gives up a Python worker not up within 10 s."""
        return sum(running.is_starting for running in self.running.values()) < _MAX_STARTING

    def _wait_for_start_slot(self) -> None:
        while not self.can_start:
            if self.stopping.wait(_PAUSE):
                return

    def _count_restart(self, query: str, failure: HeadraceError, *, made_progress: bool = False) -> None:
        """Count a restart; raises the error if the policy allows no other."""
        if self._restarts.record(query, failure, made_progress=made_progress).restart_at is None:
            raise failure
        _logger.warning("query %s is restarted: %s", query, failure.what)

    def failures(self) -> Iterator[tuple[str, HeadraceError]]:
        """New failures: queries that have failed and are not in `failed` yet."""
        for name, running in list(self.running.items()):
            failure = None if name in self.failed else running.failure()
            if failure is not None:
                yield name, failure

    def mark_failed(self, query: str, failure: HeadraceError) -> None:
        _logger.warning("query %s failed: %s", query, failure)
        self._ticker.remove(query)
        self.failed[query] = failure

    def restart(self, query: str, failure: HeadraceError) -> None:
        """Restart a script's query from its checkpoint if the policy allows it; else raise the failure."""
        running = self.running[query]
        self._count_restart(query, failure, made_progress=running.progress.batches > 0)
        running.stop()
        self._ticker.remove(query)
        self.start(query)

    def is_idle(self) -> bool:
        """Whether every query has processed all its input, including what other queries wrote."""
        queries = [running for name, running in self.running.items() if name not in self.failed]
        before = [running.progress.batches for running in queries]
        if any(running.lag() for running in queries):
            return False
        # A query that finished a batch meanwhile may have written input for a query that was checked before it.
        return before == [running.progress.batches for running in queries]

    def stop(self, query: str) -> None:
        """Stop a query; it resumes from its checkpoint when it is started again."""
        self._ticker.remove(query)
        self.failed.pop(query, None)
        if (running := self.running.pop(query, None)) is not None:
            running.stop()
            _logger.info("query %s stopped", query)

    def restart_workers(self) -> None:
        """Stop all queries and release what they shared; each resumes when it is started again."""
        for query in list(self.running):
            self.stop(query)
        self.isolation.close()

    def wake(self) -> None:
        """Notify the ticker that a manual clock was moved."""
        self._ticker.wake()

    def close(self) -> None:
        """Finish the current batches, query by query, and stop."""
        self._ticker.close()
        queries = list(self.running.values())
        for running in queries:
            running.drain()
        if queries:
            with ThreadPoolExecutor(len(queries)) as pool:  # each may take a second to stop
                list(pool.map(lambda running: running.stop(), queries))
        for query in self.running:
            _logger.info("query %s stopped", query)
        self.isolation.close()
        self._program_lock.close()


def checkpoint_folder(folder: Path, query: str) -> Path:
    """The folder of a query's checkpoint. A name that consists only of dots would be another folder."""
    name = re.sub(r"[^A-Za-z0-9._-]", "-", query)
    return folder / (name if name.strip(".") else name.replace(".", "-"))
