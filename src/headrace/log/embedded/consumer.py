"""A group's member: polls its partitions in turn, sleeps on the log's bell, and follows every rebalance."""

from __future__ import annotations

import re
import secrets
import threading
import time
import weakref
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING

from headrace.contracts import Batch, Lost, Subscription, TopicPartition
from headrace.errors import BadFilter, BadOption, Closed, GroupFenced, OffsetLost, OffsetOutOfRange, UnknownTopic
from headrace.log.embedded.groups import Groups, Joined

if TYPE_CHECKING:
    from headrace.log.embedded.log import EmbeddedLog


class EmbeddedConsumer:
    """See `contracts.Consumer`."""

    def __init__(
        self,
        log: EmbeddedLog,
        groups: Groups,
        group: str,
        subscription: Subscription,
        start: str,
        lost: Lost,
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
        self._pattern = _pattern(subscription)
        self._start = start
        self._lost = lost
        self._joined = Joined(-1, {})
        self._positions: dict[TopicPartition, int] = {}
        self._turn: list[TopicPartition] = []
        self._closed = False
        self._beat()
        _Heart(self, groups.session.total_seconds() / 3).start()

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that are this member's at present."""
        self._follow()
        return frozenset(self._joined.partitions)

    def poll(self, timeout: timedelta = timedelta(seconds=1), max_records: int = 10_000) -> list[Batch]:
        """Rows of the assigned partitions; none if nothing came within the time."""
        self._check_open()
        deadline = time.monotonic() + timeout.total_seconds()
        while True:
            rung = self._log.store.bell.rings
            self._follow()
            batches = self._fetch(max_records)
            left = deadline - time.monotonic()
            if batches or left <= 0:
                return batches
            # Wake at times to look after the group even when nothing is appended.
            if self._log.store.bell.wait(rung, min(left, 1.0)) == rung and left > 1.0:
                self._beat()

    def _fetch(self, max_records: int) -> list[Batch]:
        batches: list[Batch] = []
        ends = {topic: self._log.bounds(topic) for topic in {p.topic for p in self._turn}}
        for partition in list(self._turn):
            if max_records <= 0:
                break
            if self._positions[partition] == ends[partition.topic][partition.partition].end:
                continue
            batch = self._read(partition, max_records)
            self._positions[partition] = batch.next_offset
            self._turn.remove(partition)
            self._turn.append(partition)
            max_records -= len(batch)
            batch = self._wanted(batch)
            if len(batch):
                batches.append(batch)
        return batches

    def _read(self, partition: TopicPartition, max_records: int) -> Batch:
        try:
            return self._log.read(*partition, self._positions[partition], max_records=max_records)
        except OffsetOutOfRange:
            self._positions[partition] = self._recover(partition, self._positions[partition])
            return self._log.read(*partition, self._positions[partition], max_records=max_records)

    def _recover(self, partition: TopicPartition, position: int) -> int:
        start, end = self._log.bounds(partition.topic)[partition.partition]
        if self._lost is Lost.ERROR:
            raise OffsetLost(
                f'group "{self.group}" wanted offset {position}, but the partition now holds {start} to {end}: '
                f"rows {position} to {start - 1} were removed",
                where=str(partition),
                fix=f"seek to {start}, reset the group, or consume with lost=earliest or lost=latest",
            )
        return start if self._lost is Lost.EARLIEST else end

    def _wanted(self, batch: Batch) -> Batch:
        if self._subscription.where is None or not len(batch):
            return batch
        return Batch(
            batch.topic, batch.partition, batch.rows.filter(self._subscription.where(batch.rows)), batch.next_offset
        )

    # -- group ------------------------------------------------------------------------------------------------------

    def _subscribed(self) -> dict[str, int]:
        topics = {t.name: t.partitions for t in self._log.topics()}
        for name in self._subscription.topics:
            if name not in topics:
                raise UnknownTopic(f'topic "{name}" does not exist', fix=f"headrace topic create {name}")
        return {
            name: partitions
            for name, partitions in topics.items()
            if name in self._subscription.topics
            or (self._pattern and not name.startswith("__") and self._pattern.fullmatch(name))
        }

    def _beat(self) -> None:
        joined = self._groups.beat(self.group, self.id, self._client, self._log.owner, self._subscribed())
        self._adopt(joined)

    def _follow(self) -> None:
        """Take over what a rebalance changed."""
        self._check_open()
        if (
            self._groups.generation(self.group) != self._joined.generation
            or self._catalog is not self._log.catalog.entries()
        ):
            self._beat()

    def _adopt(self, joined: Joined) -> None:
        self._catalog = self._log.catalog.entries()
        if joined == self._joined:
            return
        if joined.generation != self._joined.generation:
            self._log.store.bell.ring()  # the others wait on it too
        kept = {
            p: self._positions[p]
            for p, since in joined.partitions.items()
            if self._joined.partitions.get(p) == since and p in self._positions
        }
        self._joined = joined
        try:
            self._positions = {p: kept[p] if p in kept else self._first(p) for p in joined.partitions}
        except GroupFenced:  # rebalanced again in between
            self._joined, self._positions = Joined(-1, {}), {}
        self._turn = sorted(self._positions)

    def _first(self, partition: TopicPartition) -> int:
        entry = self._log.catalog.entry(partition.topic)
        committed = self._groups.committed(self.group, entry.id, partition.partition)
        if committed is not None:
            return committed
        bounds = self._log.reader.partition_bounds(entry, partition.partition)
        first = bounds.start if self._start == "earliest" else bounds.end
        # Stored at once: whoever gets the partition next must not start at a later "latest" and skip rows.
        self._groups.commit(
            self.group, self.id, {partition: first}, self._joined.partitions, {partition.topic: entry.id}
        )
        return first

    # -- positions --------------------------------------------------------------------------------------------------

    def commit(self, offsets: Mapping[TopicPartition, int] | None = None) -> None:
        """Store how far this member has come: what it polled, or the offsets given (the next ones to read)."""
        self._check_open()
        wanted = dict(self._positions if offsets is None else offsets)
        ids = {p.topic: self._log.catalog.entry(p.topic).id for p in wanted}
        self._log.store.sync(self._log.store.bell.page.committed)
        self._groups.commit(self.group, self.id, wanted, self._joined.partitions, ids)

    def position(self, partition: TopicPartition) -> int:
        self._follow()
        return self._positions[self._own(partition)]

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go on reading at an offset; others and the committed offset are not touched."""
        self._follow()
        entry = self._log.catalog.entry(self._own(partition).topic)
        self._log.reader.check_offset(entry, partition.partition, offset)
        self._positions[partition] = offset

    def _own(self, partition: TopicPartition) -> TopicPartition:
        if partition not in self._positions:
            raise OffsetOutOfRange(f"partition {partition} is not assigned to this member", fix="poll first")
        return partition

    def lag(self) -> dict[TopicPartition, int]:
        """How many offsets each partition of this member is ahead of it."""
        self._follow()
        return {p: self._log.bounds(p.topic)[p.partition].end - at for p, at in self._positions.items()}

    def close(self) -> None:
        """Leave the group; what was not committed comes again, to the others."""
        if self._closed:
            return
        self._closed = True
        self._groups.leave(self.group, self.id)
        self._log.store.bell.ring()

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("the consumer is closed", fix="make a new one")


class _Heart:
    """Beats for a consumer that is busy with what it polled; stops when the consumer is gone."""

    def __init__(self, consumer: EmbeddedConsumer, seconds: float) -> None:
        self._consumer = weakref.ref(consumer)
        self._groups, self._seconds = consumer._groups, seconds

    def start(self) -> None:
        threading.Thread(target=self._run, name="headrace-heart", daemon=True).start()

    def _run(self) -> None:
        while True:
            time.sleep(self._seconds)
            consumer = self._consumer()
            if consumer is None or consumer._closed or consumer._log.closed:
                return
            self._groups.touch(consumer.group, consumer.id)
            del consumer


def _pattern(subscription: Subscription) -> re.Pattern[str] | None:
    if not subscription.topics and subscription.pattern is None:
        raise BadFilter("a subscription names neither topics nor a pattern", fix="give at least one of them")
    try:
        return re.compile(subscription.pattern) if subscription.pattern is not None else None
    except re.error as error:
        raise BadFilter(
            f'pattern "{subscription.pattern}" is no regular expression: {error}', fix='for example "orders-.*"'
        ) from error
