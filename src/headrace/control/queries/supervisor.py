"""Registers queries, and starts, stops, replaces and deletes them together with their checkpoints.

Stopping is a request (see `stopping`): no method but `close` and `wait_until_stopped` waits for Spark.

The owner of a supervisor decides when a query starts and what happens if it fails: `Program` for a script, `Reconciler`
for a server.
"""

from __future__ import annotations

import hashlib
import logging
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from headrace.clock import Clock
from headrace.contracts import Log
from headrace.control.admin.checkpoints import find_renumbered, internal_topic_remover
from headrace.control.admin.lock import ProgramLock
from headrace.control.queries.restart_policy import FailureTracker, script_policy
from headrace.control.queries.stopping import QueryStop, after_stop
from headrace.control.queries.ticks import Ticker
from headrace.control.workers.handle import QueryHandle
from headrace.control.workers.isolation import Isolation
from headrace.engine.checkpoint import Checkpoint, finish_removals, list_checkpoints, writer_name
from headrace.engine.execution_mode import REALTIME
from headrace.engine.io.failing_batch import count_failure
from headrace.engine.log_adapter import Position
from headrace.engine.query import PreparedQuery, prepare_query
from headrace.errors import HeadraceError, ProcessLost, StateUnreadable
from headrace.log.embedded.storage.store import translate_errors
from headrace.plan.nodes import Query
from headrace.plan.serialization import Setup, no_setup
from headrace.settings import Settings
from headrace.watched_lock import WatchedLock

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
        self.stops: dict[str, QueryStop] = {}
        """Queries that are stopping."""
        self._starting: dict[str, Query] = {}
        self._lock = WatchedLock("queries")
        """Guards the dictionaries; nobody waits for Spark or for the log while holding it."""
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
        return frozenset(name for name, registered in list(self.queries.items()) if registered.paused)

    # -- registration -----------------------------------------------------------------------------------------------

    def register(self, query: Query, start: Position | None = None) -> None:
        self.queries[query.id] = RegisteredQuery(query, start)

    def replace_plan(self, query: str, registered: RegisteredQuery) -> None:
        """Resume a query with another plan for the same statement."""
        with self._lock:
            self.stop(query)
            self.queries[query] = registered

    def pause(self, query: str, *, paused: bool = True) -> None:
        """Pause a query, or clear the mark: then its owner may start it again."""
        with self._lock:
            self.queries[query].paused = paused
            if paused:
                self.stop(query)

    def replace(self, old: str, new: str) -> None:
        """The new query resumes from the old one's checkpoint, as the same writer; `start` checks compatibility."""
        before, after = self._checkpoint_folder(old), self._checkpoint_folder(new)
        with self._lock:
            self.queries.pop(old)
            if (stop := self.stop(old)) is not None:
                stop.blocks.add(new)
        after_stop(stop, lambda: self._move_checkpoint(before, after))

    def finish_replacement(self, old: str, new: str) -> None:
        """Complete a replacement that a crash has interrupted; without effect if it was complete."""
        if new in self.queries and old not in self.queries:
            self._move_checkpoint(self._checkpoint_folder(old), self._checkpoint_folder(new))

    def _move_checkpoint(self, before: Path, after: Path) -> None:
        if before != after and before.exists() and not after.exists():
            with translate_errors(self.folder):
                before.rename(after)

    def delete(self, query: str) -> None:
        """Delete a query with its checkpoint: a query of the same name would start from the beginning.

        Its writer is fenced at once: nothing that it does until it has stopped reaches its topic.
        """
        checkpoint = Checkpoint(self._checkpoint_folder(query))
        writer = _writer_of(checkpoint)
        with self._lock:
            self.queries.pop(query, None)
            stop = self.stop(query)
        after_stop(stop, lambda: self._remove(checkpoint))
        if stop is not None and writer is not None:
            self._log.writer(writer).close()

    def _remove(self, checkpoint: Checkpoint) -> None:
        with translate_errors(self.folder):
            checkpoint.remove(self._delete_internal_topics)

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
        """Start a query. A process that dies or times out during the start is handled like one that dies later.

        A query that was paused, terminated or replaced meanwhile is stopped again.
        """
        self._wait_for_start_slot()
        while not self.stopping.is_set():
            with self._lock:
                if not self._may_start(query):
                    return
                registered = self.queries[query]
                self._starting[query] = registered.query
            running = None
            try:
                running = self._start(query, registered)
                return
            except ProcessLost as lost:
                self._count_restart(query, lost)
            finally:
                self._finish_start(query, running)

    def _may_start(self, query: str) -> bool:
        registered = self.queries.get(query)
        return registered is not None and not registered.paused and not self.is_stopping(query)

    def _start(self, query: str, registered: RegisteredQuery) -> QueryHandle:
        with translate_errors(self.folder):
            setup = self._setup_of(registered.query)
            folder = self._checkpoint_folder(query)
            return self.isolation.start(registered.query, folder, registered.start, self._ticker.on_batch, setup)

    def _finish_start(self, query: str, running: QueryHandle | None) -> None:
        """Register a query that has started; None: it could not. It stops if that was requested meanwhile."""
        with self._lock:
            self._starting.pop(query, None)
            if (stop := self.stops.get(query)) is not None:
                stop.start(running)
            elif running is not None:
                self.running[query] = running
                self._ticker.add(running)
                _logger.info("query %s started", query)

    @property
    def can_start(self) -> bool:
        """Whether another query may start: few at once, since Spark gives up a Python worker not up within 10 s."""
        return sum(running.is_starting for running in list(self.running.values())) < _MAX_STARTING

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

    def made_progress(self, query: str, failure: HeadraceError) -> bool:
        """Whether a query that has failed is further than before: in its input, or in the search for a bad record."""
        running, has_narrowed = self.running.get(query), False
        try:
            has_narrowed = count_failure(self._checkpoint_folder(query), failure)
        except Exception as error:  # of one query: the others go on
            _logger.warning("the failure of query %s was not counted: %r", query, error)
        return has_narrowed or (running is not None and running.progress.batches > 0)

    def unfinished_batch(self, query: str) -> int | None:
        """The number of the batch that has started and is not committed."""
        checkpoint = Checkpoint(self._checkpoint_folder(query))
        started = checkpoint.last_started()
        return started if started > checkpoint.last_committed() else None

    def restart(self, query: str, failure: HeadraceError) -> None:
        """Restart a script's query from its checkpoint if the policy allows it; else raise the failure."""
        self._count_restart(query, failure, made_progress=self.made_progress(query, failure))
        if (stop := self.stop(query)) is not None:
            stop.wait(stop.longest)
        self.start(query)

    def is_idle(self) -> bool:
        """Whether every query has processed all its input, including what other queries wrote."""
        queries = [running for name, running in self.running.items() if name not in self.failed]
        before = [running.progress.batches for running in queries]
        if any(running.lag() for running in queries):
            return False
        # A query that finished a batch meanwhile may have written input for a query that was checked before it.
        return before == [running.progress.batches for running in queries]

    def stop(self, query: str) -> QueryStop | None:
        """Ask a query to stop; it resumes from its checkpoint when it is started again. Returns at once.

        The result is None if the query is not running; see `after_stop`.
        """
        with self._lock:
            self._ticker.remove(query)
            self.failed.pop(query, None)
            running, stop = self.running.pop(query, None), self.stops.get(query)
            if stop is None and (running is not None or query in self._starting):
                plan = self._starting[query] if running is None else running.query
                self.stops[query] = stop = QueryStop(plan, self._timeout(plan), self._on_stopped)
                if running is not None:  # else `start` begins the stop
                    stop.start(running)
            return stop

    def _timeout(self, query: Query) -> float:
        """Seconds that a query has to finish its batch. In realtime mode, batches are as long as the interval."""
        options = self._settings.query
        interval = options.realtime_checkpoint_interval if options.execution_mode == REALTIME else timedelta(0)
        return (options.stop_timeout + interval).total_seconds()

    def _on_stopped(self, stop: QueryStop) -> None:
        with self._lock:
            self.stops.pop(stop.name, None)

    def is_stopping(self, query: str) -> bool:
        """Whether the query must not start yet, because it, or the one that it replaces, has not stopped."""
        return any(query in stop.blocks for stop in list(self.stops.values()))

    def wait_until_stopped(self) -> None:
        """Wait for all stops that have begun."""
        for stop in list(self.stops.values()):
            if not stop.wait(stop.longest):
                _logger.warning("query %s has not stopped after %g s", stop.name, stop.longest)

    def restart_workers(self) -> None:
        """Stop all queries and release what they shared; each resumes when it is started again."""
        for query in list(self.running):
            self.stop(query)
        self.wait_until_stopped()
        self.isolation.close()

    def wake(self) -> None:
        """Notify the ticker that a manual clock was moved."""
        self._ticker.wake()

    def close(self) -> None:
        """Finish the current batches and stop; what is not finished at the deadline is ended by force."""
        self.stopping.set()
        self._ticker.close()
        for query in list(self.running):
            self.stop(query)
        self.wait_until_stopped()
        self.isolation.close()
        self._program_lock.close()


def _writer_of(checkpoint: Checkpoint) -> str | None:
    """The name of the query's writer; None if it never started, or if its manifest is damaged."""
    with suppress(StateUnreadable):
        return None if (manifest := checkpoint.manifest) is None else writer_name(manifest.run)
    return None


def checkpoint_folder(folder: Path, query: str) -> Path:
    """The folder of a query's checkpoint: another one for each name. It never leaves `folder`."""
    name = _PLAIN.sub(_escaped, query)
    name = name if name.strip(".") else name.replace(".", "=2e.")
    if len(name) > _LONGEST_NAME:
        name = f"{name[:_LONGEST_NAME]}={hashlib.sha256(query.encode()).hexdigest()[:16]}"
    named = folder / name
    return named if name == query or named.exists() else _earlier_folder(folder, query) or named


def _escaped(match: re.Match[str]) -> str:
    return "".join(f"={ord(one):x}." for one in match[0])


def _earlier_folder(folder: Path, query: str) -> Path | None:
    """The folder that earlier versions used, where names could share one, if it is this query's."""
    name = _PLAIN.sub(lambda match: "-" * len(match[0]), query)
    earlier = folder / (name if name.strip(".") else name.replace(".", "-"))
    with suppress(StateUnreadable, OSError):
        manifest = Checkpoint(earlier).manifest
        return earlier if manifest is not None and manifest.query == query else None
    return None


_PLAIN = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST_NAME = 180
"""Characters of a folder's name: file systems allow 255 bytes, and names of files next to it are longer."""
