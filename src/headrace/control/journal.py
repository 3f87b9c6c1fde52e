"""The statements that made what a server has, in the log itself: read again when it starts, in the order they came.

    journal = Journal(log)
    for entry in journal.entries: ...
    journal.add("CREATE STREAM ...", properties={}, start=None)

When `add` returns, the statement is durable; if it raises, it does not count, even if a log that does not answer has
taken it after all: the next one says anew what does. A journal has one writer: who opens it fences whoever had it
before. Statements whose things are gone again are left out when there are many of them: all that counts is written as
one record, and what lies before that is removed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from headrace.clock import Clock
from headrace.contracts import Append, Log, Writer
from headrace.engine.ground import Position
from headrace.errors import HeadraceError, StateUnreadable, WriterFenced
from headrace.log.rows import from_records
from headrace.log.topics import ensure_topic
from headrace.record import Record

TOPIC = "__statements"
_WRITER = "statements"
_VERSION = 1


@dataclass(frozen=True)
class Entry:
    """A statement that was done. `number` is its place, and that of the query it made."""

    number: int
    text: str
    properties: Mapping[str, Any] = field(default_factory=dict)
    start: Position | None = None
    """Behind which its query begins; None is the beginning."""
    deletes: int | None = None
    """When the topic was made that the statement deletes: one of the same name that came later stays."""
    at: int = 0
    app: str | None = None
    """If it is no statement, whose code this is."""
    code: Mapping[str, str] | None = None
    """Its `source`, and the `path` of its file; None if the app is withdrawn."""


class Journal:
    def __init__(self, log: Log, clock: Clock) -> None:
        ensure_topic(log, TOPIC)
        self._log = log
        self._clock = clock
        self._writer: Writer | None = log.writer(_WRITER)
        """None after an append that failed, until it is opened anew."""
        self._is_doubtful = False
        """Whether the log may hold an entry that nobody knows of."""
        self.entries, self.next = journalled(log)
        """`next` is the number of the next entry; none is given twice."""

    def add(
        self, text: str, properties: Mapping[str, Any], start: Position | None = None, deletes: int | None = None
    ) -> Entry:
        return self._add(Entry(self.next, text, dict(properties), start, deletes, self._clock.now()))

    def add_code(self, app: str, code: Mapping[str, str] | None) -> Entry:
        """An app's, which replaces what it was before; None withdraws it."""
        return self._add(Entry(self.next, "", at=self._clock.now(), app=app, code=code))

    def _add(self, entry: Entry) -> Entry:
        self._append([entry], self.next + 1)
        self.entries.append(entry)
        self.next += 1
        return entry

    def keep(self, entries: Sequence[Entry]) -> None:
        """Only these count from now on."""
        place = self._log.bounds(TOPIC)[0].end
        self._append(entries, self.next, whole=True)
        self.entries = list(entries)
        self._log.truncate(TOPIC, 0, place)

    def _append(self, entries: Sequence[Entry], following: int, *, whole: bool = False) -> None:
        if self._writer is None:
            self._writer = self._log.writer(_WRITER)
        if self._is_doubtful:
            entries, whole = entries if whole else [*self.entries, *entries], True
        told = [asdict(entry) for entry in entries]
        value = {"version": _VERSION, "whole": whole, "next": following, "entries": told}
        number = 0 if self._writer.last is None else self._writer.last + 1
        rows = from_records([Record(json.dumps(value).encode())])
        try:
            self._writer.append(number, [Append(TOPIC, rows, 0)])
        except WriterFenced:
            raise
        except HeadraceError:
            if not self._is_there(number):
                raise
        self._is_doubtful = False

    def _is_there(self, number: int) -> bool:
        """After an append that failed, as far as anybody knows. Who opens the writer anew is told."""
        self.close()
        before, self._is_doubtful, self._writer = self._is_doubtful, True, None
        self._writer = self._log.writer(_WRITER)
        self._is_doubtful = before
        return self._writer.last == number

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


def journalled(log: Log) -> tuple[list[Entry], int]:
    """All entries, and the number of the next, for anybody who looks; the topic must be there."""
    entries: list[Entry] = []
    following = 0
    for found in _read(log):
        entries = [*([] if found["whole"] else entries), *(Entry(**one) for one in found["entries"])]
        following = found["next"]
    return entries, following


def _read(log: Log) -> Iterator[dict[str, Any]]:
    offset, end = log.bounds(TOPIC)[0]
    while offset < end:
        batch = log.read(TOPIC, 0, offset)
        for record in batch.records():
            found = json.loads(record.value or b"{}")
            if found.get("version") != _VERSION:
                raise StateUnreadable(
                    f"a statement was journalled by another version of headrace ({found.get('version')})",
                    where=f"topic {TOPIC}, offset {record.offset}",
                    fix="run the version that wrote it, or a newer one",
                )
            yield found
        offset = batch.next_offset
