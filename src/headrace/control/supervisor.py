"""Queries that are to run, and those that do: started, halted, handed over, ended for good.

When one is to begin, and what is done if it fails, is decided by whoever has a supervisor: `Program` for a script.
"""

from __future__ import annotations

import logging
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from headrace.clock import Clock
from headrace.contracts import Log
from headrace.control.hold import Hold
from headrace.control.isolation import Isolation
from headrace.control.remains import forgetting, renumbered
from headrace.control.running import Running
from headrace.control.ticks import Ticker
from headrace.engine.batch.shipping import Setup, no_setup
from headrace.engine.checkpoint import Checkpoint, checkpoints, sweep
from headrace.engine.ground import Position
from headrace.engine.query import Prepared, prepare
from headrace.errors import HeadraceError, OutOfMemory, ProcessLost
from headrace.log.embedded.store import translated
from headrace.plan.nodes import Query
from headrace.settings import Settings

_PAUSE = 0.05  # seconds between two looks at queries that are being started
_AT_ONCE = 2  # queries that are being started
_TRIES: Mapping[type, int] = {ProcessLost: 5, OutOfMemory: 1}  # how often in a row one is started again
_logger = logging.getLogger(__name__)


@dataclass
class Enlisted:
    """A query that a statement made, and the position behind which it is to begin; None is the beginning."""

    query: Query
    start: Position | None = None
    paused: bool = False


class Supervisor:
    """Of the queries whose checkpoints lie in one folder, which is held by one process at a time."""

    def __init__(
        self,
        log: Log,
        settings: Settings,
        name: str,
        isolation: Isolation,
        clock: Clock,
        setup_of: Callable[[Query], Setup] = lambda query: no_setup,
    ) -> None:
        self.folder = folder = settings.data / "checkpoints" / name
        self._log = log
        self._settings = settings
        self.isolation = isolation
        self._setup_of = setup_of
        self.queries: dict[str, Enlisted] = {}
        self.running: dict[str, Running] = {}
        self.failed: dict[str, HeadraceError] = {}
        """Queries that have ended, and are not started again."""
        self.stopping = threading.Event()
        """Set from anywhere, it lets nothing more begin."""
        self._hold = Hold(folder, name)
        self._forget = forgetting(log)
        sweep(folder, self._forget)
        self._tries: Counter[str] = Counter()
        self._ticker = Ticker(log, clock)

    @property
    def paused(self) -> frozenset[str]:
        return frozenset(name for name, enlisted in self.queries.items() if enlisted.paused)

    # -- to run -----------------------------------------------------------------------------------------------------

    def enlist(self, query: Query, start: Position | None = None) -> None:
        self.queries[query.id] = Enlisted(query, start)

    def pause(self, query: str, *, paused: bool = True) -> None:
        """Or let it go on, whenever it is begun."""
        self.queries[query].paused = paused
        if paused:
            self.halt(query)

    def hand_over(self, old: str, new: str) -> None:
        """The new query goes on from the old one's checkpoint, and as the same writer; `start` sees if it fits."""
        self.halt(old)
        del self.queries[old]
        before, after = self._place(old), self._place(new)
        if before != after and before.exists() and not after.exists():
            with translated(self.folder):
                before.rename(after)

    def end(self, query: str) -> None:
        """For good: a query of the same name would begin anew."""
        self.halt(query)
        self.queries.pop(query, None)
        with translated(self.folder):
            Checkpoint(self._place(query)).remove(self._forget)

    # -- checkpoints ------------------------------------------------------------------------------------------------

    def _place(self, query: str) -> Path:
        return place_of(self.folder, query)

    def take_up(self, query: Query) -> None:
        """A statement that stands at another place now goes on from where it was."""
        folder, known = self._place(query.id), {self._place(name).name for name in self.queries}
        if not folder.exists() and (there := renumbered(self.folder, query, known)) is not None:
            with translated(self.folder):
                there.folder.rename(folder)

    def was_another(self, query: Query) -> bool:
        """In a run before, a later statement has replaced the query: it must not touch that one's state."""
        there = Checkpoint(self._place(query.id)).manifest
        return there is not None and there.text != query.text

    def left(self) -> list[str]:
        """Names of checkpoints that belong to no query."""
        known = {self._place(query).name for query in self.queries}
        return [there.folder.name for there in checkpoints(self.folder) if there.folder.name not in known]

    def forget_left(self) -> None:
        """Remove those for good."""
        for name in self.left():
            with translated(self.folder):
                Checkpoint(self.folder / name).remove(self._forget)

    def prepared(self, query: str) -> Prepared:
        """What is known of it without running it; raises what `start` would refuse."""
        enlisted = self.queries[query]
        with translated(self.folder):
            return prepare(self._log, enlisted.query, self._settings, self._place(query), enlisted.start)

    def check_code(self, query: Query) -> None:
        """Refuse code of the user's own that the query's state was not made by."""
        Checkpoint(self._place(query.id)).check_code(query)

    # -- running ----------------------------------------------------------------------------------------------------

    def start(self, query: str) -> None:
        """A process that is lost on the way, or not there in time, is as one that is lost later."""
        self._await_turn()
        enlisted, folder = self.queries[query], self._place(query)
        while not self.stopping.is_set():
            try:
                with translated(self.folder):
                    setup = self._setup_of(enlisted.query)
                    running = self.isolation.start(enlisted.query, folder, enlisted.start, self._ticker.watch, setup)
            except ProcessLost as lost:
                self._count_try(query, lost)
            else:
                self.running[query] = running
                self._ticker.begin(running)
                return

    @property
    def may_start(self) -> bool:
        """Few at a time: Spark gives up a process of Python's that is not there within 10 s, however busy it is."""
        return sum(running.is_starting for running in self.running.values()) < _AT_ONCE

    def _await_turn(self) -> None:
        while not self.may_start:
            if self.stopping.wait(_PAUSE):
                return

    def _count_try(self, query: str, lost: ProcessLost) -> None:
        """Raises the error if it is not worth another one."""
        self._tries[query] += 1
        if self._tries[query] > _TRIES[type(lost)]:
            raise lost
        _logger.warning("query %s is started again: %s", query, lost.what)

    def failures(self) -> Iterator[tuple[str, HeadraceError]]:
        """Queries that have failed, and are not known to have."""
        for name, running in list(self.running.items()):
            failure = None if name in self.failed else running.failure()
            if failure is not None:
                yield name, failure

    def give_up(self, query: str, failure: HeadraceError) -> None:
        _logger.warning("query %s has failed: %s", query, failure)
        self._ticker.forget(query)
        self.failed[query] = failure

    def start_again(self, query: str, failure: HeadraceError) -> None:
        """From its checkpoint, a few times, if it lost a process and not its memory, which others share; else raises
        the failure.
        """
        if not isinstance(failure, ProcessLost) or (isinstance(failure, OutOfMemory) and not self.isolation.apart):
            raise failure
        running = self.running[query]
        if running.progress.batches:
            del self._tries[query]  # what counts is how often in a row
        self._count_try(query, failure)
        running.stop()
        self._ticker.forget(query)
        self.start(query)

    def is_idle(self) -> bool:
        """Whether every query has done all there is to read, what other queries wrote included."""
        queries = [running for name, running in self.running.items() if name not in self.failed]
        before = [running.progress.batches for running in queries]
        if any(running.waiting() for running in queries):
            return False
        # Who ended a batch meanwhile may have written what another, that was looked at before, has yet to read.
        return before == [running.progress.batches for running in queries]

    def halt(self, query: str) -> None:
        """Stop it; it goes on when it is started again."""
        self._ticker.forget(query)
        self.failed.pop(query, None)
        if (running := self.running.pop(query, None)) is not None:
            running.stop()

    def renew(self) -> None:
        """Stop all, and give back what they shared; each goes on when it is started again."""
        for query in list(self.running):
            self.halt(query)
        self.isolation.close()

    def wake(self) -> None:
        """The clock was moved by hand."""
        self._ticker.wake()

    def close(self) -> None:
        """Let the batches under way end, query after query, and stop."""
        self._ticker.close()
        queries = list(self.running.values())
        for running in queries:
            running.drain()
        if queries:
            with ThreadPoolExecutor(len(queries)) as pool:  # each may take a second to notice
                list(pool.map(lambda running: running.stop(), queries))
        self.isolation.close()
        self._hold.close()


def place_of(folder: Path, query: str) -> Path:
    """Of a query's checkpoint among those of its program. A name of dots alone would be another folder."""
    name = re.sub(r"[^A-Za-z0-9._-]", "-", query)
    return folder / (name if name.strip(".") else name.replace(".", "-"))
