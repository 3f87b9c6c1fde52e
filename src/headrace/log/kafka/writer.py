"""Named writers on Kafka: exactly once through transactions.

The name is the transactional id, so opening it again fences the previous owner. Each append stores its number in the
same transaction (see `writer_marks`), so that a repeat is detected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta

from headrace.clock import Clock, millis
from headrace.contracts import Append, Appended
from headrace.errors import Closed, WriterFenced
from headrace.log.kafka.client import DELIVERY_TIMEOUT, Client
from headrace.log.kafka.topics import Topics
from headrace.log.kafka.transactions import (
    PreparedPart,
    QueueMessages,
    TransactionalProducer,
    outgoing,
    queue_messages,
    queue_parts,
)
from headrace.log.kafka.writer_marks import WriterMarks
from headrace.log.kafka.writer_notes import WriterNotes
from headrace.settings import Settings

_SLOWEST = 20_000  # rows a second: a tenth of the usual rate
_MAX_TRANSACTION = timedelta(minutes=15)  # the brokers' limit


class KafkaWriter:
    """See `contracts.Writer`."""

    def __init__(
        self, client: Client, topics: Topics, marks: WriterMarks, notes: WriterNotes, clock: Clock, name: str
    ) -> None:
        self.name = name
        self._topics = topics
        self._marks = marks
        self._notes = notes
        self._clock = clock
        # In this order: the last number is final only when the previous owner is fenced and its transaction finished.
        self._transactor = TransactionalProducer(client, name, millis(_patience(client.settings)))
        self._last = marks.last(name)

    @property
    def last(self) -> int | None:
        return self._last

    def append(self, number: int, appends: Sequence[Append]) -> list[Appended] | None:
        return self._once(number, lambda: queue_messages(outgoing(appends, self._topics, self._clock)))

    def append_parts(self, number: int, parts: Iterable[PreparedPart], note: str | None = None) -> bool:
        """Append prepared rows once, in any number; False if the log already has the number. `note` is kept with it.

        The parts are iterated again if Kafka requires a retry of the transaction.
        """
        return self._once(number, lambda: queue_parts(parts), note) is not None

    def _once(
        self, number: int, prepare: Callable[[], QueueMessages], note: str | None = None
    ) -> list[Appended] | None:
        if isinstance(self._transactor.failure, WriterFenced):
            raise self._transactor.failure
        if self._transactor.failure is not None:
            raise Closed(
                f'writer "{self.name}" is closed, or failed',
                fix="open it again; it resumes after its last sequence number",
            )
        if self._last is not None and number <= self._last:
            return None
        notes = [] if note is None else [self._notes.message(self.name, number, note)]
        # They go last: writers share their partitions, which are blocked only from here to the commit.
        placed = self._transactor.run(prepare(), [*notes, self._marks.mark(self.name, number)])
        self._last = number
        return placed

    def close(self) -> None:
        self._transactor.close()


def _patience(settings: Settings) -> timedelta:
    """The transaction timeout. A large batch must be written within it; but a transaction that a crash left open holds
    readers back for as long.
    """
    return min(max(DELIVERY_TIMEOUT, timedelta(seconds=settings.query.max_batch_rows / _SLOWEST)), _MAX_TRANSACTION)
