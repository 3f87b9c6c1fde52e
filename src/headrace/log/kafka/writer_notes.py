"""The last note of each named writer: a record in a compacted topic, committed in the writer's own transaction.

Only writers that leave notes need the topic. It has one partition: a transaction that is open delays readers of notes,
who then see those before it, and no writer.
"""

from __future__ import annotations

from headrace.contracts import WriterNote
from headrace.log.kafka.client import Client
from headrace.log.kafka.compacted_topic import CompactedTopic
from headrace.log.kafka.encoding import Message
from headrace.log.kafka.transactions import Outgoing

NOTES_TOPIC = "__headrace_writer_notes"

# The time of Kafka's client, as for the marks (see `writer_marks`).
_NOW = 0


class WriterNotes:
    """Last notes by writer."""

    def __init__(self, client: Client) -> None:
        self._topic = CompactedTopic(client, NOTES_TOPIC)

    def message(self, writer: str, number: int, note: str) -> Outgoing:
        """The message that stores a writer's note of an append."""
        self._topic.ensure()
        return Outgoing(NOTES_TOPIC, 0, Message(writer.encode(), f"{number} {note}".encode(), _NOW, []))

    def read(self) -> list[WriterNote]:
        """The notes of all writers that have left one."""
        return [_parsed(writer, value.decode()) for writer, value in self._topic.read().items()]

    def forget(self, writer: str) -> None:
        """Remove a writer's note, if there is one."""
        if writer in self._topic.read():
            self._topic.write(writer, None)

    def close(self) -> None:
        self._topic.close()


def _parsed(writer: str, value: str) -> WriterNote:
    number, _, note = value.partition(" ")
    return WriterNote(writer, int(number), note)
