"""JSON rows: what is accepted and rejected, bulk and exact decoding agree, and round trips."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.formats.json.rows import JsonRows, decode_at_once, decode_one_by_one
from headrace.formats.lookup import find_row_format
from headrace.schema import Schema
from tests.unit.formats.strategies import same, tables

JSON = JsonRows()


def decode(columns: str, *payloads: bytes | str | None) -> Any:
    encoded = [p.encode() if isinstance(p, str) else p for p in payloads]
    return JSON.decode(pa.array(encoded, pa.binary()), Schema.parse(columns))


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("int", "1", 1),
        ("int", "1.0", 1),
        ("int", "1e2", 100),
        ("int", "-0", 0),
        ("bigint", "9223372036854775807", 2**63 - 1),
        ("double", "1", 1.0),
        ("double", '"NaN"', "nan"),
        ("double", '"-Infinity"', float("-inf")),
        ("float", "0.5", 0.5),
        ("decimal(10,2)", "1.5", Decimal("1.50")),
        ("decimal(10,2)", '"1.5"', Decimal("1.50")),
        ("decimal(38,18)", "0.123456789012345678", Decimal("0.123456789012345678")),
        ("decimal(38,0)", "12345678901234567890123456789012345678", Decimal("12345678901234567890123456789012345678")),
        ("decimal(5,2)", "1.100", Decimal("1.10")),
        ("decimal(5,2)", "0e999999", Decimal("0.00")),
        ("string", '"\\u00e9"', "é"),
        ("bytes", '"AQI="', b"\x01\x02"),
        ("boolean", "true", True),
        ("date", '"2024-02-29"', date(2024, 2, 29)),
        ("date", "1", date(1970, 1, 2)),
        ("time", '"12:00:00.5"', time(12, 0, 0, 500_000)),
        ("time", "1000", time(0, 0, 1)),
        ("timestamp", "0", datetime(1970, 1, 1, tzinfo=UTC)),
        ("timestamp", '"1970-01-01T00:00:01Z"', datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)),
        ("timestamp", '"1970-01-01T01:00:00.123456+01:00"', datetime(1970, 1, 1, 0, 0, 0, 123_000, tzinfo=UTC)),
        ("timestamp", '"1970-01-01 00:00:01"', datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)),
        ("array<int>", "[1, null, 2.0]", [1, None, 2]),
        ("map<int,string>", '{"1": "a"}', [(1, "a")]),
        ("struct<a int,b array<string>>", '{"a": 1, "c": 2}', {"a": 1, "b": None}),
        ("int", "null", None),
    ],
)
def test_valid_values_are_decoded(kind: str, text: str, value: Any) -> None:
    decoded = decode(f"a {kind}", f'{{"a": {text}}}')
    assert decoded.rejects == []
    (got,) = decoded.rows.column("a").to_pylist()
    assert repr(got) == value if value == "nan" else got == value


@pytest.mark.parametrize(
    ("kind", "text", "reason"),
    [
        ("int", '"12"', "column \"a\": expected int, got text '12'"),
        ("int", "1.5", 'column "a": expected int, got number 1.5'),
        ("int", "2147483648", "expected int"),
        ("int", "true", "expected int, got boolean"),
        ("bigint", "9223372036854775808", "expected bigint"),
        ("bigint", "9007199254740993.0", "expected bigint"),
        ("bigint", "1" * 300, "expected bigint"),
        ("double", '"1.5"', "expected double, got text"),
        ("float", "1e39", "expected float"),
        ("decimal(4,2)", "100", "expected decimal(4,2)"),
        ("decimal(4,2)", "1.001", "expected decimal(4,2)"),
        ("decimal(4,2)", "1e300", "expected decimal(4,2)"),
        ("decimal(4,2)", '"1e9999"', "expected decimal(4,2)"),
        ("decimal(4,2)", '"one"', "expected decimal(4,2)"),
        ("string", "1", "expected string, got number 1"),
        ("bytes", '"*"', "expected bytes as base64 text"),
        ("boolean", "1", "expected boolean"),
        ("date", '"2024-02-30"', "expected date"),
        ("time", "86400000", "expected time"),
        ("time", '"12:00:00Z"', "expected time"),
        ("timestamp", '"yesterday"', "expected timestamp"),
        ("array<int>", '[1, "2"]', 'column "a[1]": expected int'),
        ("array<int>", '{"0": 1}', "expected array, got object"),
        ("struct<b struct<c int>>", '{"b": {"c": []}}', 'column "a.b.c": expected int, got array'),
        ("struct<b int>", '{"b": 1, "b": 2}', 'expected "b" once'),
        ("map<string,int>", '{"b": 1, "b": 2}', "map with each key once"),
        ("map<int,int>", '{"b": 1}', "expected int, got text 'b'"),
    ],
)
def test_invalid_values_are_rejected(kind: str, text: str, reason: str) -> None:
    decoded = decode(f"a {kind}", f'{{"a": {text}}}')
    (reject,) = decoded.rejects
    assert (reject.index, reject.code, decoded.rows.num_rows) == (0, "wrong-type", 0)
    assert reason in reject.reason


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        None,
        b"   ",
        b"[1]",
        b"1",
        b"null",
        b'"a"',
        b"{",
        b'{"a": NaN}',
        b'{"b": NaN}',
        b'{"b": Infinity}',
        b'{"b": -Inf}',
        b'{"a": 1e400}',
        b'{"a": 1, "a": 2}',
        b'{"a": 1, "\\u0061": 2}',
        b'{"a": 1}{"a": 2}',
        b'{"a": 1}\n{"a": 2}',
        b'{"b": "\xff"}',
        b'{"b": "\\ud800"}',
        b"\xef\xbb\xbf{}",
        b'\x0b{"a": 1}',
        b'{"b": ' + b"[" * 300 + b"]" * 300 + b"}",
        b'{"b": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"a": ' + b'{"a": ' * 5_000 + b"1" + b"}" * 5_001,
        b'{"b": ' + b"1" * 5_000 + b"}",
    ],
)
@pytest.mark.parametrize("kind", ["double", "decimal(5,2)"])
def test_malformed_records_are_rejected_and_the_others_are_kept(kind: str, payload: bytes | None) -> None:
    decoded = decode(f"a {kind}", '{"a": 1}', payload, '{"a": 2}')
    assert [(r.index, r.code) for r in decoded.rejects] == [(1, "bad-record")]
    assert decoded.good.tolist() == [0, 2]
    assert decoded.rows.column("a").to_pylist() == [1, 2]


def test_a_document_split_over_two_payloads_is_rejected() -> None:
    decoded = decode("a int", '{"a": 1}{"a": 2}', "", '{"a": 3', "}")
    assert (decoded.rows.num_rows, len(decoded.rejects)) == (0, 4)


def test_missing_fields_take_the_default_and_null_stays_null() -> None:
    decoded = decode("a int default 7, d date default '2024-01-01', s string", "{}", '{"a": null, "s": "x", "z": 1}')
    assert decoded.rows.to_pylist() == [
        {"a": 7, "d": date(2024, 1, 1), "s": None},
        {"a": None, "d": date(2024, 1, 1), "s": "x"},
    ]


def test_one_invalid_payload_among_many_does_not_affect_the_others() -> None:
    payloads = [f'{{"a": {i}}}' for i in range(10_000)]
    payloads[5_000] = "oops"
    decoded = decode("a int", *payloads)
    assert [r.index for r in decoded.rejects] == [5_000]
    assert decoded.rows.column("a").to_pylist() == decoded.good.tolist() == [i for i in range(10_000) if i != 5_000]


def test_no_payloads_give_no_rows() -> None:
    decoded = decode("a int, t timestamp")
    assert (decoded.rows.num_rows, len(decoded.good), decoded.rejects) == (0, 0, [])


@pytest.mark.parametrize(
    ("name", "number"),
    [("b", "-0"), *((name, n) for name in ("b", "unread") for n in ("9e308", "-9E+308", "1" + 309 * "0", "NaN"))],
)
def test_numbers_that_need_exact_decoding(name: str, number: str) -> None:
    payload = pa.array([f'{{"a": "x", "{name}": {number}}}'.encode()], pa.binary())
    assert not decode_at_once(payload, Schema.parse("a string, b double"))[1].any()


@pytest.mark.parametrize("value", ['"2024-01-01T00:00:00.123Z"', "1704067200123"], ids=["text", "number"])
def test_timestamps_are_decoded_in_bulk(value: str) -> None:
    payload = pa.array([f'{{"t": {value}, "f": 0.1}}'.encode()], pa.binary())
    schema = Schema.parse("t timestamp, f float")
    columns, read = decode_at_once(payload, schema)
    assert read.all()
    assert columns == decode_one_by_one(payload, schema).rows.columns


@given(tables())
def test_encoded_rows_are_decoded_unchanged(table: tuple[Schema, pa.RecordBatch]) -> None:
    schema, rows = table
    decoded = JSON.decode(JSON.encode(rows, schema), schema)
    assert decoded.rejects == []
    assert same(decoded.rows, rows)


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.integers(-9, 9),
    st.floats(),
    st.text(max_size=5),
    st.sampled_from(["NaN", "2024-01-01", "2024-01-01T00:00:00Z", "0001-01-01T00:00:00.123Z", "2024-13-01", "12"]),
)
LITERALS = st.sampled_from([b"1e400", b"-0", b"1.0", b"NaN", b"01", b"1E5", b"9223372036854775807.0", b'"\\ud800"'])
NAMES = st.sampled_from(["a", "b", "c", "d", "e", "f", "t", "x"])


def _big(value: Any) -> bool:
    return isinstance(value, int) and abs(value) >= 2**63


FAST = Schema.parse("a bigint, b double, c string, d struct<a int, b array<float>>, e boolean, f date, t timestamp")


@st.composite
def objects(draw: st.DrawFn) -> bytes:
    pairs = draw(st.lists(st.tuples(NAMES, LITERALS | SCALARS.map(_scalar) | NESTED), max_size=4))
    return b"{" + b",".join(orjson.dumps(name) + b":" + value for name, value in pairs) + b"}"


def _scalar(value: Any) -> bytes:
    return str(value).encode() if _big(value) else orjson.dumps(value)


NESTED = st.sampled_from([b'{"a":1,"b":[0.1,null,1e39]}', b'{"a":1,"b":[0.1,3]}', b'{"a":1,"a":2}', b"{}", b"[]"])
FITTING = st.builds(
    lambda a, b, c: orjson.dumps({"a": a, "b": b, "c": c, "d": {"a": 1, "b": [b]}, "e": True, "f": 3, "t": 4}),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(-1e30, 1e30).map(lambda number: number or 0.0),  # -0.0 is left to the exact way
    st.text(max_size=4),
)


@given(st.lists(objects() | FITTING | st.binary(max_size=4), min_size=1, max_size=4))
@settings(max_examples=150, deadline=None)
def test_bulk_decoding_agrees_with_exact_decoding(payloads: list[bytes]) -> None:
    array = pa.array(payloads, pa.binary())
    (columns, read), exact = decode_at_once(array, FAST), decode_one_by_one(array, FAST)
    assert set(np.flatnonzero(read)) <= set(exact.good)
    fast = pa.RecordBatch.from_arrays([column.filter(read) for column in columns], schema=FAST.arrow)
    assert same(fast, exact.rows.filter(pa.array(read[exact.good])))


@given(st.lists(objects() | FITTING | st.binary(max_size=4), min_size=1, max_size=3), st.data())
@settings(max_examples=50, deadline=None)
def test_large_batches_are_decoded_as_single_payloads_are(payloads: list[bytes], data: st.DataObject) -> None:
    others = data.draw(st.lists(FITTING, min_size=1, max_size=3))
    array = pa.array(others * 100 + payloads + others * 100, pa.binary())
    whole, exact = JSON.decode(array, FAST), decode_one_by_one(array, FAST)
    assert (whole.good.tolist(), whole.rejects) == (exact.good.tolist(), exact.rejects)
    assert same(whole.rows, exact.rows)


@given(st.lists(FITTING, min_size=1, max_size=4))
def test_valid_records_are_decoded_in_bulk(payloads: list[bytes]) -> None:
    assert decode_at_once(pa.array(payloads, pa.binary()), FAST)[1].all()


def test_the_format_is_registered() -> None:
    assert isinstance(find_row_format("json", {}), JsonRows)
