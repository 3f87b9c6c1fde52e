"""A member of a Kafka consumer group.

Kafka assigns the partitions; the start position in each is decided here, to distinguish a group without an offset
(`start`) from a group whose offset was removed (`lost`).
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition

from headrace.clock import millis
from headrace.contracts import INTERNAL_PREFIX, Batch, Bounds, OffsetReset, Subscription, TopicPartition
from headrace.errors import BadOption, Closed, GroupFenced, HeadraceError, OffsetLost, OffsetOutOfRange
from headrace.log.kafka.client import REQUEST_TIMEOUT, Client
from headrace.log.kafka.encoding import Message
from headrace.log.kafka.message_decoder import MessageDecoder, to_message
from headrace.log.kafka.reader import MOST_AT_ONCE, Reader
from headrace.log.kafka.topics import Topics
from headrace.log.topic_spec import subscription_pattern

_PATTERN_INTERVAL = 1.0  # seconds between two checks of which topics match a pattern
_WAIT = 0.1


@dataclass
class PolledMessages:
    """What one poll returned for one partition."""

    messages: list[Message] = field(default_factory=list)
    next_offset: int = 0


class KafkaConsumer:
    """See `contracts.Consumer`."""

    def __init__(
        self,
        client: Client,
        topics: Topics,
        reader: Reader,
        decoder: MessageDecoder,
        group: str,
        subscription: Subscription,
        start: str,
        lost: OffsetReset,
        name: str,
    ) -> None:
        if start not in ("earliest", "latest"):
            raise BadOption(f'a consumer cannot start at "{start}"', fix="start at earliest or latest, then seek")
        self._client, self._topics, self._reader, self._decoder = client, topics, reader, decoder
        self.group = group
        self._subscription = subscription
        self._pattern = subscription_pattern(subscription)
        self._start = start
        self._lost = lost
        self._positions: dict[TopicPartition, int] = {}
        self._failures: dict[TopicPartition, HeadraceError] = {}
        self._subscribed: set[str] = set()
        self._followed_at = 0.0
        self._assigned = 0  # number of assignments so far
        self._closed = False
        topics_by_name = {topic: topics.get(topic, fresh=True) for topic in subscription.topics}
        self._consumer = Consumer(self._config(name))
        self._subscribe(set(topics_by_name))

    def _config(self, name: str) -> dict[str, Any]:
        session = millis(self._client.settings.storage.group_session_timeout)
        return self._client.config(
            group_id=self.group,
            client_id=name or "headrace",
            session_timeout_ms=session,
            heartbeat_interval_ms=max(session // 4, 10),
            max_poll_interval_ms=max(session, 300_000),
            enable_auto_commit=False,
            enable_auto_offset_store=False,
            auto_offset_reset="error",
            enable_partition_eof=True,
            isolation_level="read_committed",
            partition_assignment_strategy="roundrobin",
            fetch_wait_max_ms=100,
            topic_metadata_refresh_interval_ms=1000,
        )

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        return frozenset(self._positions)

    def poll(self, timeout: timedelta = timedelta(seconds=1), max_records: int = 10_000) -> list[Batch]:
        """Rows of the assigned partitions; empty if nothing arrived within the timeout."""
        self._check_open()
        deadline = time.monotonic() + timeout.total_seconds()
        while True:
            self._follow_pattern()
            remaining = max(deadline - time.monotonic(), 0.0)
            arrived = self._arrived(min(remaining, _WAIT), max_records)
            try:
                self._raise_failure()
                batches = self._batches(arrived)
            except BaseException:
                self._place()  # the polled rows were not returned, so they must be read again
                raise
            if batches or remaining <= 0:
                return batches

    def commit(self, offsets: Mapping[TopicPartition, int] | None = None) -> None:
        """Commit this member's positions: after the rows it polled, or at the offsets given (the next ones to read)."""
        self._check_open()
        to_commit = dict(self._positions if offsets is None else offsets)
        for tp in to_commit:
            if tp not in self._positions:
                raise GroupFenced(
                    f'partition {tp} is no longer assigned to this member of group "{self.group}"',
                    fix="poll again; rows since the last commit are delivered again to the new owner",
                )
        if not to_commit:
            return
        try:
            done = self._consumer.commit(
                offsets=[KafkaPartition(*tp, offset) for tp, offset in to_commit.items()], asynchronous=False
            )
        except KafkaException as error:
            raise self._client.translate(error, f'group "{self.group}"') from error
        for place in done or ():
            if place.error is not None:
                raise self._client.translate(place.error, f'group "{self.group}"')

    def position(self, partition: TopicPartition) -> int:
        self._check_open()
        return self._positions[self._own(partition)]

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Continue reading at an offset; other partitions and the committed offset do not change."""
        self._check_open()
        self._reader.check_offset(self._own(partition), offset)
        self._positions[partition] = offset
        self._failures.pop(partition, None)
        self._place()

    def lag(self) -> dict[TopicPartition, int]:
        """Rows between this member's position and the end of each of its partitions."""
        self._check_open()
        return self._reader.lag(self._positions)

    def close(self) -> None:
        """Leave the group; uncommitted rows are delivered again, to other members."""
        if not self._closed:
            self._closed = True
            self._consumer.close()

    # -- polled messages --------------------------------------------------------------------------------------------

    def _arrived(self, wait: float, max_records: int) -> dict[TopicPartition, PolledMessages]:
        first = self._consumer.poll(wait)
        assigned = self._assigned
        more = min(max_records - 1, MOST_AT_ONCE) if first is not None else 0
        rest = self._consumer.consume(more, timeout=0) if more > 0 else []
        # After a rebalance everything restarts at the committed offsets, including what `first` holds.
        messages = [first, *rest] if first is not None and assigned == self._assigned else rest
        arrived: dict[TopicPartition, PolledMessages] = defaultdict(PolledMessages)
        for message in messages:
            tp = TopicPartition(message.topic() or "", message.partition() or 0)
            if message.error() is not None:
                self._collect(tp, message, arrived)
            elif tp in self._positions:
                arrived[tp].messages.append(to_message(message))
                arrived[tp].next_offset = arrived[tp].messages[-1].offset + 1
        return arrived

    def _collect(self, tp: TopicPartition, message: Any, arrived: dict[TopicPartition, PolledMessages]) -> None:
        error = message.error()
        if error.code() == KafkaError._PARTITION_EOF:
            # Transaction markers occupy offsets: without counting them, the position would never reach the end.
            if tp in self._positions:
                arrived[tp].next_offset = max(self._positions[tp], arrived[tp].next_offset, message.offset())
        elif error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            if tp in self._positions:
                self._positions[tp] = self._first(tp, self._positions[tp], self._reader.bounds_of([tp])[tp])
                self._place()
        elif error.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION):
            self._followed_at = 0.0  # a topic was deleted: check which ones exist
        elif not error.retriable() and error.code() not in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN):
            raise self._client.translate(error, f'group "{self.group}"')

    def _batches(self, arrived: Mapping[TopicPartition, PolledMessages]) -> list[Batch]:
        batches = [self._batch(tp, one) for tp, one in arrived.items() if one.messages]
        # Only now: if one batch had failed, none would have been returned.
        self._positions.update({tp: one.next_offset for tp, one in arrived.items()})
        return [batch for batch in batches if len(batch)]

    def _batch(self, tp: TopicPartition, arrived: PolledMessages) -> Batch:
        rows = self._decoder.open(*tp, arrived.messages)
        return Batch(*tp, rows, arrived.next_offset).where(self._subscription.where)

    # -- topics -----------------------------------------------------------------------------------------------------

    def _follow_pattern(self) -> None:
        """Follow the pattern: subscribe to new topics, unsubscribe from deleted ones."""
        if self._pattern is None or time.monotonic() - self._followed_at < _PATTERN_INTERVAL:
            return
        self._followed_at = time.monotonic()
        names = {topic.name for topic in self._topics.all()}
        fitting = {n for n in names if not n.startswith(INTERNAL_PREFIX) and self._pattern.fullmatch(n)}
        self._subscribe((names & set(self._subscription.topics)) | fitting)

    def _subscribe(self, names: set[str]) -> None:
        if names == self._subscribed or not names:
            return
        self._consumer.subscribe(
            sorted(names), on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_revoke
        )
        self._subscribed = names

    # -- partitions -------------------------------------------------------------------------------------------------

    def _on_assign(self, _: Consumer, partitions: list[KafkaPartition]) -> None:
        self._assigned += 1
        self._positions, self._failures = {}, {}
        places = [TopicPartition(p.topic, p.partition) for p in partitions]
        committed = {
            TopicPartition(p.topic, p.partition): p.offset
            for p in (
                self._consumer.committed(partitions, timeout=REQUEST_TIMEOUT.total_seconds()) if partitions else ()
            )
        }
        bounds = self._reader.bounds_of(places) if places else {}
        for tp in places:
            self._positions[tp] = self._first(tp, committed[tp], bounds[tp])
        self._place()

    def _on_revoke(self, _: Consumer, __: list[KafkaPartition]) -> None:
        self._assigned += 1
        self._positions, self._failures = {}, {}

    def _place(self) -> None:
        self._consumer.assign([KafkaPartition(*tp, offset) for tp, offset in self._positions.items()])

    def _first(self, tp: TopicPartition, committed: int, bounds: Bounds) -> int:
        """The start position, given the group's committed offset (negative: none)."""
        if committed < 0:
            return bounds.start if self._start == "earliest" else bounds.end
        if bounds.start <= committed <= bounds.end:
            return committed
        if self._lost is OffsetReset.ERROR:
            self._failures[tp] = OffsetLost(
                f'group "{self.group}" requested offset {committed}, but the partition now has {bounds.start} to '
                f"{bounds.end}: rows {committed} to {bounds.start - 1} were removed",
                where=str(tp),
                fix=f"seek to {bounds.start}, reset the group, or consume with lost=earliest or lost=latest",
            )
        return bounds.end if self._lost is OffsetReset.LATEST else bounds.start

    def _raise_failure(self) -> None:
        # Raised at every poll until the caller seeks: lost rows must not be skipped by accident.
        for failure in self._failures.values():
            raise failure

    def _own(self, partition: TopicPartition) -> TopicPartition:
        if partition not in self._positions:
            raise OffsetOutOfRange(f"partition {partition} is not assigned to this member", fix="call poll first")
        return partition

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("the consumer is closed", fix="create a new one")
