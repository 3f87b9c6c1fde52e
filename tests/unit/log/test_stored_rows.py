"""Rows as they are stored and read."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.contracts import SYSTEM_COLUMNS, Topic, TopicSpec
from headrace.errors import PartitionConflict, RecordTooLarge, UnknownPartition, WrongType
from headrace.log.stored_rows import (
    conform_rows,
    from_records,
    prepare_rows,
    read_schema,
    split_by_partition,
    widen_column,
)
from headrace.record import Record, event_time
from headrace.schema import RAW, Schema
from headrace.settings import Size

NOW = 1_800_000_000_000


def topic(schema: Schema = RAW, **options: object) -> Topic:
    return Topic("t", TopicSpec(schema=schema, **options), 0)  # type: ignore[arg-type]


times = st.none() | st.integers(0, 2 * NOW)


@given(
    st.lists(
        st.builds(
            Record,
            st.none() | st.binary(max_size=3),
            st.none() | st.binary(max_size=3),
            occurred_at=times,
            sent_at=times,
            received_at=times,
        ),
        max_size=6,
    )
)
def test_bulk_time_parsing_agrees_with_single_times(records: list[Record]) -> None:
    rows = prepare_rows(from_records(records), topic(), NOW)
    expected = [event_time(r.occurred_at, r.sent_at, NOW if r.received_at is None else r.received_at) for r in records]
    assert rows.column("$timestamp").to_pylist() == expected
    assert rows.column("key").to_pylist() == [r.key for r in records]
    assert rows.column("value").to_pylist() == [r.value for r in records]


def test_a_given_timestamp_takes_precedence() -> None:
    rows = pa.RecordBatch.from_pydict({"value": [b"a", b"b"], "$timestamp": [5, None], "$occurred_at": [7, 8]})
    assert prepare_rows(rows, topic(), NOW).column("$timestamp").to_pylist() == [5, 8]


def test_empty_system_columns_are_omitted() -> None:
    rows = pa.RecordBatch.from_pydict({"value": [b"a"], "$deleted": pa.array([None], pa.bool_())})
    assert prepare_rows(rows, topic(), NOW).schema.names == ["key", "value", "$timestamp"]


def test_received_time_is_stored_with_the_device_times() -> None:
    rows = prepare_rows(from_records([Record(b"", occurred_at=5), Record(b"")]), topic(), NOW)
    assert rows.column("$received_at").to_pylist() == [NOW, NOW]


@pytest.mark.parametrize(
    "columns",
    [
        {"value": [1]},
        {"value": [b"x"], "no": [1]},
        {"value": [b"x"], "$sequence": [1]},
        {"value": [b"x"], "$timestamp": ["x"]},
        {"value": [b"x"], "$deleted": ["x"]},
    ],
)
def test_invalid_rows_are_refused(columns: dict) -> None:
    with pytest.raises(WrongType):
        prepare_rows(pa.RecordBatch.from_pydict(columns), topic(), NOW)


def test_a_column_given_twice_is_refused() -> None:
    rows = pa.RecordBatch.from_arrays([pa.array([b"a"]), pa.array([b"b"])], ["value", "value"])
    with pytest.raises(WrongType):
        prepare_rows(rows, topic(), NOW)


def test_the_largest_record_is_named() -> None:
    rows = from_records([Record(b"x"), Record(b"x" * 90, b"k" * 20), Record(b"x" * 100)])
    with pytest.raises(RecordTooLarge, match=r"record 1 .* 110 bytes"):
        prepare_rows(rows, topic(max_record_bytes=Size(99)), NOW)
    assert prepare_rows(rows, topic(max_record_bytes=Size(110)), NOW).num_rows == 3


@given(st.lists(st.tuples(st.none() | st.binary(max_size=2), st.binary(max_size=2)), max_size=30), st.integers(1, 5))
def test_splitting_keeps_all_rows_in_order_and_keys_together(pairs: list, partitions: int) -> None:
    rows = prepare_rows(from_records([Record(v, k) for k, v in pairs]), topic(), NOW)
    home: dict[bytes, int] = {}
    found: list[tuple] = []
    for partition, piece in split_by_partition(rows, topic(partitions=partitions), None):
        assert 0 <= partition < partitions
        assert piece.num_rows
        pieces = list(zip(piece.column("key").to_pylist(), piece.column("value").to_pylist(), strict=True))
        found += pieces
        for key, _ in pieces:
            assert key is None or home.setdefault(key, partition) == partition
    assert sorted(found, key=repr) == sorted(pairs, key=repr)
    for key in {k for k, _ in pairs if k is not None}:
        assert [v for k, v in found if k == key] == [v for k, v in pairs if k == key]


def test_a_partition_can_be_given_unless_it_contradicts_the_key() -> None:
    four = topic(partitions=4)
    plain = prepare_rows(from_records([Record(b"x")]), four, NOW)
    assert [p for p, _ in split_by_partition(plain, four, 3)] == [3]
    for bad in (-1, 4):
        with pytest.raises(UnknownPartition):
            list(split_by_partition(plain, four, bad))
    keyed = prepare_rows(from_records([Record(b"x", b"21")]), four, NOW)
    home = (-973932308 & 0x7FFFFFFF) % 4
    assert [p for p, _ in split_by_partition(keyed, four, home)] == [home]
    with pytest.raises(PartitionConflict):
        list(split_by_partition(keyed, four, (home + 1) % 4))
    free = topic(partitions=4, partitioner="round-robin")
    assert [p for p, _ in split_by_partition(keyed, free, (home + 1) % 4)] == [(home + 1) % 4]


def test_stored_rows_are_read_with_the_current_schema() -> None:
    old, new = (
        Schema.parse("a int, b struct<x int>"),
        Schema.parse("c string default 'd', a double, b struct<x bigint,y int>, e int"),
    )
    stored = prepare_rows(
        pa.RecordBatch.from_pylist([{"a": 1, "b": {"x": 2}}, {"a": None, "b": None}], old.arrow), topic(old), 5
    )
    columns = conform_rows(stored, new)
    extra = [pa.array([0, 1]), pa.array([7, 8])]
    rows = pa.RecordBatch.from_arrays([*columns, *extra], schema=read_schema(new)).to_pylist()
    assert [(r["c"], r["a"], r["b"], r["e"], r["$timestamp"], r["$offset"]) for r in rows] == [
        ("d", 1.0, {"x": 2, "y": None}, None, 5, 0),
        ("d", None, None, None, 5, 1),
    ]
    assert read_schema(new).names == [*new.names, *SYSTEM_COLUMNS]


nested = pa.list_(pa.struct([("x", pa.int32())]))


@given(
    st.lists(
        st.none() | st.lists(st.none() | st.fixed_dictionaries({"x": st.none() | st.integers(-9, 9)}), max_size=3),
        max_size=5,
    ),
    st.integers(0, 2),
)
def test_widening_nested_values_keeps_them(values: list, skip: int) -> None:
    wide = pa.list_(pa.struct([("y", pa.string()), ("x", pa.int64())]))
    column = pa.array(values, nested).slice(min(skip, len(values)))
    expected = [
        None if v is None else [None if s is None else {"y": None, "x": s["x"]} for s in v] for v in values[skip:]
    ]
    assert widen_column(column, wide).to_pylist() == expected


def test_maps_and_numbers_are_widened() -> None:
    column = pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int32()))
    assert widen_column(column, pa.map_(pa.string(), pa.int64())).to_pylist() == [[("k", 1)], None]
    assert np.isclose(widen_column(pa.array([1.5], pa.float32()), pa.float64())[0].as_py(), 1.5)
