"""The last number of each named writer: a record in a compacted topic, committed in the writer's own transaction.

Kafka's usual way, a group offset in the transaction, is not used: Kafka forgets the offsets of a group that is idle for
a week, and the client library may hang for ever in that call when a broker dies (librdkafka issues 5456 and 5511).
"""

# pyright: reportPrivateImportUsage=false

from __future__ import annotations

import threading
import zlib

from confluent_kafka.admin import OffsetSpec

from headrace.contracts import TopicPartition
from headrace.log.kafka.client import Client
from headrace.log.kafka.encoding import Message
from headrace.log.kafka.register import Register
from headrace.log.kafka.transactions import Outgoing

MARKS = "__headrace_marks"
_PARTITIONS = 16  # writers share them; each one's open transaction keeps back those who open in the same one

# The time of Kafka's client, not of our clock: the topic refuses what is far in the future, and no time is needed.
_NOW = 0


class Marks:
    """Numbers by writer."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._registers: dict[int, Register] = {}
        self._lock = threading.Lock()

    def mark(self, writer: str, number: int) -> Outgoing:
        """The message that stores a writer's number."""
        return Outgoing(*self._place(writer), Message(writer.encode(), b"%d" % number, _NOW, []))

    def last(self, writer: str) -> int | None:
        """A writer's number. Ask only when the writer's earlier transactions are settled (`init_transactions`).

        Readers of committed records see no further than the first transaction that is open, be it another writer's.
        So this reads to the end of *all* records as it is now, and waits for those others if need be.
        """
        here = self._place(writer)
        end = self._client.offsets({here: OffsetSpec.latest()}, committed=False)[here]
        found = self._register(here.partition).read(upto=end).get(writer)
        return None if found is None else int(found)

    def close(self) -> None:
        for register in self._registers.values():
            register.close()

    def _place(self, writer: str) -> TopicPartition:
        # By the partitions that there are: the topic may have been made with another number of them.
        return TopicPartition(MARKS, zlib.crc32(writer.encode()) % self._register(0).ensure())

    def _register(self, partition: int) -> Register:
        with self._lock:
            if partition not in self._registers:
                self._registers[partition] = Register(self._client, MARKS, partition, _PARTITIONS)
            return self._registers[partition]
