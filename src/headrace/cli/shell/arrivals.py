"""Rows on their way: read by a thread, so that who shows them knows whether more have come already.

Few are read ahead of who shows them, so a terminal that is slow, or a pipe that nobody reads, slows the server down and
fills no memory.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from headrace.client import Rows

Row = list[Any]
_AHEAD = 16  # batches that were read and not shown
_AT_ONCE = 1000  # rows


@dataclass(frozen=True)
class _End:
    error: BaseException | None = None


class Arrivals:
    """Of one query; leave its block, and the query ends."""

    def __init__(self, rows: Rows) -> None:
        self.names, self.types, self.formats = rows.names, rows.types, rows.formats
        self.has_ended = False
        self._error: BaseException | None = None
        self._rows = rows
        self._left = False
        self._queue: queue.Queue[list[Row] | _End] = queue.Queue(_AHEAD)
        self._thread = threading.Thread(target=self._read, name="rows", daemon=True)
        self._thread.start()

    def _read(self) -> None:
        end = _End()
        try:
            for batch in self._rows.batches():
                self._queue.put(batch)
                if self._left:
                    return
        except BaseException as error:  # whatever it is, it is raised where the rows are waited for
            end = _End(error)
        self._queue.put(end)

    def first(self, enough: int, patience: float, shortly: float) -> list[Row]:
        """Wait for a row for some seconds, and for those that come shortly behind it."""
        found = self._taken(enough, patience)
        until = time.monotonic() + (shortly if found else 0)
        while not self.has_ended and len(found) < enough and (left := until - time.monotonic()) > 0:
            found += self._taken(enough - len(found), left)
        if not found:
            self._check()
        return found

    def batches(self) -> Iterator[list[Row]]:
        """As many at a time as are there. An error is raised when the rows before it have been given out."""
        while not self.has_ended:
            if found := self._taken(_AT_ONCE, None):
                yield found
        self._check()

    def _taken(self, enough: int, seconds: float | None) -> list[Row]:
        """Wait for some, then take what else is there, until it is enough."""
        found: list[Row] = []
        with suppress(queue.Empty):
            one = self._queue.get(timeout=seconds)
            while not isinstance(one, _End):
                found += one
                if len(found) >= enough:
                    return found
                one = self._queue.get_nowait()
            self.has_ended, self._error = True, one.error
        return found

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    def __enter__(self) -> Arrivals:
        return self

    def __exit__(self, *_: object) -> None:
        self._left = True
        self._rows.close()
        while self._thread.is_alive():  # it may be waiting for room
            with suppress(queue.Empty):
                self._queue.get_nowait()
            self._thread.join(0.01)
