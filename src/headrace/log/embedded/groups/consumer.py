"""Consumer group member: polls its partitions round robin, sleeps on the commit signal, follows rebalances."""

from __future__ import annotations

import logging
import secrets
import threading
import time
import weakref
from collections.abc import Mapping
from datetime import timedelta
from typing import Protocol

from headrace.contracts import INTERNAL_PREFIX, Batch, Bounds, OffsetReset, Subscription, TopicPartition
from headrace.errors import BadOption, Closed, GroupFenced, OffsetLost, OffsetOutOfRange, UnknownTopic
from headrace.log.embedded.groups.store import GroupStore, Membership
from headrace.log.embedded.storage.extent_reader import ExtentReader
from headrace.log.embedded.storage.store import Store
from headrace.log.embedded.storage.topic_catalog import TopicCatalog
from headrace.log.topic_spec import subscription_pattern, unknown_topic

_logger = logging.getLogger(__name__)


class ConsumedLog(Protocol):
    """The part of a log that is needed here."""

    store: Store
    catalog: TopicCatalog
    reader: ExtentReader

    @property
    def owner(self) -> str: ...
    @property
    def closed(self) -> bool: ...
    def read(self, topic: str, partition: int, offset: int, *, max_records: int = ...) -> Batch: ...
    def bounds(self, topic: str) -> dict[int, Bounds]: ...


class EmbeddedConsumer:
    """See `contracts.Consumer`."""

    def __init__(
        self,
        log: ConsumedLog,
        groups: GroupStore,
        group: str,
        subscription: Subscription,
        start: str,
        lost: OffsetReset,
        client: str,
    ) -> None:
        if start not in ("earliest", "latest"):
            raise BadOption(f'a consumer cannot start at "{start}"', fix="start at earliest or latest, then seek")
        self._log = log
        self._groups = groups
        self.group = group
        self.id = f"{client or 'consumer'}-{secrets.token_hex(4)}"
        self._client = client
        self._subscription = subscription
        self._pattern = subscription_pattern(subscription)
        self._start = start
        self._lost = lost
        self._membership = Membership(-1, {})
        self._ids: dict[str, int] = {}  # topic ids at the time of assignment
        self._positions: dict[TopicPartition, int] = {}
        self._fetch_order: list[TopicPartition] = []
        self._closed = threading.Event()
        self._heartbeat_interval = min(1.0, groups.session.total_seconds() / 3)
        self._send_heartbeat()
        _Heartbeat(self).start()

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions currently assigned to this member."""
        self._follow()
        return frozenset(self._membership.partitions)

    def poll(self, timeout: timedelta = timedelta(seconds=1), max_records: int = 10_000) -> list[Batch]:
        """Rows of the assigned partitions; empty if nothing arrived within the timeout."""
        self._check_open()
        deadline = time.monotonic() + timeout.total_seconds()
        while True:
            seen = self._log.store.commit_signal.commits
            self._follow()
            before = dict(self._positions)
            batches = self._fetch(max_records)
            left = deadline - time.monotonic()
            if batches or left <= 0:
                return batches
            if self._positions == before:  # otherwise there were rows, but the filter dropped them: continue
                # Wake up periodically to check the group even when nothing is appended.
                self._log.store.commit_signal.wait(seen, min(left, self._heartbeat_interval))

    def _fetch(self, max_records: int) -> list[Batch]:
        batches: list[Batch] = []
        ends = {topic: self._log.bounds(topic) for topic in {p.topic for p in self._fetch_order}}
        for partition in list(self._fetch_order):
            if max_records <= 0:
                break
            if self._positions[partition] == ends[partition.topic][partition.partition].end:
                continue
            try:
                batch = self._read(partition, max_records)
                matching = batch.where(self._subscription.where)
            except Exception:
                if batches:
                    break  # rows already read must not be lost; the next poll starts here and raises the error
                raise
            self._positions[partition] = batch.next_offset
            self._fetch_order.remove(partition)
            self._fetch_order.append(partition)
            max_records -= len(batch)
            if len(matching):
                batches.append(matching)
        return batches

    def _read(self, partition: TopicPartition, max_records: int) -> Batch:
        try:
            return self._log.read(*partition, self._positions[partition], max_records=max_records)
        except OffsetOutOfRange:
            self._positions[partition] = self._recover(partition, self._positions[partition])
            return self._log.read(*partition, self._positions[partition], max_records=max_records)

    def _recover(self, partition: TopicPartition, position: int) -> int:
        start, end = self._log.bounds(partition.topic)[partition.partition]
        if self._lost is OffsetReset.ERROR:
            raise OffsetLost(
                f'group "{self.group}" requested offset {position}, but the partition now has {start} to {end}: '
                f"rows {position} to {start - 1} were removed",
                where=str(partition),
                fix=f"seek to {start}, reset the group, or consume with lost=earliest or lost=latest",
            )
        return start if self._lost is OffsetReset.EARLIEST else end

    # -- group ------------------------------------------------------------------------------------------------------

    def _subscribed(self) -> dict[str, int]:
        topics = {name: entry.topic.partitions for name, entry in self._log.catalog.entries().items()}
        for name in self._subscription.topics:
            if name not in topics:
                raise unknown_topic(name, topics)
        return {
            name: partitions
            for name, partitions in topics.items()
            if name in self._subscription.topics
            or (self._pattern and not name.startswith(INTERNAL_PREFIX) and self._pattern.fullmatch(name))
        }

    def _send_heartbeat(self) -> None:
        self._catalog = self._log.catalog.entries()
        joined = self._groups.heartbeat(self.group, self.id, self._client, self._log.owner, self._subscribed())
        self._next_heartbeat = time.monotonic() + self._heartbeat_interval
        self._apply_assignment(joined)

    def _follow(self) -> None:
        """Apply the changes of a rebalance, and periodically check for dead members."""
        self._check_open()
        if (
            self._groups.last_seen(self.group, self.id) != self._membership.generation
            or self._catalog is not self._log.catalog.entries()
            or time.monotonic() > self._next_heartbeat
        ):
            self._send_heartbeat()

    def _apply_assignment(self, joined: Membership) -> None:
        ids = {p.topic: self._catalog[p.topic].id for p in joined.partitions if p.topic in self._catalog}
        if joined == self._membership and ids == self._ids:
            return
        if joined.generation != self._membership.generation:
            self._log.store.commit_signal.notify()  # other members wait on it too
        retained = {
            p: self._positions[p]
            for p, since in joined.partitions.items()
            if p in self._positions
            and self._membership.partitions.get(p) == since
            and self._ids.get(p.topic) == ids.get(p.topic)  # a recreated topic starts from the beginning
        }
        try:
            positions = {p: retained[p] if p in retained else self._first(p, joined) for p in joined.partitions}
        except (GroupFenced, UnknownTopic):  # rebalanced again, or deleted meanwhile: the next poll handles it
            joined, positions = Membership(-1, {}), {}
        self._membership, self._ids, self._positions = joined, ids, positions
        self._fetch_order = [p for p in self._fetch_order if p in positions] + sorted(
            positions.keys() - set(self._fetch_order)
        )

    def _first(self, partition: TopicPartition, joined: Membership) -> int:
        entry = self._log.catalog.entry(partition.topic)
        committed = self._groups.committed(self.group, entry.id, partition.partition)
        if committed is not None:
            return committed
        bounds = self._log.reader.partition_bounds(entry, partition.partition)
        first = bounds.start if self._start == "earliest" else bounds.end
        # Stored at once: the partition's next owner must not start at a later "latest" and skip rows.
        self._groups.commit(self.group, self.id, {partition: first}, joined.partitions, {partition.topic: entry.id})
        return first

    # -- positions --------------------------------------------------------------------------------------------------

    def commit(self, offsets: Mapping[TopicPartition, int] | None = None) -> None:
        """Commit this member's positions: after the rows it polled, or at the offsets given (the next ones to read)."""
        self._check_open()
        to_commit = dict(self._positions if offsets is None else offsets)
        self._log.store.sync(self._log.store.commit_signal.page.committed)
        self._groups.commit(self.group, self.id, to_commit, self._membership.partitions, self._ids)

    def position(self, partition: TopicPartition) -> int:
        self._follow()
        return self._positions[self._own(partition)]

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Continue reading at an offset; other partitions and the committed offset do not change."""
        self._follow()
        entry = self._log.catalog.entry(self._own(partition).topic)
        self._log.reader.check_offset(entry, partition.partition, offset)
        self._positions[partition] = offset

    def _own(self, partition: TopicPartition) -> TopicPartition:
        if partition not in self._positions:
            raise OffsetOutOfRange(f"partition {partition} is not assigned to this member", fix="call poll first")
        return partition

    def lag(self) -> dict[TopicPartition, int]:
        """Offsets between this member's position and the end of each of its partitions."""
        self._follow()
        return {p: self._log.bounds(p.topic)[p.partition].end - at for p, at in self._positions.items()}

    def close(self) -> None:
        """Leave the group; uncommitted rows are delivered again, to other members."""
        if self._closed.is_set():
            return
        self._closed.set()
        if not self._log.closed:  # a closed log has left already: the others notice that its owner is gone
            self._groups.leave(self.group, self.id)
            self._log.store.commit_signal.notify()

    def _check_open(self) -> None:
        if self._closed.is_set() or self._log.closed:
            raise Closed("the consumer or its log is closed", fix="create a new one")


class _Heartbeat:
    """Sends heartbeats while the consumer processes what it polled; stops when the consumer is gone."""

    def __init__(self, consumer: EmbeddedConsumer) -> None:
        self._consumer = weakref.ref(consumer)
        self._closed, self._groups = consumer._closed, consumer._groups

    def start(self) -> None:
        threading.Thread(target=self._run, name="headrace-heart", daemon=True).start()

    def _run(self) -> None:
        while not self._closed.wait(self._groups.session.total_seconds() / 3):
            consumer = self._consumer()
            if consumer is None or consumer._log.closed:
                return
            try:
                self._groups.touch(consumer.group, consumer.id)
            except Exception:
                # The log is closing or its disk is full: the next heartbeat may succeed, or the group continues without
                # this member.
                _logger.debug("a heartbeat failed", exc_info=True)
            del consumer
