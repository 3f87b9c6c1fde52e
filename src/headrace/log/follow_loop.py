"""Follows a log: takes turns while there are records, and otherwise sleeps until something is appended.

    loop = FollowLoop(log, "views", turn).start()
    loop.wake()   # something other than the log has changed: take a turn
    loop.close()

A turn reads one page and passes it on, so memory is bounded and a stop is never far. What it reads, and what it does
about removed records, is the follower's own affair: followers differ in that, not in how they wait, stop and retry.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Self

from headrace.background_work import give_way
from headrace.backoff import Backoff
from headrace.contracts import Log
from headrace.errors import Closed, HeadraceError
from headrace.log.append_waiter import AppendWaiter

IDLE_SECONDS = 1.0
"""The usual result of a turn that found nothing. It has a limit because correctness must not depend on the signal."""
_BACKOFF = Backoff(0.1, 5.0)

_logger = logging.getLogger(__name__)


class FollowLoop:
    """Calls `turn` until it is stopped, or the log is closed.

    A turn returns how many seconds the next one can wait for an append: 0 if there may be more records. A turn that
    raises is repeated after a pause that grows. `quiet_seconds` is the pause between an append and the turn that reads
    it: the log signals appends to any topic, so a follower of one topic would read in vain at each of them.
    """

    def __init__(self, log: Log, name: str, turn: Callable[[], float], *, quiet_seconds: float = 0.0) -> None:
        self._name = name
        self._turn = turn
        self._quiet_seconds = quiet_seconds
        self._failures = 0
        self._appends = AppendWaiter(log)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self.run, name=name, daemon=True)

    def start(self) -> Self:
        """Run in a thread of its own."""
        self._thread.start()
        return self

    def run(self) -> None:
        """Run in the caller's thread."""
        give_way()
        with suppress(Closed):
            while not self._stopping.is_set():
                self._appends.watch()  # before the turn: an append while it reads ends the wait after it
                seconds = self._try_turn()
                if seconds > 0 and not self._stopping.is_set():
                    self._appends.wait(seconds)
                    self.pause(self._quiet_seconds)

    def wake(self) -> None:
        """Take a turn now, although nothing was appended."""
        self._appends.wake()

    def pause(self, seconds: float) -> None:
        """Wait within a turn; only a stop ends it earlier."""
        self._stopping.wait(seconds)

    def stop(self) -> None:
        """Take no further turn; returns at once, also within a turn."""
        self._stopping.set()
        self._appends.wake()

    def close(self) -> None:
        """Stop, and wait until the current turn is over."""
        self.stop()
        self._thread.join()

    def _try_turn(self) -> float:
        try:
            seconds = self._turn()
        except Closed:
            raise
        except Exception as error:  # for example a full disk, or a broker that does not respond
            self._failures += 1
            known = isinstance(error, HeadraceError)
            _logger.warning("%s will retry: %s", self._name, error, exc_info=not known)
            self.pause(_BACKOFF.pause(self._failures))
            return 0.0
        self._failures = 0
        return seconds
