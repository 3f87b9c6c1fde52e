"""Rows become Kafka messages and are read back unchanged, for every type of a schema."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.contracts import Topic, TopicSpec
from headrace.log.kafka.client import parse_options
from headrace.log.kafka.encoding import Message, decode, encode
from headrace.log.stored_rows import from_records, prepare_rows
from headrace.record import Record
from headrace.schema import RAW, Schema, parse_type, type_name

TIMES = st.integers(-(1 << 45), 1 << 45)

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "int": st.integers(-(1 << 31), (1 << 31) - 1),
    "bigint": st.integers(-(1 << 63), (1 << 63) - 1),
    "float": st.floats(width=32),
    "double": st.floats(),
    "string": st.text(st.characters(exclude_categories=["Cs"])),
    "bytes": st.binary(),
    "date": st.dates(),
    "time": st.integers(0, 86_399_999),
    "timestamp": TIMES,
    "decimal(12,3)": st.decimals(min_value=-(10**8), max_value=10**8, places=3),
    "decimal(38,10)": st.decimals(min_value=-(10**20), max_value=10**20, places=10),
}


def _nested(inner: st.SearchStrategy[tuple[str, st.SearchStrategy[Any]]]) -> st.SearchStrategy[Any]:
    def optional(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        return st.none() | values

    arrays = inner.map(lambda one: (f"array<{one[0]}>", st.lists(optional(one[1]), max_size=3)))
    string_maps = inner.map(
        lambda one: (
            f"map<string,{one[0]}>",
            st.dictionaries(VALUES["string"], optional(one[1]), max_size=3).map(lambda d: list(d.items())),
        )
    )
    int_maps = inner.map(
        lambda one: (
            f"map<int,{one[0]}>",
            st.dictionaries(VALUES["int"], optional(one[1]), max_size=3).map(lambda d: list(d.items())),
        )
    )
    structs = st.tuples(inner, inner).map(
        lambda two: (
            f"struct<a {two[0][0]},`b c` {two[1][0]}>",
            st.fixed_dictionaries({"a": optional(two[0][1]), "b c": optional(two[1][1])}),
        )
    )
    return arrays | string_maps | int_maps | structs


TYPES = st.recursive(st.sampled_from(sorted(VALUES.items())), _nested, max_leaves=4)


@st.composite
def columns(draw: st.DrawFn) -> pa.Array:
    text, values = draw(TYPES)
    return pa.array(draw(st.lists(st.none() | values, max_size=5)), parse_type(text))


def same(left: pa.Array, right: pa.Array) -> bool:
    return left.type == right.type and repr(left.to_pylist()) == repr(right.to_pylist())  # repr: NaN is not NaN


@settings(deadline=None)
@given(columns(), st.data())
def test_rows_of_a_typed_topic_are_read_back(column: pa.Array, data: st.DataObject) -> None:
    schema = Schema.parse(f"id bigint key, value {type_name(column.type)}")
    count = len(column)
    given_columns: dict[str, pa.Array] = {
        "id": pa.array(range(count), pa.int64()),
        "value": column,
        "$timestamp": pa.array(data.draw(st.lists(TIMES, min_size=count, max_size=count)), pa.int64()),
        "$occurred_at": pa.array(data.draw(st.lists(st.none() | TIMES, min_size=count, max_size=count)), pa.int64()),
    }
    rows = prepare_rows(pa.RecordBatch.from_pydict(given_columns), topic(schema), 7)
    decoded = decode(encode(rows, topic(schema)), topic(schema))
    assert decoded.misfits == []
    for name in rows.schema.names:
        assert same(decoded.rows.column(name), rows.column(name)), name


KEYS = {
    "string": ["a", "", "ü"],
    "bytes": [b"a", b"", b"\xff\x00"],
    "int": [0, -5, 2**31 - 1],
    "bigint": [0, -5, 2**63 - 1],
    "double": [0.0, -1.5],
    "float": [0.0, -1.5],
    "boolean": [True, False],
    "decimal(10,2)": [Decimal("1.50"), Decimal("-0.01")],
    "date": [date(2024, 2, 29)],
    "timestamp": [0, 1_700_000_000_123],
    "time": [0, 86_399_999],
}


@pytest.mark.parametrize(("kind", "second"), [(k, s) for k in KEYS for s in (False, True)], ids=str)
def test_a_deleted_row_keeps_its_key(kind: str, second: bool) -> None:
    schema = Schema.parse(f"k {kind} key, name string" + (", k2 bytes key" if second else ""))
    given_columns: dict[str, Any] = {"k": pa.array(KEYS[kind], schema["k"].type)}
    if second:
        given_columns["k2"] = pa.array([b"\xfe\x00"] * len(KEYS[kind]), pa.binary())
    given_columns["$deleted"] = pa.array([True] * len(KEYS[kind]))
    rows = prepare_rows(pa.RecordBatch.from_pydict(given_columns), topic(schema), 1)
    messages = encode(rows, topic(schema))
    assert [m.value for m in messages] == [None] * len(messages)
    decoded = decode(messages, topic(schema))
    assert decoded.misfits == []
    for name in schema.key:
        assert same(decoded.rows.column(name), rows.column(name))
    assert decoded.rows.column("$deleted").to_pylist() == [True] * len(messages)


def test_raw_records_are_unchanged_bytes() -> None:
    records = [
        Record(b"v", b"k", (("h", b"1"), ("h", b"2")), occurred_at=5, sent_at=6, received_at=7),
        Record(None, b"k"),
        Record(b"only a value"),
    ]
    rows = prepare_rows(from_records(records), topic(RAW), 100)
    messages = encode(rows, topic(RAW))
    assert [(m.key, m.value) for m in messages] == [(r.key, r.value) for r in records]
    assert messages[0].headers[:2] == [("h", b"1"), ("h", b"2")]
    back = decode(messages, topic(RAW)).rows
    assert back.column("$headers").to_pylist() == rows.column("$headers").to_pylist()
    for name in ("$timestamp", "$occurred_at", "$sent_at", "$received_at"):
        assert back.column(name).equals(rows.column(name)), name


def test_times_that_kafka_cannot_store_become_headers() -> None:
    rows = prepare_rows(pa.RecordBatch.from_pydict({"value": [b"a", b"b"], "$timestamp": [0, -9]}), topic(RAW), 1)
    messages = encode(rows, topic(RAW))
    assert [m.timestamp for m in messages] == [1, 1]
    assert decode(messages, topic(RAW)).rows.column("$timestamp").to_pylist() == [0, -9]


BAD = {
    "no JSON": b"{",
    "no object": b"[1]",
    "wrong type": b'{"id": "one"}',
    "out of range": b'{"id": 1, "price": "12345678901.00"}',
    "too many digits": b'{"id": 1, "price": "1.005"}',
    "a name twice": b'{"id": 1, "id": 3}',
    "bad base64": b'{"id": 1, "data": "?"}',
    "a boolean is no number": b'{"id": true}',
}


@pytest.mark.parametrize("value", BAD.values(), ids=BAD)
def test_invalid_messages_are_rejected_with_a_reason(value: bytes) -> None:
    schema = Schema.parse("id bigint key, price decimal(10,2), data bytes")
    good = b'{"id": 2, "price": "1.50", "data": null}'
    messages = [Message(None, v, 5, [], offset) for offset, v in enumerate([good, value, good])]
    decoded = decode(messages, topic(schema))
    assert [m.message.offset for m in decoded.misfits] == [1]
    assert decoded.misfits[0].reason
    assert decoded.rows.column("$offset").to_pylist() == [0, 2]
    assert decoded.rows.column("price").to_pylist() == [Decimal("1.50")] * 2


def test_rows_of_an_older_schema_are_read_with_the_current_one() -> None:
    old = Schema.parse("id int key, day date, price decimal(5,2)")
    new = Schema.parse("id bigint key, day timestamp, price decimal(8,3), name string default 'none', note string")
    given_columns = {
        "id": pa.array([1, 2], pa.int32()),
        "day": pa.array([date(2024, 1, 2), None]),
        "price": pa.array([Decimal("1.50"), None], pa.decimal128(5, 2)),
        "$deleted": [False, True],
    }
    messages = encode(prepare_rows(pa.RecordBatch.from_pydict(given_columns), topic(old), 1), topic(old))
    rows = decode(messages, topic(new)).rows
    assert rows.column("id").to_pylist() == [1, 2]
    assert rows.column("day").cast(pa.int64()).to_pylist() == [1_704_153_600_000, None]
    assert rows.column("price").to_pylist() == [Decimal("1.500"), None]
    assert rows.column("name").to_pylist() == ["none", None]


def test_a_key_column_missing_in_the_value_is_read_from_the_key() -> None:
    schema = Schema.parse("id bigint key, name string")
    message = Message((5).to_bytes(8, "big"), b'{"name": "x"}', 1, [], 0)
    assert decode([message], topic(schema)).rows.column("id").to_pylist() == [5]


PARTIAL = {
    "no field": b"{}",
    "some fields": b' { "name": "x" }',
    "part of the key": b'{"name": "x", "id": 5}',
}


@pytest.mark.parametrize("value", PARTIAL.values(), ids=PARTIAL)
def test_missing_key_columns_of_a_value_are_read_from_the_key(value: bytes) -> None:
    schema = Schema.parse("id bigint key, day date key, name string, price decimal(30,20)")
    message = Message(b'[5,"2024-02-29"]', value, 1, [], 0)
    decoded = decode([message], topic(schema))
    assert decoded.misfits == []
    (row,) = decoded.rows.select(["id", "day"]).to_pylist()
    assert row == {"id": 5, "day": date(2024, 2, 29)}


def test_a_key_is_added_without_touching_the_digits() -> None:
    schema = Schema.parse("id bigint key, price decimal(30,20)")
    message = Message((5).to_bytes(8, "big"), b'{"price": 0.12345678901234567891}', 1, [], 0)
    assert decode([message], topic(schema)).rows.column("price").to_pylist() == [Decimal("0.12345678901234567891")]


def test_unknown_fields_are_ignored_and_named() -> None:
    schema = Schema.parse("id bigint key")
    decoded = decode([Message(None, b'{"id": 1, "colour": "red"}', 1, [], 0)], topic(schema))
    assert decoded.rows.column("id").to_pylist() == [1]
    assert (decoded.misfits, decoded.strange) == ([], {"colour"})


BAD_KEYS = {"too short": b"\x01", "no bytes": b""}


@pytest.mark.parametrize("key", BAD_KEYS.values(), ids=BAD_KEYS)
def test_a_tombstone_with_an_invalid_key_is_rejected(key: bytes) -> None:
    decoded = decode([Message(key, None, 1, [], 0)], topic(Schema.parse("id bigint key, name string")))
    assert [misfit.message.offset for misfit in decoded.misfits] == [0]


def test_options_may_contain_commas() -> None:
    assert parse_options("sasl.mechanisms=PLAIN,sasl.password=a,b,security.protocol=SASL_SSL") == {
        "sasl.mechanisms": "PLAIN",
        "sasl.password": "a,b",
        "security.protocol": "SASL_SSL",
    }


def topic(schema: Schema) -> Topic:
    return Topic("t", TopicSpec(schema=schema), 0)
