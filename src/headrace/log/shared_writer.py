"""A named writer that several processes use in turn.

Opening the writer fences its previous owner. What is appended is prepared after that, so it takes every earlier append
into account; and the append fails if yet another process has opened the writer since. Then it is prepared again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from headrace.backoff import Backoff
from headrace.contracts import Append, Appended, Log, Writer
from headrace.errors import LogBusy, WriterFenced

_PATIENCE = 20.0  # seconds to wait for other writers
_LONGEST_PAUSE = 1.0  # seconds


class SharedWriter:
    """Not thread-safe."""

    def __init__(self, log: Log, name: str) -> None:
        self._log = log
        self._name = name
        self._writer: Writer | None = None

    def append(self, prepare: Callable[[int], Sequence[Append]]) -> list[Appended]:
        """Append what `prepare` returns for the number of this append; nothing if that is empty."""
        until, attempt = time.monotonic() + _PATIENCE, 0
        while True:
            began, attempt = time.monotonic(), attempt + 1
            try:
                return self._try(prepare)
            except WriterFenced:
                if time.monotonic() > until:
                    raise LogBusy(f'others use writer "{self._name}" all the time', fix="try again") from None
            # Random pause: two equally fast processes would fence each other forever.
            time.sleep(Backoff(2 * (time.monotonic() - began), _LONGEST_PAUSE, jitter=1.0).pause(attempt))

    def _try(self, prepare: Callable[[int], Sequence[Append]]) -> list[Appended]:
        writer = self._writer = self._writer or self._log.writer(self._name)
        number = 0 if writer.last is None else writer.last + 1
        appends = prepare(number)
        if not appends:
            return []
        try:
            return writer.append(number, appends) or []
        except BaseException:  # whether it was stored may be unknown: only opening the writer again can tell
            self.close()
            raise

    def close(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()
