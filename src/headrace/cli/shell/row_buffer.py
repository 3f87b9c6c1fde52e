"""Rows in transit: a thread reads them, so that the output knows whether more have already arrived.

Read-ahead is bounded, so a slow terminal, or a pipe that is not read, slows down the server and does not fill memory.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from headrace.client import RowStream

Row = list[Any]
_READ_AHEAD = 16  # batches read ahead
_AT_ONCE = 1000  # rows


@dataclass(frozen=True)
class _End:
    error: BaseException | None = None


class RowBuffer:
    """The rows of one query. Leaving the block stops the query."""

    def __init__(self, rows: RowStream) -> None:
        self.names, self.types, self.formats = rows.names, rows.types, rows.formats
        self.has_ended = False
        self._error: BaseException | None = None
        self._rows = rows
        self._closed = False
        self._queue: queue.Queue[list[Row] | _End] = queue.Queue(_READ_AHEAD)
        self._thread = threading.Thread(target=self._read, name="rows", daemon=True)
        self._thread.start()

    def _read(self) -> None:
        end = _End()
        try:
            for batch in self._rows.batches():
                self._queue.put(batch)
                if self._closed:
                    return
        except BaseException as error:  # any error is re-raised in the thread that waits for rows
            end = _End(error)
        self._queue.put(end)

    def first(self, enough: int, timeout: float, further: float) -> list[Row]:
        """Wait up to `timeout` seconds for a row, and `further` seconds more for those that follow."""
        rows = self._take(enough, timeout)
        until = time.monotonic() + (further if rows else 0)
        while not self.has_ended and len(rows) < enough and (remaining := until - time.monotonic()) > 0:
            rows += self._take(enough - len(rows), remaining)
        if not rows:
            self._check()
        return rows

    def batches(self) -> Iterator[list[Row]]:
        """As many rows at a time as have arrived. An error is raised after the rows before it."""
        while not self.has_ended:
            if rows := self._take(_AT_ONCE, None):
                yield rows
        self._check()

    def _take(self, enough: int, seconds: float | None) -> list[Row]:
        """Wait for rows, then take those that have already arrived, until there are enough."""
        rows: list[Row] = []
        with suppress(queue.Empty):
            one = self._queue.get(timeout=seconds)
            while not isinstance(one, _End):
                rows += one
                if len(rows) >= enough:
                    return rows
                one = self._queue.get_nowait()
            self.has_ended, self._error = True, one.error
        return rows

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    def __enter__(self) -> RowBuffer:
        return self

    def __exit__(self, *_: object) -> None:
        self._closed = True
        self._rows.close()
        while self._thread.is_alive():  # it may be blocked on the full queue
            with suppress(queue.Empty):
                self._queue.get_nowait()
            self._thread.join(0.01)
