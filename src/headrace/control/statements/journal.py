"""The statement journal: statements and app code of a server, stored in the log and replayed in order at startup.

    journal = Journal(log, clock)
    for entry in journal.entries: ...
    journal.add("CREATE STREAM ...", properties={}, start=None)

When `add` returns, the statement is durable. If it raises, the statement does not count, even if the log stored it
without acknowledging: the next append then writes all valid entries again. A journal has one writer: opening it fences
the previous one. When there are many obsolete statements, the journal is compacted: all needed entries are written as
one record, and the records before it are removed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from headrace.clock import Clock
from headrace.contracts import Append, Log, Writer
from headrace.engine.log_adapter import Position
from headrace.errors import HeadraceError, StateUnreadable, WriterFenced
from headrace.lang.registry import KSQL
from headrace.log.folded_topic import read_records
from headrace.log.stored_rows import from_records
from headrace.log.topic_spec import ensure_topic
from headrace.record import Record

JOURNAL_TOPIC = "__statements"
_WRITER = "statements"
_VERSION = 1


@dataclass(frozen=True)
class JournalEntry:
    """An applied statement. `number` is its position, and the number of the query that it created."""

    number: int
    text: str
    properties: Mapping[str, Any] = field(default_factory=dict)
    start: Position | None = None
    """The position after which its query starts; None is the beginning."""
    deletes: int | None = None
    """Creation time of the topic that the statement deletes: a later topic of the same name is not deleted."""
    at: int = 0
    app: str | None = None
    """The app, if the entry is code and not a statement."""
    language: str = KSQL
    """The dialect of the statement."""
    code: Mapping[str, str] | None = None
    """The app's `source`, and the `path` of its file; None if the app was removed."""
    by: str = ""
    """The principal who executed the statement; empty in entries of earlier versions."""
    creates_topic: bool = False
    """Whether the statement created the topic of its source."""


class Journal:
    def __init__(self, log: Log, clock: Clock) -> None:
        ensure_topic(log, JOURNAL_TOPIC)
        self._log = log
        self._clock = clock
        self._writer: Writer | None = log.writer(_WRITER)
        """None after a failed append, until it is opened again."""
        self._may_have_unknown_entry = False
        """Whether the log may contain an entry that is not in `entries`."""
        self.entries, self.next = read_journal(log)
        """`next` is the number of the next entry; numbers are never reused."""

    def add(
        self,
        text: str,
        properties: Mapping[str, Any],
        start: Position | None = None,
        deletes: int | None = None,
        *,
        language: str = KSQL,
        by: str = "",
        creates_topic: bool = False,
    ) -> JournalEntry:
        more = {"at": self._clock.now(), "language": language, "by": by, "creates_topic": creates_topic}
        return self._add(JournalEntry(self.next, text, dict(properties), start, deletes, **more))

    def add_code(self, app: str, code: Mapping[str, str] | None) -> JournalEntry:
        """Add the code of an app, which replaces its earlier code; None removes the app."""
        return self._add(JournalEntry(self.next, "", at=self._clock.now(), app=app, code=code))

    def _add(self, entry: JournalEntry) -> JournalEntry:
        self._append([entry], self.next + 1)
        self.entries.append(entry)
        self.next += 1
        return entry

    def compact(self, entries: Sequence[JournalEntry]) -> None:
        """Compact the journal to these entries."""
        end = self._log.bounds(JOURNAL_TOPIC)[0].end
        self._append(entries, self.next, whole=True)
        self.entries = list(entries)
        self._log.truncate(JOURNAL_TOPIC, 0, end)

    def _append(self, entries: Sequence[JournalEntry], next_number: int, *, whole: bool = False) -> None:
        if self._writer is None:
            self._writer = self._log.writer(_WRITER)
        if self._may_have_unknown_entry:
            entries, whole = entries if whole else [*self.entries, *entries], True
        documents = [asdict(entry) for entry in entries]
        value = {"version": _VERSION, "whole": whole, "next": next_number, "entries": documents}
        number = 0 if self._writer.last is None else self._writer.last + 1
        rows = from_records([Record(json.dumps(value).encode())])
        try:
            self._writer.append(number, [Append(JOURNAL_TOPIC, rows, 0)])
        except WriterFenced:
            raise
        except HeadraceError:
            if not self._is_stored(number):
                raise
        self._may_have_unknown_entry = False

    def _is_stored(self, number: int) -> bool:
        """Whether a failed append was stored after all: reopening the writer returns its last number."""
        self.close()
        before, self._may_have_unknown_entry, self._writer = self._may_have_unknown_entry, True, None
        self._writer = self._log.writer(_WRITER)
        self._may_have_unknown_entry = before
        return self._writer.last == number

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


def read_journal(log: Log) -> tuple[list[JournalEntry], int]:
    """All entries, and the number of the next one; read-only, the topic must exist."""
    entries: list[JournalEntry] = []
    next_number = 0
    for document in _read(log):
        entries = [*([] if document["whole"] else entries), *(JournalEntry(**one) for one in document["entries"])]
        next_number = document["next"]
    return entries, next_number


def _read(log: Log) -> Iterator[dict[str, Any]]:
    log.topic(JOURNAL_TOPIC)  # a log that no server has used is not the same as an empty journal
    for record in read_records(log, JOURNAL_TOPIC):
        document = json.loads(record.value or b"{}")
        if document.get("version") != _VERSION:
            raise StateUnreadable(
                f"another version of headrace wrote a statement of the journal ({document.get('version')})",
                where=f"topic {JOURNAL_TOPIC}, offset {record.offset}",
                fix="run the version that wrote it, or a later one",
            )
        yield document
