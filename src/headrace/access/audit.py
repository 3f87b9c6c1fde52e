"""What was done, by whom: each entry holds the hash of the one before it, so that none can be changed, removed or put
in without a trace.

    audit.note("statement", who.name, text="DROP STREAM ...")
    verified(log)       how many entries there are, and the hash of the last; raises where the chain is broken

Entries are numbered by a named writer of the log. Whoever opens that writer fences the one before, and reads the last
entry anew: so several processes write one chain, and one that is killed leaves it whole. Whoever can write the log's
files could write the whole chain anew; who notes the last hash elsewhere finds that, too.
"""

from __future__ import annotations

import hashlib
import json
import random
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from headrace.clock import Clock
from headrace.contracts import Append, Log, Writer
from headrace.errors import AuditBroken, HeadraceError, UnknownTopic, WriterFenced
from headrace.log.topics import ensure_topic
from headrace.record import Record

TOPIC = "__audit"
FIRST = "0" * 64
"""What stands in the place of a hash before the first entry."""
_WRITER = "audit"
_SAME = 60.0  # seconds in which the same refusal is noted once
_KEPT = 1_000
MOST = 20
"""Different refusals of one kind that are noted of one person within that time."""
_TRIES = 100
_LONGEST_PAUSE = 0.1  # seconds
_LONGEST = 2_000  # characters of a text
_WHERE, _FIX = f"topic {TOPIC}", "look for who could write the log's files, and for a backup"


@dataclass(frozen=True)
class Entry:
    """`at` is when, in ms; `facts` say more, by kind of deed."""

    number: int
    at: int
    did: str
    who: str
    facts: Mapping[str, Any]
    hash: str


class Refusals:
    """Which were noted lately. May be shared by threads."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._turn = threading.Lock()
        self._lately: OrderedDict[object, tuple[float, set[object], int]] = OrderedDict()

    def add(self, of: object, what: object) -> int | None:
        """How many were not noted before this one; None if it is not, either."""
        with self._turn:
            began, noted, unsaid = self._lately.pop(of, (self._now(), set[object](), 0))
            if self._now() - began >= _SAME:
                began, noted = self._now(), set[object]()
            is_new = what not in noted and len(noted) < MOST
            self._lately[of] = (began, noted | {what}, 0) if is_new else (began, noted, unsaid + 1)
            while len(self._lately) > _KEPT:
                self._lately.popitem(last=False)
            return unsaid if is_new else None


class Audit:
    """Of one process. May be shared by threads."""

    def __init__(self, log: Log, clock: Clock) -> None:
        ensure_topic(log, TOPIC)
        self._log = log
        self._clock = clock
        self._turn = threading.Lock()
        self._writer: Writer | None = None
        self._last = (-1, FIRST)
        self._refusals = Refusals()

    def note(self, did: str, who: str, **facts: Any) -> None:
        """It is durable when this returns."""
        shortened = {name: value[:_LONGEST] if isinstance(value, str) else value for name, value in facts.items()}
        with self._turn:
            self._append({"at": self._clock.now(), "did": did, "who": who[:_LONGEST], **shortened})

    def note_once(self, did: str, who: str, **facts: Any) -> None:
        """Not again within a minute, and of one only so many: whoever asks in a loop must not fill the disk."""
        if (unsaid := self._refusals.add((did, who), tuple(sorted(facts.items())))) is not None:
            self.note(did, who, **facts, **({"not_noted": unsaid} if unsaid else {}))

    def _append(self, facts: Mapping[str, Any]) -> None:
        for tried in range(_TRIES):
            writer = self._writer = self._writer or self._opened()
            number, before = self._last
            text = json.dumps({"number": number + 1, "before": before, **facts}).encode()
            try:
                writer.append(number + 1, [Append(TOPIC, [Record(text)], 0)])
            except WriterFenced:  # another process has written meanwhile; two must not go on fencing each other
                self._writer = None
                time.sleep(random.uniform(0, min(_LONGEST_PAUSE, 0.001 * 2**tried)))
                continue
            except HeadraceError:  # nobody knows whether it is there: the next one looks
                self._writer = None
                raise
            self._last = (number + 1, _hash(text))
            return
        raise WriterFenced("others write the audit all the time", fix="try again")

    def _opened(self) -> Writer:
        """Numbers go on from the writer's own last: one that is missing then is seen."""
        writer = self._log.writer(_WRITER)
        before = _last_hash(self._log)
        self._last = (-1 if writer.last is None else writer.last, before)
        return writer

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


# -- reading --------------------------------------------------------------------------------------------------------


def entries(log: Log) -> Iterator[Entry]:
    """All of them, as they are; whether they are true is for `verified`."""
    for text in _texts(log, 0):
        yield _entry(text)


@dataclass(frozen=True)
class Verified:
    count: int
    head: str


def verified(log: Log, known: str | None = None) -> Verified:
    """Whether all entries follow each other; `known` is the hash of one that must be among them."""
    written = _written(log)  # before they are read: more may come meanwhile
    number, before, seen = -1, FIRST, known in (None, FIRST)
    for text in _texts(log, 0):
        entry = _entry(text)
        number += 1
        if entry.number != number or json.loads(text)["before"] != before:
            raise _broken(number, entry.number)
        before = entry.hash
        seen = seen or before == known
    if number < written:
        raise AuditBroken(f"entries {number + 1} to {written}, the last ones, were removed", where=_WHERE, fix=_FIX)
    if not seen:
        raise AuditBroken(f"no entry has the hash {known}: it was written anew", where=_WHERE, fix=_FIX)
    return Verified(number + 1, before)


def _broken(expected: int, found: int) -> AuditBroken:
    if found > expected:
        what = f"entries {expected} to {found - 1} were removed"
    elif found < expected:
        what = f"an entry with number {found} was put in after entry {expected - 1}"
    else:
        what = f"entry {expected - 1} was changed, or entry {expected} put in" if expected else "entry 0 was put in"
    return AuditBroken(what, where=_WHERE, fix=_FIX)


def _written(log: Log) -> int:
    """The last number, as the log remembers it. Who writes is fenced by the look, and opens its writer anew."""
    writer = log.writer(_WRITER)
    writer.close()
    return -1 if writer.last is None else writer.last


def _entry(text: bytes) -> Entry:
    try:
        facts = json.loads(text)
        told = {name: value for name, value in facts.items() if name not in ("number", "at", "did", "who", "before")}
        return Entry(facts["number"], facts["at"], facts["did"], facts["who"], told, _hash(text))
    except (ValueError, KeyError, TypeError) as error:
        raise AuditBroken("an entry cannot be read", where=_WHERE, fix=_FIX) from error


def _texts(log: Log, offset: int) -> Iterator[bytes]:
    try:
        start, end = log.bounds(TOPIC)[0]
    except UnknownTopic:
        return
    offset = max(offset, start)
    while offset < end:
        batch = log.read(TOPIC, 0, offset)
        yield from (record.value or b"" for record in batch.records())
        offset = batch.next_offset


def _last_hash(log: Log) -> str:
    """On Kafka the last offsets may hold no record."""
    (start, end), back = log.bounds(TOPIC)[0], 16
    while True:
        if found := list(_texts(log, end - back)):
            return _hash(found[-1])
        if end - back <= start:
            return FIRST
        back *= 16


def _hash(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()
