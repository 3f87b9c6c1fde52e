"""The log beside a model of it: whatever is done to both, they hold the same.

Upkeep decides by extents what goes when, the model by rows; so the model is told what went (bounds, or the offsets
that compaction kept) and checks that it was allowed, and that everything else is there, in place and unchanged.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from headrace.clock import ManualClock
from headrace.contracts import Append, Batch, Consumer, Subscription, TopicPartition, TopicSpec, Writer
from headrace.errors import GroupFenced, OffsetLost, WriterFenced
from headrace.log import partitioners
from headrace.log.embedded.storage.read_only import ReadOnlyLog
from headrace.log.stored_rows import from_records
from headrace.record import Record
from headrace.schema import Schema
from headrace.settings import Size
from tests.contract.expected_log import Model
from tests.log_environments import EmbeddedEnvironment, KafkaEnvironment, LogEnvironment

START = 1_800_000_000_000
SPECS = {
    "plain": TopicSpec(partitions=2),
    "timed": TopicSpec(partitions=1, retention_time=timedelta(seconds=40)),
    "sized": TopicSpec(partitions=1, retention_bytes=Size(6000)),
    "kept": TopicSpec(partitions=1, retention_time=timedelta(seconds=20), archive=True),
    "latest": TopicSpec(partitions=2, compact=True, tombstone_time=timedelta(seconds=50)),
    "aged": TopicSpec(partitions=1, compact=True, retention_time=timedelta(seconds=20), archive=True),
    "typed": TopicSpec(partitions=1, compact=True, schema=Schema.parse("id int key, name string")),
}
RAW_TOPICS = [name for name in SPECS if name != "typed"]
SUBSCRIBED = ("plain", "kept")

# Rules and checks that make no sense in a world, and why.
LACKING: Mapping[type[LogEnvironment], Mapping[str, str]] = {
    EmbeddedEnvironment: {},
    KafkaEnvironment: {
        "upkeep": "a broker removes and compacts when it likes, not on demand",
        "append_often": "it makes small extents to merge, and a broker merges nothing",
        "scans_of_any_cuts_return_every_row_once": "there is no total order over topics",
    },
}

topics = st.sampled_from(sorted(SPECS))
keys = st.sampled_from([None, b"a", b"b", b"c", b""])
values = st.one_of(st.none(), st.binary(max_size=6), st.just(b"x" * 700))
raw_rows = st.lists(st.builds(Record, values, keys), max_size=4).map(from_records)
typed_rows = st.lists(
    st.fixed_dictionaries(
        {"id": st.sampled_from([None, 1, 2, 3]), "name": st.text(max_size=3), "$deleted": st.booleans()}
    ),
    max_size=4,
).map(
    lambda rows: pa.RecordBatch.from_pylist(
        rows, pa.schema([("id", pa.int32()), ("name", pa.string()), ("$deleted", pa.bool_())])
    )
)
appends = st.lists(
    st.one_of(
        st.builds(Append, st.sampled_from(RAW_TOPICS), raw_rows), st.builds(Append, st.just("typed"), typed_rows)
    ),
    min_size=1,
    max_size=3,
)
members = st.sampled_from("xyz")


@dataclass(frozen=True)
class Opened:
    """A writer, and the log by which it was opened."""

    writer: Writer
    log: Any


class LogMachine(RuleBasedStateMachine):
    """Every rule does a thing to the log and to the model."""

    world: LogEnvironment
    writers = Bundle("writers")

    def __init__(self) -> None:
        super().__init__()
        self.world.begin()
        self.clock = ManualClock(START)
        partitioners._turn = itertools.count()  # rows without a key must go the same way when an example is repeated
        self.log = self.world.open(self.clock)
        self.model = Model(self.world.marks)
        self.consumers: dict[str, Consumer] = {}
        self.newest: dict[str, Writer] = {}
        self.numbers: dict[str, int] = {}
        self.turn = itertools.count()

    def teardown(self) -> None:
        try:
            if sys.exc_info()[0] is None:  # else another error is on its way, and should be seen
                self.rows_agree_with_the_model(self.model.topics)
                self.times_find_offsets(self.model.topics)
        finally:
            self.world.end()

    def at(self, name: str) -> str:
        """A name of this place."""
        return f"{self.world.place}{name}"

    @initialize()
    def create(self) -> None:
        for name, spec in SPECS.items():
            self.log.create_topic(self.at(name), self.world.spec(spec))
            self.model.create(self.at(name), self.world.spec(spec))

    # -- writing ----------------------------------------------------------------------------------------------------

    @rule(appends=appends)
    def append(self, appends: list[Append]) -> None:
        here = self._here(appends)
        self.model.placed(here, self.log.append(here), self.log)

    @rule(appends=appends, times=st.integers(8, 20))
    def append_often(self, appends: list[Append], times: int) -> None:
        for _ in range(times):
            self.append(appends)

    @rule(topic=st.sampled_from(RAW_TOPICS), ago=st.integers(0, 90_000), value=st.binary(max_size=3))
    def append_late(self, topic: str, ago: int, value: bytes) -> None:
        self.append([Append(topic, from_records([Record(value, b"a", occurred_at=self.clock.now() - ago)]))])

    @rule(target=writers, name=st.sampled_from(["w1", "w2"]))
    def open_writer(self, name: str) -> Opened:
        writer = self.newest[name] = self.log.writer(self.at(name))
        assert writer.last == self.numbers.get(writer.name)
        return Opened(writer, self.log)

    @rule(opened=writers, step=st.integers(-1, 2), appends=appends)
    def write(self, opened: Opened, step: int, appends: list[Append]) -> None:
        assume(opened.log is self.log)
        writer, here = opened.writer, self._here(appends)
        number = self.numbers.get(writer.name, 0) + step
        if writer not in self.newest.values():
            self._write_fenced(writer, number, here)
            return
        appended = writer.append(number, here)
        if writer.name in self.numbers and step <= 0:
            assert appended is None
            return
        assert appended is not None
        self.numbers[writer.name] = number
        self.model.placed(here, appended, self.log)

    def _write_fenced(self, writer: Writer, number: int, appends: list[Append]) -> None:
        """It is told so, unless it repeats what it knows to be there: that changes nothing anyway."""
        repeats = writer.last is not None and number <= writer.last
        with suppress(WriterFenced) if repeats else pytest.raises(WriterFenced):
            assert writer.append(number, appends) is None

    def _here(self, appends: list[Append]) -> list[Append]:
        """Appends to this place's topics, of rows that the world can hold."""
        return [
            replace(
                one,
                topic=self.at(one.topic),
                rows=one.rows.select([name for name in one.rows.schema.names if name not in self.world.forgets]),
            )
            for one in appends
        ]

    # -- removing ---------------------------------------------------------------------------------------------------

    @rule(topic=topics, number=st.integers(0, 11), part=st.sampled_from([0, 0.3, 0.7, 1]))
    def truncate(self, topic: str, number: int, part: float) -> None:
        bounds = self.log.bounds(self.at(topic))
        partition = number % len(bounds)
        start, end = bounds[partition]
        before = start + round((end - start) * part)
        self.log.truncate(self.at(topic), partition, before)
        self.model.truncate(self.at(topic), partition, before)

    @rule(seconds=st.integers(1, 60))
    def wait(self, seconds: int) -> None:
        self.clock.advance(timedelta(seconds=seconds))

    @rule(force=st.booleans(), waited=st.sampled_from([0, 31]))
    def upkeep(self, force: bool, waited: int) -> None:
        self.clock.advance(timedelta(seconds=waited))
        assert self.log.maintenance.run(force_compaction=force) is not None
        for topic in self.model.topics:
            found = {p: (bounds, self._offsets(topic, p)) for p, bounds in self.log.bounds(topic).items()}
            self.model.tidied(topic, found, self.clock.now(), force)

    # -- changing ---------------------------------------------------------------------------------------------------

    @rule()
    def add_partition(self) -> None:
        plain = self.at("plain")
        count = len(self.log.bounds(plain))
        assume(count < 4)
        self.log.alter_topic(plain, partitions=count + 1)
        self.model.grow(plain, count + 1)

    @rule(kind=st.sampled_from(["bigint", "double"]))
    def widen(self, kind: str) -> None:
        typed = self.at("typed")
        assume("more" not in self.log.topic(typed).schema)
        if kind == "bigint":
            schema = Schema.parse("more bigint default 7, id int key, name string")
        else:
            schema = Schema.parse("id int key, name string, more double")
        self.log.alter_topic(typed, schema=schema)
        self.model.default(typed, "more", schema["more"].default)

    @rule()
    def delete_and_create(self) -> None:
        timed, spec = self.at("timed"), self.world.spec(SPECS["timed"])
        self.log.delete_topic(timed)
        self.log.create_topic(timed, spec)
        self.model.create(timed, spec)

    @rule()
    def restart(self) -> None:
        self.log.close()
        self.log = self.world.open(self.clock)
        self.consumers = {}

    # -- groups -----------------------------------------------------------------------------------------------------

    @rule(member=members)
    def join(self, member: str) -> None:
        if member not in self.consumers:
            wanted = Subscription(tuple(map(self.at, SUBSCRIBED)))
            self.consumers[member] = self.log.consumer(self.at("group"), wanted, client=member)

    @rule(member=members)
    def leave(self, member: str) -> None:
        if member in self.consumers:
            self.consumers.pop(member).close()

    @rule(member=members, most=st.integers(1, 5), commit=st.booleans())
    def poll(self, member: str, most: int, commit: bool) -> None:
        if member not in self.consumers:
            return
        consumer = self.consumers[member]
        assert all(lag >= 0 for lag in consumer.lag().values())
        if self._polled(consumer, most) and commit:
            offsets = {p: consumer.position(p) for p in consumer.assignment}
            with suppress(GroupFenced) if self.world.rebalances_late else nullcontext():
                consumer.commit()
                self.model.commit(offsets)

    def _polled(self, consumer: Consumer, most: int) -> bool:
        """Check what the consumer gets; whether it got on, and did not learn instead that rows were lost to it."""
        positions = {p: consumer.position(p) for p in consumer.assignment}
        try:
            batches = consumer.poll(min(self.world.news, timedelta(milliseconds=100)), most)
        except OffsetLost as error:
            lost = next(p for p in consumer.assignment if str(p) == error.where)
            start = self.model.bounds(lost.topic)[lost.partition].start
            assert min(positions.get(lost, start), self.model.committed.get(lost, start)) < start
            consumer.seek(lost, start)
            return False
        for batch in batches:
            place = TopicPartition(batch.topic, batch.partition)
            self.model.check(batch, self._expected_start(place, batch, positions), self.world.reads_ahead)
        return True

    def _expected_start(self, place: TopicPartition, batch: Batch, positions: Mapping[TopicPartition, int]) -> int:
        """Where the batch must start: at the position before the poll or, if the poll brought a new assignment (perhaps
        of the same partition), at the group's committed offset."""
        committed = self.model.committed.get(place, self.model.bounds(place.topic)[place.partition].start)
        position = positions.get(place, committed)
        if not self.world.rebalances_late:
            return position
        first = batch.rows.column("$offset")[0].as_py() if len(batch) else position
        return committed if first < position else position

    @rule(member=members, partition=st.integers(0, 3))
    def commit_for_another_member(self, member: str, partition: int) -> None:
        place = TopicPartition(self.at("plain"), partition)
        if member in self.consumers and place not in self.consumers[member].assignment:
            with pytest.raises(GroupFenced):
                self.consumers[member].commit({place: 0})

    # -- what must hold ---------------------------------------------------------------------------------------------

    @invariant()
    def reads_agree_with_the_model(self) -> None:
        names = list(self.model.topics)
        turn, count = next(self.turn), self.world.looks or len(names)
        some = [names[(turn + i) % len(names)] for i in range(count if names else 0)]
        self.rows_agree_with_the_model(some)
        self.times_find_offsets(some)

    def rows_agree_with_the_model(self, names: Iterable[str]) -> None:
        for topic in names:
            assert self.log.bounds(topic) == self.model.bounds(topic)
            for partition, (start, end) in self.model.bounds(topic).items():
                for offset in {start, (start + end) // 2, end}:
                    self._check_from(topic, partition, offset, end)

    def times_find_offsets(self, names: Iterable[str]) -> None:
        for topic in names:
            for partition in self.model.bounds(topic):
                for ago in (0, 5_000, 35_000, 100_000):
                    at = self.clock.now() - ago
                    assert self.log.offset_at(topic, partition, at) == self.model.offset_at(topic, partition, at)

    @invariant()
    def scans_of_any_cuts_return_every_row_once(self) -> None:
        names = sorted(self.model.topics)
        head = self.log.head(names)
        assert head >= max((row.sequence for row in self.model.rows(names)), default=0)
        expected = sorted(row.sequence for row in self.model.rows(names))
        assert sorted(_sequences(self.log.scan(names, 0, head))) == expected
        after, found = 0, []
        view = ReadOnlyLog(self.log.folder)
        try:
            while after < head:
                upto = view.cut(names, after, 7)
                assert after < upto <= head
                assert self.log.lag(names, after) or not any(sequence > after for sequence in expected)
                for piece in view.split(names, after, upto, 3):
                    found += _sequences(view.scan(*piece))
                after = upto
            assert view.cut(names, head, 7) == head
            assert not self.log.lag(names, head)
        finally:
            view.close()
        assert sorted(found) == expected

    @invariant()
    def groups_agree_with_the_model(self) -> None:
        if not self.consumers:
            return
        self._await_rebalance()
        assert self._is_balanced()
        offsets = self.log.group(self.at("group")).offsets
        assert {p: o for p, o in offsets.items() if p in self.model.committed} == self.model.committed

    def _await_rebalance(self) -> None:
        """Let all of them follow the last rebalance; where news travels, they must poll for it."""
        until = time.monotonic() + self.world.news.total_seconds()
        for consumer in self.consumers.values():
            consumer.lag()
        while time.monotonic() < until and not self._is_balanced():
            for consumer in self.consumers.values():
                self._polled(consumer, 1)

    def _is_balanced(self) -> bool:
        """Each partition to one member, and to all of them alike."""
        shares = [consumer.assignment for consumer in self.consumers.values()]
        wanted = [TopicPartition(t, p) for t in map(self.at, SUBSCRIBED) for p in self.model.bounds(t)]
        found = sorted(p for share in shares for p in share)
        return found == sorted(wanted) and max(map(len, shares)) - min(map(len, shares)) <= 1

    def _check_from(self, topic: str, partition: int, offset: int, end: int) -> None:
        """All that lies behind an offset, in as many reads as it takes, and once all but the last row of a read."""
        while offset < end:
            batch = self.log.read(topic, partition, offset)
            assert offset < batch.next_offset <= end
            self.model.check(batch, offset)
            if len(batch) > 1:
                self.model.check(self.log.read(topic, partition, offset, max_records=len(batch) - 1), offset)
            offset = batch.next_offset
        assert len(self.log.read(topic, partition, end)) == 0

    def _offsets(self, topic: str, partition: int) -> list[int]:
        batch = self.log.read(topic, partition, self.log.bounds(topic)[partition].start)
        return batch.rows.column("$offset").to_pylist()


def _sequences(batches: Iterator[Batch]) -> list[int]:
    return [sequence for batch in batches for sequence in batch.rows.column("$sequence").to_pylist()]
