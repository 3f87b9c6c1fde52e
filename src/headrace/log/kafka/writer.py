"""Named writers on Kafka: exactly once by transactions.

The name is the transactional id, so opening it again fences whoever had it. Each append stores its number in the same
transaction (see `marks`), so that a repeat is known.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.clock import Clock, millis
from headrace.contracts import Append, Appended
from headrace.errors import Closed, WriterFenced
from headrace.log.kafka.client import DELIVERY, Client
from headrace.log.kafka.marks import Marks
from headrace.log.kafka.topics import Topics
from headrace.log.kafka.transactions import Transactor, outgoing


class KafkaWriter:
    """See `contracts.Writer`."""

    def __init__(self, client: Client, topics: Topics, marks: Marks, clock: Clock, name: str) -> None:
        self.name = name
        self._topics = topics
        self._marks = marks
        self._clock = clock
        # In this order: only when the one before is fenced, and its transaction settled, is the last number final.
        self._transactor = Transactor(client, name, millis(DELIVERY))
        self._last = marks.last(name)

    @property
    def last(self) -> int | None:
        return self._last

    def append(self, number: int, appends: Sequence[Append]) -> list[Appended] | None:
        if isinstance(self._transactor.failure, WriterFenced):
            raise self._transactor.failure
        if self._transactor.failure is not None:
            raise Closed(f'writer "{self.name}" is closed, or failed', fix="open it again: it knows its last number")
        if self._last is not None and number <= self._last:
            return None
        messages = outgoing(appends, self._topics, self._clock)
        # The mark goes last: writers share its partition, and it is held from here to the commit only.
        placed = self._transactor.run(messages, self._marks.mark(self.name, number))
        self._last = number
        return placed

    def close(self) -> None:
        self._transactor.close()
