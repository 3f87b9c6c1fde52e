"""JSON as ksqlDB reads and writes it: coercions, names in any case, exact numbers."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from headrace.errors import BadRecord, FormatUnsupported
from headrace.formats.lookup import find_format
from headrace.schema import Field, Schema


def serde(columns: str, *, is_key: bool = False, wrapped: bool = True) -> Any:
    return find_format("json", {}).serde(Schema.parse(columns).fields, is_key=is_key, wrapped=wrapped)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("boolean", "true", True),
        ("int", "1", 1),
        ("int", "-2147483648", -(2**31)),
        ("int", "1.9", 1),
        ("int", "-1.9", -1),
        ("int", "1e2", 100),
        ("int", '"12"', 12),
        ("int", '"+12"', 12),
        ("bigint", "9223372036854775807", 2**63 - 1),
        ("bigint", "9007199254740993.0", 9007199254740993),
        ("bigint", '"-9223372036854775808"', -(2**63)),
        ("double", "1", 1.0),
        ("double", "18446744073709551616", 2.0**64),
        ("double", '"1.5"', 1.5),
        ("double", '" 1e3d "', 1000.0),
        ("double", '"-Infinity"', float("-inf")),
        ("decimal(5,2)", "1.5", Decimal("1.50")),
        ("decimal(5,2)", "0", Decimal("0.00")),
        ("decimal(5,2)", '"1.5"', Decimal("1.50")),
        ("decimal(5,2)", "1.500", Decimal("1.50")),
        (
            "decimal(38,20)",
            "123456789012345678.12345678901234567890",
            Decimal("123456789012345678.12345678901234567890"),
        ),
        ("string", '"a"', "a"),
        ("string", "1", "1"),
        ("string", "true", "true"),
        ("string", "1.10", "1.10"),
        ("string", "18446744073709551617", "18446744073709551617"),
        ("string", "1e10", "1E+10"),
        ("string", '{"b": 1.50, "a": [true, null, "x"]}', '{"b":1.50,"a":[true,null,"x"]}'),
        ("string", '["a", 1, null, {"b": 2}]', '[a, 1, null, {"b":2}]'),
        ("bytes", '"IQ=="', b"!"),
        ("date", "10", 10),
        ("date", "-10", -10),
        ("date", '"10"', 10),
        ("date", '"1970-01-11"', 10),
        ("time", "1000", 1000),
        ("timestamp", "-1", -1),
        ("timestamp", '"1970-01-01T00:00:01Z"', 1000),
        ("array<string>", '[1, null, "a"]', ["1", None, "a"]),
        ("map<string,int>", '{"a": "1", "b": null}', {"a": 1, "b": None}),
        ("struct<A int,B string>", '{"a": 1, "c": 2}', {"A": 1, "B": None}),
    ],
)
def test_payloads_are_decoded(kind: str, text: str, value: Any) -> None:
    got = serde(f"C {kind}").decode(f'{{"C": {text}}}'.encode())[0]
    assert (repr(got), got) == (repr(value), value)
    assert serde(f"C {kind}", wrapped=False).decode(text.encode()) == (value,)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("boolean", '"true"'),
        ("boolean", "1"),
        ("int", "true"),
        ("int", '"1.5"'),
        ("int", '""'),
        ("int", "2147483648"),
        ("int", "[1]"),
        ("bigint", "9223372036854775808"),
        ("bigint", "1e999"),
        ("double", '"x"'),
        ("double", "true"),
        ("decimal(5,2)", "1.555"),
        ("decimal(5,2)", "1000"),
        ("decimal(5,2)", "true"),
        ("bytes", '"?"'),
        ("bytes", "1"),
        ("time", "86400000"),
        ("date", '"tomorrow"'),
        ("array<int>", "{}"),
        ("map<string,int>", "[]"),
        ("struct<A int>", "1"),
    ],
)
def test_invalid_payloads_are_refused(kind: str, text: str) -> None:
    for wrapped, payload in ((True, f'{{"COL": {text}}}'), (False, text)):
        with pytest.raises(BadRecord):
            serde(f"COL {kind}", wrapped=wrapped).decode(payload.encode())


@pytest.mark.parametrize(
    ("columns", "payload", "path"),
    [
        ("A int, B int", '{"A": 1, "b": "x"}', '"B"'),
        ("S struct<X array<int>>", '{"s": {"x": [1, "y"]}}', '"S.X[1]"'),
        ("M map<string,decimal(3,1)>", '{"m": {"k": 1.55}}', "\"M['k']\""),
    ],
)
def test_an_error_names_the_place(columns: str, payload: str, path: str) -> None:
    with pytest.raises(BadRecord, match="column") as caught:
        serde(columns).decode(payload.encode())
    assert path in caught.value.what


@pytest.mark.parametrize(
    "payload", [b"", b"{", b"[]", b"1", b'"a"', b'{"A": 1} x', b"\xff", b"[" * 2000, b'{"A": NaN}']
)
def test_a_payload_that_is_not_an_object_is_a_bad_record(payload: bytes) -> None:
    with pytest.raises(BadRecord):
        serde("A int").decode(payload)


def test_names_match_in_any_case_and_an_exact_match_wins() -> None:
    assert serde("FOO int, BAR int").decode(b'{"foo": 1, "Bar": 2, "other": 3}') == (1, 2)
    assert serde("FOO int").decode(b'{"foo": 1, "FOO": 2}') == (2,)
    assert serde("FOO int, `foo` int").decode(b'{"FOO": 1}') == (1, None)
    assert serde("FOO int").decode(b"{}") == (None,)


def test_null_decodes_to_no_row() -> None:
    assert serde("A int").decode(b"null") is None
    assert serde("A int", wrapped=False).decode(b"null") is None
    assert serde("A int", wrapped=False).encode((None,)) is None
    assert serde("A int").encode((None,)) == b'{"A":null}'


def test_keys_are_bare_when_single_and_objects_otherwise() -> None:
    assert serde("K string", is_key=True).encode(("a",)) == b'"a"'
    assert serde("K string", is_key=True).decode(b'"a"') == ("a",)
    assert serde("K1 string, K2 int", is_key=True).encode(("a", None)) == b'{"K1":"a","K2":null}'


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("double", 1.0, "1.0"),
        ("double", 0.0, "0.0"),
        ("double", -0.0, "-0.0"),
        ("double", 1e7, "1.0E7"),
        ("double", 1234567.891, "1234567.891"),
        ("double", 0.00012, "1.2E-4"),
        ("double", float("nan"), '"NaN"'),
        ("double", float("-inf"), '"-Infinity"'),
        ("decimal(10,2)", Decimal("10.10"), "10.10"),
        ("decimal(38,10)", Decimal("0E-10"), "0.0000000000"),
        ("bytes", b"!", '"IQ=="'),
        ("date", -1, "-1"),
        ("time", 5, "5"),
        ("timestamp", 5, "5"),
        ("string", 'a"\n\u00e9', '"a\\"\\n\u00e9"'),
        ("string", "\ud800", '"?"'),
        ("array<double>", [1e7, None], "[1.0E7,null]"),
        ("map<string,decimal(3,1)>", {"a": Decimal("1.0")}, '{"a":1.0}'),
        ("map<string,int>", {"a": 1, None: 2}, '{"a":1,"null":2}'),
        ("array<map<string,double>>", [{None: 1e7}], '[{"null":1.0E7}]'),
        ("struct<X double,Y bytes>", {"X": 1e-5, "Y": None}, '{"X":1.0E-5,"Y":null}'),
    ],
)
def test_values_are_encoded(kind: str, value: Any, text: str) -> None:
    assert serde(f"C {kind}").encode((value,)) == f'{{"C":{text}}}'.encode()
    assert serde(f"C {kind}", wrapped=False).encode((value,)) == text.encode()


def test_keys_of_maps_are_text() -> None:
    columns = [Field("M", pa.list_(pa.map_(pa.int32(), pa.int32())))]
    with pytest.raises(FormatUnsupported, match="JSON only supports MAP types with STRING keys"):
        find_format("JSON", {}).check(columns, is_key=False, wrapped=True)


def test_maps_in_keys_are_refused() -> None:
    columns = [Field("K", pa.struct([("m", pa.map_(pa.string(), pa.int32()))]))]
    for name in ("JSON", "AVRO", "PROTOBUF", "DELIMITED", "KAFKA"):
        with pytest.raises(FormatUnsupported, match="Map keys"):
            find_format(name, {}).check(columns, is_key=True, wrapped=False)


def test_json_sr_reads_with_and_without_the_id() -> None:
    made = find_format("json_sr", {"topic": "t"}).serde(Schema.parse("A int").fields, is_key=False, wrapped=True)
    payload = made.encode((1,))
    assert payload is not None
    assert payload[:1] == b"\x00"
    assert payload[5:] == b'{"A":1}'
    assert made.decode(payload) == made.decode(payload[5:]) == (1,)
