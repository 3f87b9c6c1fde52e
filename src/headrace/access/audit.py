"""Audit log with a hash chain: an entry cannot be changed, removed or inserted unnoticed.

    audit.note("statement", principal.name, text="DROP STREAM ...")
    verify_audit(log)   number of entries, and the hash of the last; raises where the chain is broken

Each entry holds the hash of the previous one. A named writer of the log numbers the entries. Opening that writer fences
its previous owner, and the new owner reads the last entry again: so several processes write one chain, and a killed
process leaves it intact. An attacker who can write the log's files could rewrite the whole chain; a copy of the last
hash stored elsewhere reveals that, too.
"""

from __future__ import annotations

import hashlib
import json
import math
import threading
import time
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from headrace.clock import Clock
from headrace.contracts import Append, Log
from headrace.errors import AuditBroken
from headrace.log.folded_topic import read_records
from headrace.log.shared_writer import SharedWriter
from headrace.log.topic_spec import ensure_topic
from headrace.record import Record

TOPIC = "__audit"
GENESIS_HASH = "0" * 64
"""Stands for the previous hash in the first entry."""
_WRITER = "audit"
_SAME = 60.0  # seconds in which the same refusal is recorded once
_CACHE_SIZE = 1_000
MAX_DISTINCT_REFUSALS = 20
"""Different refusals of one kind that are recorded per principal within that time."""
_LONGEST = 2_000  # characters of a text
_PAGE = 5_000  # entries that are read at once
_WHERE, _FIX = f"topic {TOPIC}", "check who had write access to the log's files, and restore a backup"


@dataclass(frozen=True)
class AuditEntry:
    """`at` is the time in ms; `details` depend on the action."""

    number: int
    at: int
    action: str
    principal: str
    details: Mapping[str, Any]
    hash: str


class RefusalLimiter:
    """Remembers which refusals were recorded recently. Thread-safe."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._recent: OrderedDict[object, tuple[float, set[object], int]] = OrderedDict()

    def add(self, of: object, what: object) -> int | None:
        """How many refusals were suppressed before this one; None if this one is suppressed, too."""
        with self._lock:
            began, noted, unsaid = self._recent.pop(of, (self._now(), set[object](), 0))
            if self._now() - began >= _SAME:
                began, noted = self._now(), set[object]()
            is_new = what not in noted and len(noted) < MAX_DISTINCT_REFUSALS
            self._recent[of] = (began, noted | {what}, 0) if is_new else (began, noted, unsaid + 1)
            while len(self._recent) > _CACHE_SIZE:
                self._recent.popitem(last=False)
            return unsaid if is_new else None


class Audit:
    """The audit log of one process. Thread-safe."""

    def __init__(self, log: Log, clock: Clock) -> None:
        ensure_topic(log, TOPIC)
        self._log = log
        self._clock = clock
        self._lock = threading.Lock()
        self._writer = SharedWriter(log, _WRITER)
        self._last = (-1, GENESIS_HASH)
        """The number and the hash of the last entry that this process has written."""
        self._refusals = RefusalLimiter()

    def note(self, action: str, principal: str, **facts: Any) -> None:
        """Record an entry; it is durable on return."""
        shortened = {name: value[:_LONGEST] if isinstance(value, str) else value for name, value in facts.items()}
        with self._lock:
            self._append({"at": self._clock.now(), "did": action, "who": principal[:_LONGEST], **shortened})

    def note_once(self, action: str, principal: str, **facts: Any) -> None:
        """Record at most once a minute, and a limited number per principal: a loop must not fill the disk."""
        if (unsaid := self._refusals.add((action, principal), tuple(sorted(facts.items())))) is not None:
            self.note(action, principal, **facts, **({"not_noted": unsaid} if unsaid else {}))

    def _append(self, facts: Mapping[str, Any]) -> None:
        """Numbers continue from the writer's last number, so a missing entry is detected."""
        appended = self._last

        def prepare(number: int) -> Sequence[Append]:
            nonlocal appended
            is_next = 0 < number == self._last[0] + 1  # no other process has appended since
            before = self._last[1] if is_next else _last_hash(self._log)
            text = json.dumps({"number": number, "before": before, **facts}).encode()
            appended = number, _hash(text)
            return [Append(TOPIC, [Record(text)], 0)]

        self._writer.append(prepare)
        self._last = appended

    def close(self) -> None:
        with self._lock:
            self._writer.close()


# -- read and verify ------------------------------------------------------------------------------------------------


def read_audit(log: Log, start: int = 0, limit: int | None = None) -> Iterator[AuditEntry]:
    """The entries from a number on as stored, unverified; `verify_audit` checks them."""
    offset = _offset_of(log, start) if start else 0
    page = _PAGE if limit is None else min(limit, _PAGE)
    return map(_entry, islice(_texts(log, offset, page), limit))


def newest_entries(log: Log, before: int | None, limit: int) -> list[AuditEntry]:
    """The newest entries, or the newest before a number; newest first, unverified."""
    last = _last_text(log)
    end = 0 if last is None else _entry(last).number + 1
    end = end if before is None else min(before, end)
    page = read_audit(log, max(0, end - limit), limit)
    return [entry for entry in page if entry.number < end][::-1]


def _offset_of(log: Log, number: int) -> int:
    """The offset of the first entry with this number or a higher one.

    It is searched for: on Kafka, markers of transactions take offsets too.
    """

    def number_at(offset: int) -> float:
        text = next(_texts(log, offset, 1), None)
        return math.inf if text is None else _entry(text).number

    bounds = log.bounds(TOPIC)[0]
    return bisect_left(range(bounds.end), number, lo=bounds.start, key=number_at)


@dataclass(frozen=True)
class AuditVerification:
    count: int
    head: str


def verify_audit(log: Log, known: str | None = None) -> AuditVerification:
    """Verify the chain of all entries; `known` is the hash of an entry that must be among them."""
    last_number = _last_number(log)  # before the entries are read: more may be appended meanwhile
    number, before, seen = -1, GENESIS_HASH, known in (None, GENESIS_HASH)
    for text in _texts(log):
        entry = _entry(text)
        number += 1
        if entry.number != number or json.loads(text)["before"] != before:
            raise _broken(number, entry.number)
        before = entry.hash
        seen = seen or before == known
    if number < last_number:
        raise AuditBroken(f"entries {number + 1} to {last_number}, the last ones, are missing", where=_WHERE, fix=_FIX)
    if not seen:
        raise AuditBroken(f"no entry has the hash {known}: the audit log was rewritten", where=_WHERE, fix=_FIX)
    return AuditVerification(number + 1, before)


def _broken(expected: int, actual: int) -> AuditBroken:
    if actual > expected:
        what = f"entries {expected} to {actual - 1} were removed"
    elif actual < expected:
        what = f"an entry with number {actual} was inserted after entry {expected - 1}"
    else:
        what = (
            f"entry {expected - 1} was changed, or entry {expected} was inserted"
            if expected
            else "entry 0 was inserted"
        )
    return AuditBroken(what, where=_WHERE, fix=_FIX)


def _last_number(log: Log) -> int:
    """The writer's last number. Reading it fences the process that writes, which then opens its writer again."""
    writer = log.writer(_WRITER)
    writer.close()
    return -1 if writer.last is None else writer.last


def _entry(text: bytes) -> AuditEntry:
    try:
        facts = json.loads(text)
        details = {name: value for name, value in facts.items() if name not in ("number", "at", "did", "who", "before")}
        return AuditEntry(facts["number"], facts["at"], facts["did"], facts["who"], details, _hash(text))
    except (ValueError, KeyError, TypeError) as error:
        raise AuditBroken("an entry cannot be read", where=_WHERE, fix=_FIX) from error


def _texts(log: Log, offset: int = 0, page: int = _PAGE) -> Iterator[bytes]:
    return (record.value or b"" for record in read_records(log, TOPIC, offset, page))


def _last_hash(log: Log) -> str:
    last = _last_text(log)
    return GENESIS_HASH if last is None else _hash(last)


def _last_text(log: Log) -> bytes | None:
    """Reads backwards: on Kafka the last offsets may hold no record."""
    (start, end), back = log.bounds(TOPIC)[0], 16
    while True:
        if texts := list(_texts(log, end - back)):
            return texts[-1]
        if end - back <= start:
            return None
        back *= 16


def _hash(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()
