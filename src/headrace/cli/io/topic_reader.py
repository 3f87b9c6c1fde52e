"""The two readers of `consume`: a direct one, which commits nothing, and a member of a consumer group."""

from __future__ import annotations

import re
import time
from datetime import timedelta

from headrace.cli.io.row_printer import RowPrinter
from headrace.contracts import Batch, Consumer, Log, OffsetReset, Subscription, Topic, TopicPartition
from headrace.errors import BadFilter, GroupFenced, OffsetLost, OffsetOutOfRange, UnknownPartition
from headrace.log import offset_spec
from headrace.log.append_waiter import AppendWaiter

_PAGE = 5_000
_PAUSE = timedelta(milliseconds=200)
_ASSIGNMENT_TIMEOUT = 15.0  # seconds to wait for partitions to be assigned by the group


class DirectReader:
    """Reads partitions round-robin, each from its start offset."""

    def __init__(
        self,
        log: Log,
        subscription: Subscription,
        printer: RowPrinter,
        start: offset_spec.OffsetSpec,
        partition: int | None,
        lost: OffsetReset,
    ) -> None:
        self._log = log
        self._waiter = AppendWaiter(log)
        self._subscription = subscription
        self._pattern = _compiled(subscription.pattern)
        self._printer = printer
        self._start = start
        self._partition = partition
        self._lost = lost
        self._positions: dict[TopicPartition, int] = {}

    def run(self, *, limit: int | None, follow: bool) -> None:
        """Print up to the end offsets at the time of the call; with `follow`, without end."""
        remaining = limit if limit is not None else -1
        self._discover(self._start)
        ends = None if follow else self._ends()
        while remaining != 0:
            self._waiter.watch()
            before = dict(self._positions)
            for partition in before:
                remaining = self._print_page(partition, None if ends is None else ends[partition], remaining)
            if self._positions == before:
                if not follow:
                    return
                self._waiter.wait(1.0)
                self._discover(offset_spec.EARLIEST)  # new topics and partitions are read from their beginning

    def _discover(self, start: offset_spec.OffsetSpec) -> None:
        """Find topics and partitions that are not known yet."""
        for topic in self._topics():
            bounds = self._log.bounds(topic.name)
            if self._partition is not None and self._partition not in bounds:
                raise UnknownPartition(
                    f'topic "{topic.name}" has no partition {self._partition}',
                    fix=f"its partitions are 0 to {topic.partitions - 1}",
                )
            for number in bounds if self._partition is None else [self._partition]:
                key = TopicPartition(topic.name, number)
                if key not in self._positions:
                    self._positions[key] = offset_spec.resolve_offset(self._log, key, start, bounds[number])

    def _topics(self) -> list[Topic]:
        named = [self._log.topic(name) for name in self._subscription.topics]
        if self._pattern is None:
            return named
        others = [
            t for t in self._log.topics() if t.name not in self._subscription.topics and not t.name.startswith("__")
        ]
        return named + [topic for topic in others if self._pattern.fullmatch(topic.name)]

    def _ends(self) -> dict[TopicPartition, int]:
        bounds = {topic: self._log.bounds(topic) for topic in {p.topic for p in self._positions}}
        return {p: bounds[p.topic][p.partition].end for p in self._positions}

    def _print_page(self, partition: TopicPartition, end: int | None, remaining: int) -> int:
        """Print one page of a partition; returns how many rows may still be printed (negative: no limit)."""
        if remaining == 0 or (end is not None and self._positions[partition] >= end):
            return remaining
        batch = self._read(partition, _PAGE if end is None else min(_PAGE, end - self._positions[partition]))
        self._positions[partition] = batch.next_offset
        batch = batch.where(self._subscription.where)
        if 0 < remaining < len(batch):
            batch = Batch(*partition, batch.rows.slice(0, remaining), batch.next_offset)
        if len(batch):
            self._printer.rows(batch, self._log.topic(partition.topic).schema)
        return remaining - len(batch)

    def _read(self, partition: TopicPartition, count: int) -> Batch:
        try:
            return self._log.read(*partition, self._positions[partition], max_records=count)
        except OffsetOutOfRange:
            self._positions[partition] = self._recovered(partition)
            return self._log.read(*partition, self._positions[partition], max_records=count)

    def _recovered(self, partition: TopicPartition) -> int:
        bounds = self._log.bounds(partition.topic)[partition.partition]
        if self._lost is OffsetReset.ERROR:
            raise OffsetLost(
                f"rows {self._positions[partition]} to {bounds.start - 1} were removed by retention",
                where=str(partition),
                fix=f"begin at {bounds.start}, or say --lost earliest or --lost latest",
            )
        return bounds.start if self._lost is OffsetReset.EARLIEST else bounds.end


def print_group(log: Log, consumer: Consumer, printer: RowPrinter, *, limit: int | None, follow: bool) -> None:
    """Print the rows that the group assigns to this consumer, and commit them after they are printed."""
    remaining = limit if limit is not None else -1
    deadline = time.monotonic() + _ASSIGNMENT_TIMEOUT
    while remaining != 0 and (follow or not _at_end(consumer, deadline)):
        batches = consumer.poll(timedelta(seconds=1), _PAGE if remaining < 0 else min(remaining, _PAGE))
        for batch in batches:
            printer.rows(batch, log.topic(batch.topic).schema)
            remaining -= len(batch)
        try:
            consumer.commit()
        except GroupFenced:
            continue  # rebalanced: the partition's new owner reads these rows again


def _at_end(consumer: Consumer, deadline: float) -> bool:
    lag = consumer.lag()
    return not any(lag.values()) if lag else time.monotonic() > deadline


def _compiled(pattern: str | None) -> re.Pattern[str] | None:
    try:
        return None if pattern is None else re.compile(pattern)
    except re.error as error:
        raise BadFilter(
            f'pattern "{pattern}" is no regular expression: {error}', fix='for example "orders-.*"'
        ) from error
