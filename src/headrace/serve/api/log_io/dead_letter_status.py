"""Status of dead letters: replayed or discarded. Each is resolved once, whoever resolves it and whatever crashes.

A resolution is a record of an internal topic. It is appended together with the replayed record, in one transaction of
one named writer. Opening the writer fences its previous owner, and the topic is read after that, so all earlier
resolutions are known.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from headrace.contracts import Append, Appended, Log, TopicSpec, Writer
from headrace.errors import DeadLetterResolved, UnknownTopic, WriterFenced
from headrace.log.stored_rows import from_records
from headrace.log.topic_spec import ensure_topic
from headrace.record import Record

TOPIC = "__letters"
REPLAYED, DISCARDED = "replayed", "discarded"
_WRITER = "letters"
_TRIES = 3


@dataclass(frozen=True)
class DeadLetterId:
    """The position of a dead letter. `created_at` distinguishes a topic from a deleted one of the same name."""

    topic: str
    created_at: int
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}/{self.offset}"


class DeadLetterResolutions:
    """The resolutions of all dead letters. Thread-safe."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._turn = threading.Lock()
        self._writer: Writer | None = None
        self._read = 0
        self._known: dict[DeadLetterId, str] = {}

    def of(self, letters: Sequence[DeadLetterId]) -> list[str | None]:
        with self._turn:
            self._sync()
            return [self._known.get(letter) for letter in letters]

    def settle(self, letter: DeadLetterId, fate: str, appends: Sequence[Append] = ()) -> list[Appended]:
        """Record the resolution of a dead letter, and append the given records with it. Raises if it is resolved
        already.
        """
        mark = Append(TOPIC, from_records([Record(_told(letter, fate), str(letter).encode())]), 0)
        with self._turn:
            for _ in range(_TRIES):
                writer = self._opened()
                if letter in self._known:
                    raise DeadLetterResolved(
                        f"letter {letter} was {self._known[letter]} before", fix="nothing is left to do"
                    )
                try:
                    appended = writer.append((writer.last or 0) + 1, [*appends, mark]) or []
                    return [one for one in appended if one.topic != TOPIC]
                except WriterFenced:
                    self._writer = None
                except BaseException:
                    self._writer = None  # outcome unknown: the topic is read again
                    raise
            raise WriterFenced("another server settles dead letters at the same time", fix="try again")

    def _opened(self) -> Writer:
        if self._writer is None:
            ensure_topic(self._log, TOPIC, TopicSpec(compact=True))
            self._writer = self._log.writer(_WRITER)
        self._sync()
        return self._writer

    def _sync(self) -> None:
        """Read the resolutions appended since the last call."""
        try:
            end = self._log.bounds(TOPIC)[0].end
        except UnknownTopic:
            return
        while self._read < end:
            batch = self._log.read(TOPIC, 0, self._read)
            for record in batch.records():
                found = json.loads(record.value or b"{}")
                self._known[DeadLetterId(**found["letter"])] = found["fate"]
            self._read = batch.next_offset


def _told(letter: DeadLetterId, fate: str) -> bytes:
    return json.dumps({"letter": asdict(letter), "fate": fate}).encode()
