"""Consumer groups of the model log: members with positions, and the offsets they committed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from headrace.contracts import Batch, OffsetReset, Subscription, TopicPartition
from headrace.errors import GroupFenced, OffsetLost

if TYPE_CHECKING:
    from tests.model_log import ModelLog


@dataclass
class Group:
    generation: int = 0
    members: dict[str, ModelConsumer] = field(default_factory=dict)
    offsets: dict[TopicPartition, int] = field(default_factory=dict)


class ModelConsumer:
    """A member of a group; `positions` are the next offsets of the partitions it has."""

    def __init__(
        self, log: ModelLog, group: str, member: str, subscription: Subscription, start: str, lost: OffsetReset
    ) -> None:
        self.id, self.start = member, start
        self._log, self._group, self._subscription, self._lost = log, group, subscription, lost
        self.positions: dict[TopicPartition, int] = {}
        for name in subscription.topics:
            log.topic(name)

    def wants(self, topic: str) -> bool:
        pattern = self._subscription.pattern
        named = topic in self._subscription.topics
        return named or (
            pattern is not None and not topic.startswith("__") and re.fullmatch(pattern, topic) is not None
        )

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        return frozenset(self.positions)

    def poll(self, timeout: timedelta = timedelta(0), max_records: int = 10_000) -> list[Batch]:
        batches: list[Batch] = []
        for partition in sorted(self.positions):
            batch = self._log.read(*partition, self._found(partition), max_records=max_records)
            self.positions[partition] = batch.next_offset
            max_records -= len(batch)
            where = self._subscription.where
            wanted = batch if where is None else replace(batch, rows=batch.rows.filter(where(batch.rows)))
            if len(wanted):
                batches.append(wanted)
            if max_records <= 0:
                break
        return batches

    def _found(self, partition: TopicPartition) -> int:
        start, end = self._log.bounds(partition.topic)[partition.partition]
        if start <= self.positions[partition]:
            return self.positions[partition]
        if self._lost is OffsetReset.ERROR:
            raise OffsetLost(f"rows {self.positions[partition]} to {start - 1} were removed", where=str(partition))
        return start if self._lost is OffsetReset.EARLIEST else end

    def commit(self, offsets: Mapping[TopicPartition, int] | None = None) -> None:
        wanted = dict(self.positions if offsets is None else offsets)
        if self.id not in self._log._groups[self._group].members or wanted.keys() - self.positions.keys():
            raise GroupFenced("a partition is not this member's")
        self._log._groups[self._group].offsets.update(wanted)

    def position(self, partition: TopicPartition) -> int:
        return self.positions[partition]

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self._log._check(*partition, offset)
        self.positions[partition] = offset

    def lag(self) -> dict[TopicPartition, int]:
        return {p: self._log.bounds(p.topic)[p.partition].end - at for p, at in self.positions.items()}

    def close(self) -> None:
        group = self._log._groups[self._group]
        if group.members.pop(self.id, None):
            self.positions = {}
            self._log._rebalance(group)
