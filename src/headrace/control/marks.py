"""Where a notifier is, and what became of its messages, noted by one writer at a time.

    notes = Notes(log, "OPS")
    notes.ready()
    notes.note(mark, outcomes)      # in one append
    notes.hold()                    # still the only one?

Two topics are written, always together: `MARKS` has, by notifier, how far it is and what it is about to send; `SENT`
what became of each message. The writer has the notifier's name: who opens it fences whoever had it before, who learns
of it with the next note. A note that the log did not take is kept, and noted before anything else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

from headrace.contracts import Append, Log, TopicSpec, Writer
from headrace.control.notices import MARKS, SENT, Outcome, records_from
from headrace.control.sinks import KEPT
from headrace.errors import Closed, HeadraceError, WriterFenced
from headrace.log.rows import from_records
from headrace.log.topics import ensure_topic
from headrace.record import Record


@dataclass(frozen=True)
class Planned:
    """A message that is about to be sent: its id, its alert, and its notices: where they lie, and their ids."""

    id: str
    alert: str
    offsets: tuple[int, ...]
    notices: tuple[str, ...]

    def of(self, offsets: Sequence[int]) -> Planned:
        """What is left of it, under the same id."""
        left = [(at, notice) for at, notice in zip(self.offsets, self.notices, strict=True) if at in offsets]
        return replace(self, offsets=tuple(at for at, _ in left), notices=tuple(notice for _, notice in left))


@dataclass(frozen=True)
class Mark:
    """How far a notifier is: all before `next` is done; up to `upto` the planned messages are left."""

    next: int = 0
    upto: int = 0
    planned: tuple[Planned, ...] = ()

    def left(self, message: Planned) -> Mark:
        """With what is left of a message in its place, if anything is."""
        others = (message if one.id == message.id else one for one in self.planned)
        planned = tuple(one for one in others if one.offsets)
        return replace(self, planned=planned) if planned else Mark(self.upto, self.upto)


class Notes:
    """Of one notifier, for one thread."""

    def __init__(self, log: Log, notifier: str) -> None:
        self.mark = Mark()
        self._log = log
        self._notifier = notifier
        self._writer: Writer | None = None
        self._number = -1
        """Of the last note that is known to be there."""
        self._waiting: tuple[Mark, Sequence[Outcome]] | None = None
        """What may not be there yet."""
        self._is_held = False

    def ready(self) -> None:
        """All that was noted is in the log; raises if it cannot be now, and WriterFenced if it never will."""
        if self._writer is None:
            self._open()
        if self._waiting is not None:
            self._append(*self._waiting)

    def note(self, mark: Mark, outcomes: Sequence[Outcome] = ()) -> None:
        self._waiting = mark, outcomes
        self.ready()

    def hold(self) -> None:
        """Before each try, as another may have taken over while the one before it lasted: then this raises."""
        if not self._is_held:
            self.note(self.mark)
        self._is_held = False

    def close(self) -> None:
        if self._writer is not None:
            with suppress(HeadraceError):
                self._writer.close()
        self._writer = None

    def _open(self) -> None:
        """If another has noted something meanwhile, that counts, and not what is here."""
        ensure_topic(self._log, MARKS, TopicSpec(compact=True))
        ensure_topic(self._log, SENT, TopicSpec(retention_bytes=KEPT))
        writer = self._log.writer(f"notifier-{self._notifier}")
        last = -1 if writer.last is None else writer.last
        if self._waiting is not None and last == self._number + 1:  # it was taken, and only the answer lost
            self.mark, self._waiting = self._waiting[0], None
        elif self._waiting is None or last != self._number:
            self.mark, self._waiting = noted(self._log).get(self._notifier, Mark()), None
        self._number = last
        self._writer = writer

    def _append(self, mark: Mark, outcomes: Sequence[Outcome]) -> None:
        assert self._writer is not None
        name = self._notifier.encode()
        told = [Append(MARKS, _rows([(name, asdict(mark))]), 0)]
        if outcomes:
            told.append(Append(SENT, _rows([(name, asdict(one)) for one in outcomes]), 0))
        try:
            self._writer.append(self._number + 1, told)
        except (WriterFenced, Closed):
            raise
        except Exception:  # nobody knows whether it is there: who opens the writer anew is told
            self.close()
            raise
        self._number += 1
        self.mark, self._waiting, self._is_held = mark, None, True


def noted(log: Log) -> dict[str, Mark]:
    """The marks of all notifiers."""
    found: dict[str, Mark] = {}
    offset = 0
    while records := records_from(log, MARKS, offset):
        found.update({(record.key or b"").decode(): mark_of(json.loads(record.value or b"{}")) for record in records})
        offset = records[-1].offset + 1
    return found


def mark_of(found: Mapping[str, Any]) -> Mark:
    planned = tuple(
        Planned(one["id"], one["alert"], tuple(one["offsets"]), tuple(one["notices"])) for one in found["planned"]
    )
    return Mark(found["next"], found["upto"], planned)


def _rows(documents: Sequence[tuple[bytes, Mapping[str, Any]]]) -> Any:
    return from_records([Record(json.dumps(document).encode(), key) for key, document in documents])
