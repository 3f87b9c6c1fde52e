"""Named writers on Kafka: exactly once by transactions.

The name is the transactional id, so opening it again fences whoever had it. Each append stores its number in the same
transaction (see `marks`), so that a repeat is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta

from headrace.clock import Clock, millis
from headrace.contracts import Append, Appended
from headrace.errors import Closed, WriterFenced
from headrace.log.kafka.client import DELIVERY, Client
from headrace.log.kafka.marks import Marks
from headrace.log.kafka.topics import Topics
from headrace.log.kafka.transactions import Part, Queue, Transactor, each, outgoing, whole
from headrace.settings import Settings

_SLOWEST = 20_000  # rows a second: a tenth of what is usual
_LONGEST = timedelta(minutes=15)  # what brokers allow


class KafkaWriter:
    """See `contracts.Writer`."""

    def __init__(self, client: Client, topics: Topics, marks: Marks, clock: Clock, name: str) -> None:
        self.name = name
        self._topics = topics
        self._marks = marks
        self._clock = clock
        # In this order: only when the one before is fenced, and its transaction settled, is the last number final.
        self._transactor = Transactor(client, name, millis(_patience(client.settings)))
        self._last = marks.last(name)

    @property
    def last(self) -> int | None:
        return self._last

    def append(self, number: int, appends: Sequence[Append]) -> list[Appended] | None:
        return self._once(number, lambda: each(outgoing(appends, self._topics, self._clock)))

    def append_parts(self, number: int, parts: Iterable[Part]) -> bool:
        """Append once rows that were made ready elsewhere, however many; False if the number is there already.

        The parts are gone through again if Kafka wants the transaction tried again.
        """
        return self._once(number, lambda: whole(parts)) is not None

    def _once(self, number: int, prepare: Callable[[], Queue]) -> list[Appended] | None:
        if isinstance(self._transactor.failure, WriterFenced):
            raise self._transactor.failure
        if self._transactor.failure is not None:
            raise Closed(f'writer "{self.name}" is closed, or failed', fix="open it again: it knows its last number")
        if self._last is not None and number <= self._last:
            return None
        # The mark goes last: writers share its partition, and it is held from here to the commit only.
        placed = self._transactor.run(prepare(), self._marks.mark(self.name, number))
        self._last = number
        return placed

    def close(self) -> None:
        self._transactor.close()


def _patience(settings: Settings) -> timedelta:
    """After which Kafka ends a transaction by itself. A large batch must be written in it; but what a crash has left
    open keeps readers back for so long.
    """
    return min(max(DELIVERY, timedelta(seconds=settings.batch_rows / _SLOWEST)), _LONGEST)
