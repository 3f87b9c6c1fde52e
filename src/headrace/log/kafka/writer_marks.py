"""The last number of each named writer: a record in a compacted topic, committed in the writer's own transaction.

Kafka's usual solution, a group offset in the transaction, is not used: Kafka expires the offsets of a group that is
idle for a week, and the client library may hang forever in that call when a broker dies (librdkafka issues 5456 and
5511).
"""

# pyright: reportPrivateImportUsage=false

from __future__ import annotations

import threading
import zlib

from confluent_kafka.admin import OffsetSpec

from headrace.contracts import TopicPartition
from headrace.log.kafka.client import Client
from headrace.log.kafka.compacted_topic import CompactedTopic
from headrace.log.kafka.encoding import Message
from headrace.log.kafka.transactions import Outgoing

MARKS_TOPIC = "__headrace_marks"
_PARTITIONS = 16  # shared by writers: an open transaction delays the opening of writers in the same partition

# The time of Kafka's client, not of the log's clock: the topic refuses timestamps far in the future, and none is
# needed.
_NOW = 0


class WriterMarks:
    """Last numbers by writer."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._registers: dict[int, CompactedTopic] = {}
        self._lock = threading.Lock()

    def mark(self, writer: str, number: int) -> Outgoing:
        """The message that stores a writer's number."""
        return Outgoing(*self._place(writer), Message(writer.encode(), b"%d" % number, _NOW, []))

    def last(self, writer: str) -> int | None:
        """A writer's last number. Its earlier transactions must be finished (`init_transactions`).

        Readers of committed records see no further than the first open transaction, even of another writer. So this
        reads up to the current end of *all* records, and waits for those other transactions if needed.
        """
        tp = self._place(writer)
        end = self._client.offsets({tp: OffsetSpec.latest()}, committed=False)[tp]
        number = self._register(tp.partition).read(upto=end).get(writer)
        return None if number is None else int(number)

    def close(self) -> None:
        for register in self._registers.values():
            register.close()

    def _place(self, writer: str) -> TopicPartition:
        # By the actual number of partitions: the topic may have been created with another number.
        return TopicPartition(MARKS_TOPIC, zlib.crc32(writer.encode()) % self._register(0).ensure())

    def _register(self, partition: int) -> CompactedTopic:
        with self._lock:
            if partition not in self._registers:
                self._registers[partition] = CompactedTopic(self._client, MARKS_TOPIC, partition, _PARTITIONS)
            return self._registers[partition]
