"""Idempotent producers: each request has a sequence number, and a number that was used before appends nothing.

Each producer is a named writer of the log, which stores its last number with the records, in one transaction. Numbers
are consecutive from 0. A gap is refused, since the missing number would be taken for a repeat if it came later.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress

from headrace.contracts import Append, Appended, Log, Writer
from headrace.errors import BadRequest, SequenceGap, WriterFenced
from headrace.watched_lock import WatchedLock

_OPEN = 1_000  # writers held open; any other one is opened again, which costs a commit
_LONGEST = 200


class IdempotentProducers:
    """Thread-safe. Requests of one producer are serialized."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._guard = threading.Lock()
        self._open: OrderedDict[str, _Numbered] = OrderedDict()

    def append(self, name: str, number: int, appends: Sequence[Append]) -> list[Appended] | None:
        """Append under a sequence number; returns None if the number was used before."""
        if not 0 < len(name) <= _LONGEST or number < 0:
            raise BadRequest(
                "a producer needs a name and a sequence number of at least 0",
                fix=f"use a name of at most {_LONGEST} characters",
            )
        with self._guard:
            producer = self._open.setdefault(name, _Numbered(self._log, f"http:{name}"))
            self._open.move_to_end(name)
            left = [self._open.popitem(last=False)[1] for _ in range(len(self._open) - _OPEN)]
        for one in left:
            one.close()
        return producer.append(number, appends)


class _Numbered:
    """One producer. Its writer is opened on demand, and again after an error: only then is `last` reliable."""

    def __init__(self, log: Log, name: str) -> None:
        self._log = log
        self._name = name
        self._turn = WatchedLock("idempotent producer")
        self._writer: Writer | None = None

    def append(self, number: int, appends: Sequence[Append]) -> list[Appended] | None:
        with self._turn:
            with suppress(WriterFenced):  # fenced by another server: take the writer back once
                return self._append(number, appends)
            return self._append(number, appends)

    def _append(self, number: int, appends: Sequence[Append]) -> list[Appended] | None:
        writer = self._writer = self._writer or self._log.writer(self._name)
        due = 0 if writer.last is None else writer.last + 1
        if number > due:
            raise SequenceGap(f"sequence number {number} arrived before {due}", fix=f"send {due} first")
        try:
            return writer.append(number, appends)
        except BaseException:
            self._writer = None
            with suppress(Exception):
                writer.close()
            raise

    def close(self) -> None:
        with self._turn:
            if self._writer is not None:
                self._writer.close()
                self._writer = None
