"""The embedded log beside a model of it: whatever is done to both, they hold the same.

Upkeep decides by extents what goes when, the model by rows; so the model is told what went (bounds, or the offsets
that compaction kept) and checks that it was allowed, and that everything else is there, in place and unchanged.
`HEADRACE_HYPOTHESIS=heavy` runs many more examples.
"""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, assume, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from headrace.clock import ManualClock
from headrace.contracts import Append, Batch, Consumer, Subscription, TopicPartition, TopicSpec
from headrace.errors import GroupFenced, OffsetLost, WriterFenced
from headrace.log import partitioners
from headrace.log.embedded import EmbeddedLog
from headrace.log.embedded.view import LogView
from headrace.log.rows import from_records
from headrace.record import Record
from headrace.schema import Schema
from headrace.settings import Settings, Size

from .model import Model

EXAMPLES, STEPS = (1500, 60) if os.environ.get("HEADRACE_HYPOTHESIS") == "heavy" else (45, 25)
START = 1_800_000_000_000
SETTINGS = Settings(
    upkeep_every=timedelta(0),
    inline_bytes=Size(600),  # so that both kinds of extents, and merging over several sizes, are met
    file_bytes=Size(20_000),
    readable_after=timedelta(seconds=30),
)
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


class LogMachine(RuleBasedStateMachine):
    """Every rule does a thing to the log and to the model."""

    writers = Bundle("writers")

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="headrace-machine-"))
        self.clock = ManualClock(START)
        partitioners._turn = itertools.count()  # rows without a key must go the same way when an example is repeated
        self.log = EmbeddedLog(self.folder, SETTINGS, self.clock)
        self.model = Model()
        self.consumers: dict[str, Consumer] = {}
        self.numbers: dict[str, int] = {}

    def teardown(self) -> None:
        self.log.close()
        shutil.rmtree(self.folder)

    @initialize()
    def create(self) -> None:
        for name, spec in SPECS.items():
            self.log.create_topic(name, spec)
            self.model.create(name, spec)

    # -- writing ----------------------------------------------------------------------------------------------------

    @rule(appends=appends)
    def append(self, appends: list[Append]) -> None:
        self.model.placed(appends, self.log.append(appends), self._read)

    @rule(appends=appends, times=st.integers(8, 20))
    def append_often(self, appends: list[Append], times: int) -> None:
        for _ in range(times):
            self.append(appends)

    @rule(topic=st.sampled_from(RAW_TOPICS), ago=st.integers(0, 90_000), value=st.binary(max_size=3))
    def append_late(self, topic: str, ago: int, value: bytes) -> None:
        self.append([Append(topic, from_records([Record(value, b"a", occurred_at=self.clock.now() - ago)]))])

    @rule(target=writers, name=st.sampled_from(["w1", "w2"]))
    def open_writer(self, name: str) -> Any:
        writer = self.log.writer(name)
        assert writer.last == self.numbers.get(name)
        self.model.writers[name] = writer
        return multiple(writer)

    @rule(writer=writers, step=st.integers(-1, 2), appends=appends)
    def write(self, writer: Any, step: int, appends: list[Append]) -> None:
        assume(writer._log is self.log)
        number = self.numbers.get(writer.name, 0) + step
        if self.model.writers[writer.name] is not writer:
            try:
                writer.append(number, appends)
            except WriterFenced:
                return
            raise AssertionError("a fenced writer wrote")
        appended = writer.append(number, appends)
        if writer.name in self.numbers and step <= 0:
            assert appended is None
            return
        assert appended is not None
        self.numbers[writer.name] = number
        self.model.placed(appends, appended, self._read)

    # -- removing ---------------------------------------------------------------------------------------------------

    @rule(topic=topics, number=st.integers(0, 11), part=st.sampled_from([0, 0.3, 0.7, 1]))
    def truncate(self, topic: str, number: int, part: float) -> None:
        partition = number % len(self.log.bounds(topic))
        start, end = self.log.bounds(topic)[partition]
        before = start + round((end - start) * part)
        self.log.truncate(topic, partition, before)
        self.model.truncate(topic, partition, before)

    @rule(seconds=st.integers(1, 60))
    def wait(self, seconds: int) -> None:
        self.clock.advance(timedelta(seconds=seconds))

    @rule(force=st.booleans(), waited=st.sampled_from([0, 31]))
    def upkeep(self, force: bool, waited: int) -> None:
        self.clock.advance(timedelta(seconds=waited))
        assert self.log.upkeep.run(force_compaction=force) is not None
        for topic in SPECS:
            found = {p: (bounds, self._offsets(topic, p)) for p, bounds in self.log.bounds(topic).items()}
            self.model.tidied(topic, found, self.clock.now(), force)

    # -- changing ---------------------------------------------------------------------------------------------------

    @rule()
    def add_partition(self) -> None:
        count = len(self.log.bounds("plain"))
        assume(count < 4)
        self.log.alter_topic("plain", partitions=count + 1)
        self.model.grow("plain", count + 1)

    @rule(kind=st.sampled_from(["bigint", "double"]))
    def widen(self, kind: str) -> None:
        assume("more" not in self.log.topic("typed").schema)
        if kind == "bigint":
            schema = Schema.parse("more bigint default 7, id int key, name string")
        else:
            schema = Schema.parse("id int key, name string, more double")
        self.log.alter_topic("typed", schema=schema)
        self.model.default("typed", "more", schema["more"].default)

    @rule()
    def delete_and_create(self) -> None:
        self.log.delete_topic("timed")
        self.log.create_topic("timed", SPECS["timed"])
        self.model.create("timed", SPECS["timed"])

    @rule()
    def restart(self) -> None:
        self.log.close()
        self.log = EmbeddedLog(self.folder, SETTINGS, self.clock)
        for member in list(self.consumers):
            self.model.leave(member)
        self.consumers = {}

    # -- groups -----------------------------------------------------------------------------------------------------

    @rule(member=st.sampled_from("xyz"))
    def join(self, member: str) -> None:
        if member not in self.consumers:
            self.consumers[member] = self.log.consumer("group", Subscription(("plain", "kept")), client=member)
            self.model.join(member)

    @rule(member=st.sampled_from("xyz"))
    def leave(self, member: str) -> None:
        if member in self.consumers:
            self.consumers.pop(member).close()
            self.model.leave(member)

    @rule(member=st.sampled_from("xyz"), most=st.integers(1, 5), commit=st.booleans())
    def poll(self, member: str, most: int, commit: bool) -> None:
        if member not in self.consumers:
            return
        consumer = self.consumers[member]
        before = dict(consumer.lag())
        assert all(lag >= 0 for lag in before.values())
        positions = {p: consumer.position(p) for p in consumer.assignment}
        try:
            batches = consumer.poll(timedelta(0), most)
        except OffsetLost as error:
            lost = next(p for p in positions if str(p) == error.where)
            assert positions[lost] < self.model.bounds(lost.topic)[lost.partition][0]
            consumer.seek(lost, self.model.bounds(lost.topic)[lost.partition][0])
            return
        for batch in batches:
            place = TopicPartition(batch.topic, batch.partition)
            self.model.check(batch, positions[place])
        if commit:
            consumer.commit()
            self.model.commit({p: consumer.position(p) for p in consumer.assignment})

    @rule(member=st.sampled_from("xyz"), partition=st.integers(0, 3))
    def commit_what_is_not_ours(self, member: str, partition: int) -> None:
        place = TopicPartition("plain", partition)
        if member in self.consumers and place not in self.consumers[member].assignment:
            try:
                self.consumers[member].commit({place: 0})
            except GroupFenced:
                return
            raise AssertionError("a commit was not fenced")

    # -- what must hold ---------------------------------------------------------------------------------------------

    @invariant()
    def bounds_and_rows_are_the_same(self) -> None:
        for topic in self.model.topics:
            assert self.log.bounds(topic) == self.model.bounds(topic)
            for partition, (start, end) in self.model.bounds(topic).items():
                for offset in {start, (start + end) // 2, end}:
                    batch = self.log.read(topic, partition, offset)
                    assert batch.next_offset == end
                    self.model.check(batch, offset)
                    if len(batch) > 1:
                        self.model.check(self.log.read(topic, partition, offset, max_records=len(batch) - 1), offset)

    @invariant()
    def times_find_offsets(self) -> None:
        for topic in self.model.topics:
            for partition in self.model.bounds(topic):
                for ago in (0, 5_000, 35_000, 100_000):
                    time = self.clock.now() - ago
                    assert self.log.offset_at(topic, partition, time) == self.model.offset_at(topic, partition, time)

    @invariant()
    def everything_is_scanned_once_however_it_is_cut(self) -> None:
        names = sorted(self.model.topics)
        head = self.log.head(names)
        assert head >= max((row.sequence for row in self.model.rows(names)), default=0)
        expected = sorted(row.sequence for row in self.model.rows(names))
        assert sorted(_sequences(self.log.scan(names, 0, head))) == expected
        after, found = 0, []
        view = LogView(self.folder)
        try:
            while after < head:
                upto = view.cut(names, after, 7)
                assert after < upto <= head
                for piece in view.split(names, after, upto, 3):
                    found += _sequences(view.scan(*piece))
                after = upto
            assert view.cut(names, head, 7) == head
        finally:
            view.close()
        assert sorted(found) == expected

    @invariant()
    def groups_are_the_same(self) -> None:
        if not self.consumers:
            return
        for consumer in self.consumers.values():
            consumer.lag()  # all of them follow the last rebalance
        shares = [c.assignment for c in self.consumers.values()]
        wanted = {TopicPartition(t, p) for t in ("plain", "kept") for p in self.model.bounds(t)}
        assert sorted(p for share in shares for p in share) == sorted(wanted)
        assert max(map(len, shares)) - min(map(len, shares)) <= 1
        offsets = self.log.group("group").offsets
        assert {p: o for p, o in offsets.items() if p in self.model.committed} == self.model.committed

    def _read(self, topic: str, partition: int, offset: int, count: int) -> Batch:
        return self.log.read(topic, partition, offset, max_records=count)

    def _offsets(self, topic: str, partition: int) -> list[int]:
        batch = self.log.read(topic, partition, self.log.bounds(topic)[partition].start)
        return batch.rows.column("$offset").to_pylist()


def _sequences(batches: Iterator[Batch]) -> list[int]:
    return [sequence for batch in batches for sequence in batch.rows.column("$sequence").to_pylist()]


def test_the_log_is_like_its_model() -> None:
    run_state_machine_as_test(
        LogMachine,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
            derandomize=os.environ.get("HEADRACE_HYPOTHESIS") != "heavy",
            print_blob=True,
        ),
    )
