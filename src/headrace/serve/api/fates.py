"""What became of dead letters: replayed, or discarded. Each of them once, whoever asks, and after any crash.

A fate is a record of an internal topic, appended together with the record that is replayed, in one transaction of one
named writer. Opening the writer fences whoever had it; the topic is read after that, so what was settled is known.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from headrace.contracts import Append, Appended, Log, TopicSpec, Writer
from headrace.errors import LetterSettled, UnknownTopic, WriterFenced
from headrace.log.rows import from_records
from headrace.log.topics import ensure_topic
from headrace.record import Record

TOPIC = "__letters"
REPLAYED, DISCARDED = "replayed", "discarded"
_WRITER = "letters"
_TRIES = 3


@dataclass(frozen=True)
class Letter:
    """Where a dead letter lies. A topic that was deleted and made again holds other letters."""

    topic: str
    created_at: int
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}/{self.offset}"


class Fates:
    """May be shared by threads."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._turn = threading.Lock()
        self._writer: Writer | None = None
        self._read = 0
        self._known: dict[Letter, str] = {}

    def of(self, letters: Sequence[Letter]) -> list[str | None]:
        with self._turn:
            self._sync()
            return [self._known.get(letter) for letter in letters]

    def settle(self, letter: Letter, fate: str, appends: Sequence[Append] = ()) -> list[Appended]:
        """Note a letter's fate, and append what belongs to it; refused if it has one."""
        mark = Append(TOPIC, from_records([Record(_told(letter, fate), str(letter).encode())]), 0)
        with self._turn:
            for _ in range(_TRIES):
                writer = self._opened()
                if letter in self._known:
                    raise LetterSettled(
                        f"letter {letter} was {self._known[letter]} before", fix="nothing is left to do"
                    )
                try:
                    appended = writer.append((writer.last or 0) + 1, [*appends, mark]) or []
                    return [one for one in appended if one.topic != TOPIC]
                except WriterFenced:
                    self._writer = None
                except BaseException:
                    self._writer = None  # nobody knows whether it was done: the topic will tell
                    raise
            raise WriterFenced("another server settles dead letters at the same time", fix="try again")

    def _opened(self) -> Writer:
        if self._writer is None:
            ensure_topic(self._log, TOPIC, TopicSpec(compact=True))
            self._writer = self._log.writer(_WRITER)
        self._sync()
        return self._writer

    def _sync(self) -> None:
        """Read what was settled since."""
        try:
            end = self._log.bounds(TOPIC)[0].end
        except UnknownTopic:
            return
        while self._read < end:
            batch = self._log.read(TOPIC, 0, self._read)
            for record in batch.records():
                found = json.loads(record.value or b"{}")
                self._known[Letter(**found["letter"])] = found["fate"]
            self._read = batch.next_offset


def _told(letter: Letter, fate: str) -> bytes:
    return json.dumps({"letter": asdict(letter), "fate": fate}).encode()
