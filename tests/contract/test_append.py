"""Appends: in order, atomic over partitions and topics, visible to others, with times, headers and tombstones."""

from __future__ import annotations

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pyarrow as pa
import pytest

from headrace.clock import ManualClock
from headrace.contracts import Ack, Append, Log, TopicSpec
from headrace.errors import HeadraceError, PartitionConflict, RecordTooLarge, UnknownPartition, UnknownTopic, WrongType
from headrace.log.stored_rows import from_records
from headrace.record import Record
from headrace.schema import Schema
from headrace.settings import Size
from tests.contract.conftest import OpenLog
from tests.contract.rows_and_records import columns, keyed, put, raw, records, values


def test_rows_are_read_back_in_order_with_increasing_offsets(log: Log, open_log: OpenLog, name: str) -> None:
    log.create_topic(name)
    for i in range(5):
        put(log, name, *(b"%d.%d" % (i, j) for j in range(4)))
    found = records(open_log(), name)
    assert [r.value for r in found] == [b"%d.%d" % (i, j) for i in range(5) for j in range(4)]
    assert all(a.offset < b.offset for a, b in itertools.pairwise(found))


def test_an_append_returns_the_offsets_of_its_rows(log: Log, name: str) -> None:
    log.create_topic(name, TopicSpec(partitions=4))
    rows = keyed(*((b"k%d" % i, b"v%d" % i) for i in range(20)))
    appended = log.append([Append(name, rows)])
    assert sum(place.count for place in appended) == 20
    for place in appended:
        batch = log.read(name, place.partition, place.offset, max_records=place.count)
        assert len(batch) == place.count
        assert batch.rows.column("$offset")[0].as_py() == place.offset


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("count", [1, 2, 50])
def test_records_are_appended_like_rows(log: Log, name: str, partitions: int, count: int) -> None:
    sent = [
        Record(b"v%d" % i, b"k%d" % i, (("h", b"%d" % i),), occurred_at=1_000, sent_at=2_000, received_at=5_000 + i)
        for i in range(count)
    ]
    for suffix, rows in (("-records", sent), ("-rows", from_records(sent))):
        log.create_topic(name + suffix, TopicSpec(partitions=partitions))
        appended = log.append([Append(name + suffix, rows)])
        assert sum(place.count for place in appended) == count
    bare, arrow = (
        [
            (r.partition, r.offset, r.timestamp, r.record)
            for p in range(partitions)
            for r in records(log, name + suffix, p)
        ]
        for suffix in ("-records", "-rows")
    )
    assert bare == arrow
    assert sorted(record.value or b"" for *_, record in bare) == sorted(record.value or b"" for record in sent)


def test_a_single_record_is_validated_like_rows(log: Log, name: str) -> None:
    log.create_topic(name, TopicSpec(partitions=2, max_record_bytes=Size(100)))
    with pytest.raises(RecordTooLarge):
        log.append([Append(name, [Record(b"x" * 101)])])
    with pytest.raises(UnknownPartition):
        log.append([Append(name, [Record(b"x")], partition=2)])
    log.create_topic(f"{name}-typed", TopicSpec(schema=Schema.parse("id bigint key")))
    with pytest.raises(WrongType):
        log.append([Append(f"{name}-typed", [Record(b"x")])])
    with pytest.raises(UnknownTopic):
        log.append([Append(f"{name}-none", [Record(b"x")])])


@pytest.mark.parametrize("ack", list(Ack))
def test_every_level_of_acknowledgement_appends(log: Log, open_log: OpenLog, name: str, ack: Ack) -> None:
    log.create_topic(name)
    for i in range(10):
        log.append([Append(name, raw(b"%d" % i))], ack=ack)
    put(log, name, b"end")
    assert values(open_log(), name) == [*(b"%d" % i for i in range(10)), b"end"]


def test_keys_are_partitioned_as_by_kafka(log: Log, name: str) -> None:
    log.create_topic(name, TopicSpec(partitions=7))
    # murmur2 of the key, without its sign, modulo 7: the numbers are those of Kafka's own tests.
    expected = {b"21": -973932308, b"foobar": -790332482, b"abc": 479470107}
    for key, hashed in expected.items():
        (place,) = log.append([Append(name, raw(b"x", key=key))])
        assert place.partition == (hashed & 0x7FFFFFFF) % 7


def test_rows_without_a_key_are_distributed(log: Log, name: str) -> None:
    log.create_topic(name, TopicSpec(partitions=3))
    log.append([Append(name, raw(*(b"%d" % i for i in range(30))))])
    assert {len(values(log, name, p)) for p in range(3)} == {10}


def test_priorities_choose_the_partition(log: Log, name: str) -> None:
    spec = TopicSpec(partitions=3, schema=Schema.parse("level int, what string"), partitioner="priority:level")
    log.create_topic(name, spec)
    rows = pa.RecordBatch.from_pydict({"level": [2, 0, 9, None, -1], "what": list("abcde")})
    log.append([Append(name, rows)])
    found = [[r["what"] for r in log.read(name, p, 0).rows.to_pylist()] for p in range(3)]
    assert found == [["b", "e"], [], ["a", "c", "d"]]


def test_an_append_over_several_topics_is_atomic(log: Log, name: str) -> None:
    log.create_topic(f"{name}.a", TopicSpec(partitions=2))
    log.create_topic(f"{name}.b", TopicSpec(max_record_bytes=Size(2000)))
    good = Append(f"{name}.a", raw(b"1", b"2"))
    for bad, code in (
        (Append(f"{name}.no", raw(b"3")), UnknownTopic),
        (Append(f"{name}.b", raw(b"x" * 3000)), RecordTooLarge),
        (Append(f"{name}.b", raw(b"x"), 5), UnknownPartition),
    ):
        with pytest.raises(code):
            log.append([good, bad])
    assert all(b == (0, 0) for b in log.bounds(f"{name}.a").values())
    log.append([good, Append(f"{name}.b", raw(b"3"))])
    assert sorted(values(log, f"{name}.a") + values(log, f"{name}.a", 1)) == [b"1", b"2"]
    assert values(log, f"{name}.b") == [b"3"]


def test_readers_never_see_half_an_append(log: Log, open_log: OpenLog, name: str) -> None:
    log.create_topic(f"{name}.a")
    log.create_topic(f"{name}.b")
    other, done = open_log(), threading.Event()

    def look() -> list[tuple[set[bytes | None], set[bytes | None]]]:
        seen = []
        while not done.is_set():
            # Read in the order opposite to that of the append, so that half of it would show.
            second = set(values(other, f"{name}.b"))
            seen.append((set(values(other, f"{name}.a")), second))
        return seen

    with ThreadPoolExecutor(1) as pool:
        looking = pool.submit(look)
        for i in range(20):
            log.append([Append(f"{name}.{t}", raw(b"%d" % i, b"%d'" % i)) for t in "ab"])
        done.set()
        seen = looking.result()
    assert all(first >= second for first, second in seen)


def test_threads_and_processes_append_concurrently(log: Log, open_log: OpenLog, name: str) -> None:
    log.create_topic(name)
    logs = [log, open_log()]

    def send(worker: int) -> None:
        for i in range(20):
            put(logs[worker % 2], name, b"%d.%02d" % (worker, i))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(send, range(4)))
    found = values(log, name)
    assert sorted(found) == [b"%d.%02d" % (w, i) for w in range(4) for i in range(20)]
    for worker in range(4):
        mine = [v for v in found if v and v.startswith(b"%d." % worker)]
        assert mine == sorted(mine)


def test_an_empty_append_appends_nothing(log: Log, name: str) -> None:
    log.create_topic(name)
    assert log.append([]) == []
    assert log.append([Append(name, raw())]) == []
    assert log.bounds(name) == {0: (0, 0)}


def test_headers_keys_and_tombstones_are_read_back(log: Log, name: str) -> None:
    log.create_topic(name)
    given = [
        Record(b"v", b"k", (("a", b"1"), ("a", b"2"), ("b", b""))),
        Record(None, b"gone"),
        Record(b"", b""),
        Record(b"plain"),
    ]
    log.append([Append(name, from_records(given))])
    assert [(r.key, r.value, r.headers) for r in records(log, name)] == [(r.key, r.value, r.headers) for r in given]


def test_deleted_rows_of_typed_topics_are_read_back(log: Log, name: str) -> None:
    log.create_topic(name, TopicSpec(schema=Schema.parse("id int key, name string")))
    rows = pa.RecordBatch.from_pydict({"id": [1, 1], "name": ["x", None], "$deleted": [None, True]})
    log.append([Append(name, rows)])
    assert [(i, bool(d)) for i, d in columns(log, name, "id", "$deleted")] == [(1, False), (1, True)]


def test_times_are_corrected_for_the_clock_of_the_device(open_log: OpenLog, name: str) -> None:
    now = 1_800_000_000_000
    log = open_log(ManualClock(now))
    log.create_topic(name)
    given = [
        Record(b"0"),
        Record(b"1", occurred_at=now - 500),
        Record(b"2", occurred_at=now - 90_000, sent_at=now - 60_000),
        Record(b"3", occurred_at=now - 90_000, sent_at=now - 60_000, received_at=now - 10_000),
        Record(b"4", received_at=now - 77),
        Record(b"5", sent_at=now - 60_000),
    ]
    log.append([Append(name, from_records(given))])
    found = records(log, name)
    assert [r.timestamp - now for r in found] == [0, -500, -30_000, -40_000, -77, 0]
    assert [(r.record.occurred_at, r.record.sent_at) for r in found] == [(r.occurred_at, r.sent_at) for r in given]
    assert found[2].record.received_at == now
    assert found[3].record.received_at == now - 10_000


def test_a_timestamp_can_be_set(log: Log, name: str) -> None:
    log.create_topic(name)
    rows = raw(b"a", b"b").append_column("$timestamp", pa.array([1_700_000_000_000, 1_600_000_000_000]))
    log.append([Append(name, rows)])
    assert [r.timestamp for r in records(log, name)] == [1_700_000_000_000, 1_600_000_000_000]


TYPES = """
    id bigint key, b boolean, i int, f float, d double, s string, r bytes, day date, t timestamp, p decimal(10,2),
    a array<int>, m map<string,int>, o struct<x int,y string>
"""


def test_values_of_all_types_are_read_back(log: Log, name: str) -> None:
    import datetime
    from decimal import Decimal

    schema = Schema.parse(TYPES)
    log.create_topic(name, TopicSpec(schema=schema))
    full = {
        "id": 1,
        "b": True,
        "i": -5,
        "f": 1.5,
        "d": 2.25,
        "s": "ä",
        "r": b"\x00\xff",
        "day": datetime.date(2024, 2, 29),
        "t": datetime.datetime(2024, 1, 1, 12, 30, 0, 250000, tzinfo=datetime.UTC),
        "p": Decimal("12.50"),
        "a": [1, None, 3],
        "m": [("k", 1)],
        "o": {"x": 1, "y": "z"},
    }
    empty = {**dict.fromkeys(full), "id": 2}
    log.append([Append(name, pa.RecordBatch.from_pylist([full, empty], schema.arrow))])
    assert columns(log, name, *schema.names) == [tuple(row[n] for n in schema.names) for row in (full, empty)]


def test_values_are_converted_without_loss(log: Log, name: str) -> None:
    log.create_topic(name, TopicSpec(schema=Schema.parse("id bigint key, s string default 'none'")))
    log.append([Append(name, pa.RecordBatch.from_pydict({"id": pa.array([1, 2], pa.int8())}))])
    assert columns(log, name, "id", "s") == [(1, "none"), (2, "none")]


@pytest.mark.parametrize(
    ("rows", "partition", "error"),
    [
        ({"id": ["x"]}, None, WrongType),
        ({"id": [1.5]}, None, WrongType),
        ({"id": [1], "colour": ["red"]}, None, WrongType),
        ({"id": [1], "$offset": [3]}, None, WrongType),
        ({"id": [1]}, 2, UnknownPartition),
        ({"id": [1]}, -1, UnknownPartition),
        ({"id": [1], "name": ["x" * 3000]}, None, RecordTooLarge),
        ({"id": [1], "tags": [["x" * 30] * 100]}, None, RecordTooLarge),
        ({"id": [1], "$headers": [[{"name": "h", "value": b"x" * 3000}]]}, None, RecordTooLarge),
        ({"id": [1], "$timestamp": ["noon"]}, None, WrongType),
        ({"id": [1], "$headers": [5]}, None, WrongType),
    ],
)
def test_invalid_rows_are_refused(
    log: Log, name: str, rows: dict, partition: int | None, error: type[HeadraceError]
) -> None:
    spec = TopicSpec(
        partitions=2, schema=Schema.parse("id bigint key, name string, tags array<string>"), max_record_bytes=Size(2000)
    )
    log.create_topic(name, spec)
    with pytest.raises(error) as raised:
        log.append([Append(name, pa.RecordBatch.from_pydict(rows), partition)])
    assert raised.value.fix
    assert log.bounds(name) == {0: (0, 0), 1: (0, 0)}


def test_a_keyed_row_cannot_name_another_partition(log: Log, name: str) -> None:
    log.create_topic(name, TopicSpec(partitions=5))
    (place,) = log.append([Append(name, raw(b"x", key=b"k"))])
    log.append([Append(name, raw(b"y", key=b"k"), place.partition)])
    with pytest.raises(PartitionConflict):
        log.append([Append(name, raw(b"y", key=b"k"), (place.partition + 1) % 5)])
    log.append([Append(name, raw(b"z"), (place.partition + 1) % 5)])
    assert values(log, name, place.partition) == [b"x", b"y"]


def test_large_appends_are_read_back_completely(log: Log, name: str) -> None:
    log.create_topic(name)
    given = [b"%05d" % i * 20 for i in range(5000)]
    put(log, name, *given)
    start, found = log.bounds(name)[0].start, []
    while start < log.bounds(name)[0].end:
        batch = log.read(name, 0, start)
        found += batch.rows.column("value").to_pylist()
        start = batch.next_offset
    assert found == given


def test_a_new_partition_receives_rows(log: Log, name: str) -> None:
    log.create_topic(name, TopicSpec(partitioner="round-robin"))
    with closing(log.producer()) as producer:
        for partition in range(1, 4):
            log.append([Append(name, raw(b"known", b"before"))])
            producer.send(name, Record(b"known")).result(30)
            log.alter_topic(name, partitions=partition + 1)
            (place,) = log.append([Append(name, raw(b"several", b"at once"), partition)])
            (single,) = log.append([Append(name, raw(b"one"), partition)])
            sent = producer.send(name, Record(b"sent"), partition).result(30)
            assert {place.partition, single.partition, sent.partition} == {partition}
