"""The JSON column reader gives the rows of the row decoder, and leaves to it what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import BadRecord
from headrace.formats.json.column_reader import JsonColumnReader, can_read
from headrace.formats.lookup import find_format
from headrace.formats.values import values_of
from headrace.schema import Field, Schema
from tests.unit.formats.rows import TEXT_KEYS, tables, types


def row_by_row(columns: list[Field], payloads: list[bytes | None], *, bare: bool) -> list[Any]:
    serde = find_format("JSON", {}).serde(columns, is_key=False, wrapped=not bare)
    return [_decoded(serde, payload) for payload in payloads]


def _decoded(serde: Any, payload: bytes | None) -> Any:
    try:
        return serde.decode(payload)
    except BadRecord as error:
        return error


def at_once(columns: list[Field], payloads: list[bytes | None], *, bare: bool) -> tuple[list[Any], np.ndarray]:
    batch = JsonColumnReader(columns, bare=bare).read(pa.array(payloads, pa.binary()))
    for column, array in zip(columns, batch.columns, strict=True):
        assert (array.type, len(array)) == (column.type, len(payloads))
        array.validate(full=True)
    return list(zip(*map(values_of, batch.columns), strict=True)), batch.read


def check(columns: list[Field], payloads: list[bytes | None], *, bare: bool) -> None:
    """What is read at once is what is read one by one; no payload at all is nothing but nulls."""
    rows, read = at_once(columns, payloads, bare=bare)
    nothing = (None,) * len(columns)
    for row, sure, expected in zip(rows, read, row_by_row(columns, payloads, bare=bare), strict=True):
        if sure:
            assert repr(row) == repr(nothing if expected is None else expected)
        else:
            assert row == nothing


def check_company(columns: list[Field], payload: bytes, good: bytes, *, bare: bool) -> None:
    """Alone, where it shows what to expect, and among others, where it does not."""
    check(columns, [payload], bare=bare)
    check(columns, [good, good, payload, good, None, good, good, good, good], bare=bare)


def fields(columns: str) -> list[Field]:
    return list(Schema.parse(columns).fields)


# -- every type, every lie ------------------------------------------------------------------------------------------

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**65), 2**65)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=4)
    | st.sampled_from(
        ["12", "-0", "1.5", ".5", "5.", "+7", "1e3", "true", "2024-02-29", "2024-01-01T00:00:00Z", "NaN"]
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("aAbBcdDfF"), inner, max_size=3),
    max_leaves=6,
)
LITERALS = st.sampled_from(
    [
        *(
            "-0",
            "-0.0",
            "1e3",
            "1E2",
            "0.10",
            "1.0",
            "NaN",
            "Infinity",
            "-Infinity",
            "Inf",
            "1e400",
            "9e308",
            "1e-400",
            "01",
        ),
        *("1" * 320, "1" * 210 + "e200", "18446744073709551616", "2147483648", '"\\u0000"', '"\\ud800"', '"\\udc00"'),
        *('"\\ud83d\\ude00"', '"\n"', '"\x00"', "[1,]", "nul", "", "1}", "1} null {", '1}{"A":2', "1]", '"}', '{"'),
        *(
            "[" * 300 + "]" * 300,
            "9" * 19,
            "86400000",
            "-1",
            "0.1e1",
            '"a\\/b"',
            '"} n"',
            "{} ",
            "1 ",
            " 1",
            "1,",
            "1\x00",
        ),
    ]
)
TEXTS = VALUES.map(lambda value: orjson.dumps(_exact_numbers(value)).decode()) | LITERALS
NAMES = st.sampled_from(["A", "a", "B", "b", "C", "c", "d", "D", "E_F", "e_f", "_g", "x", "\\u0041", "ß", "\\u00df"])


def _exact_numbers(value: Any) -> Any:
    """Numbers that orjson does not write, as doubles."""
    if isinstance(value, list):
        return [_exact_numbers(inner) for inner in value]
    if isinstance(value, dict):
        return {name: _exact_numbers(inner) for name, inner in value.items()}
    return float(value) if isinstance(value, int) and not -(2**63) <= value < 2**64 else value


@st.composite
def documents(draw: st.DrawFn) -> bytes:
    blank = draw(st.sampled_from(["", "", "", " ", "\n", "\t", "\ufeff", "\x00"]))
    pairs = draw(st.lists(st.tuples(NAMES, TEXTS), max_size=4))
    body = ("," + blank).join(f'"{name}":{blank}{text}' for name, text in pairs)
    return (blank + "{" + body + "}" + blank).encode()


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[Field], bytes, bytes, bool]:
    """Columns, a payload that fits them, one that may not, and whether both are bare."""
    columns, row = draw(tables(types(TEXT_KEYS)).filter(lambda table: can_read(table[0])))
    bare = draw(st.booleans()) and len(columns) == 1
    good = find_format("JSON", {}).serde(columns, is_key=False, wrapped=not bare).encode(row) or b"null"
    garbage = st.binary(max_size=12)
    other = garbage | TEXTS.map(str.encode) if bare else garbage | documents() | _damaged(good)
    return columns, good, draw(other), bare


def _damaged(payload: bytes) -> st.SearchStrategy[bytes]:
    places = st.integers(0, len(payload))
    pieces = st.sampled_from(
        [b"", b" ", b"\x00", b"\n", b"{", b"}", b"null", b",", b'"', b"\\", b"\xff", b"1", b"e9", b"-"]
    )
    return st.tuples(places, places, pieces).map(lambda cut: payload[: cut[0]] + cut[2] + payload[cut[1] :]) | st.just(
        payload.swapcase()
    )


@given(cases())
def test_the_column_reader_agrees_with_the_row_decoder(case: tuple[list[Field], bytes, bytes, bool]) -> None:
    columns, good, other, bare = case
    check(columns, [good] * 6, bare=bare)
    check_company(columns, other, good, bare=bare)


# -- what must be fast ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("columns", "payload"),
    [
        ("A boolean, B int, C bigint, D double, E string", '{"A": true, "B": 1, "C": -2, "D": 1.5, "E": "x"}'),
        ("USER_ID string, MS int", '{"user_id":"u","ms":7}'),
        ("USER_ID string, MS int", '{"Ms":7,"User_Id":"u"}'),
        ("USER_ID string", '{"more":{"deep":[1,2.5e3]},"user_id":"ß ı \\u00e9 \\"}x"}'),
        ("A string, B int", '{"A":null}'),
        ("A string, B int", "{}"),
        ("A string", '\n{"a": "x"}\r\n'),
        ("A string, S struct<X int,Y string>", '{\n  "a": "x",\n  "s": {"x": 1}\n, "z": {}\n}'),
        ("A int, B bigint, C double", '{"A":"12","B":"-9","C":"1.25"}'),
        ("A date, B time, C timestamp", '{"A":10,"B":86399999,"C":-1}'),
        ("A date, B timestamp", '{"A":"2024-02-29","B":"2024-02-29T12:00:00.250Z"}'),
        ("A decimal(5,2), B decimal(38,10)", '{"A":1.5,"B":"12345.6789"}'),
        ("A array<int>, B array<array<string>>", '{"a":[1,null],"b":[["x"],null,[]]}'),
        ("S struct<X int,Y struct<Z array<double>>>", '{"s":{"X":1,"y":{"z":[1,2.5]}}}'),
        ("S struct<X int>, A int", '{"s":null,"a":1,"more":1}'),
    ],
)
def test_plain_documents_are_read_in_columns(columns: str, payload: str) -> None:
    payloads: list[bytes | None] = [payload.encode()] * 5
    check(fields(columns), payloads, bare=False)
    assert at_once(fields(columns), payloads, bare=False)[1].all()


@pytest.mark.parametrize(
    ("column", "payload"), [("K string", '"a b"'), ("K bigint", "12"), ("K double", "1e3"), ("K array<int>", "[1, 2]")]
)
def test_bare_values_are_read_in_columns(column: str, payload: str) -> None:
    payloads = [payload.encode(), b"null", None]
    check(fields(column), payloads, bare=True)
    assert at_once(fields(column), payloads, bare=True)[1].all()


def test_one_invalid_payload_does_not_affect_the_others() -> None:
    columns = fields("A int, B string")
    payloads: list[bytes | None] = [b'{"A":%d,"B":"x"}' % i for i in range(10_000)]
    payloads[5000] = b'{"A":"x"}'
    payloads[5001] = None
    rows, read = at_once(columns, payloads, bare=False)
    assert not read[5000]
    assert len(payloads) - read.sum() <= 256
    assert [row for row, sure in zip(rows, read, strict=True) if sure and row[0]] == [
        (i, "x") for i in range(1, 10_000) if read[i] and i != 5001
    ]


def test_a_batch_of_invalid_payloads_takes_few_attempts() -> None:
    rows, read = at_once(fields("A int"), [b'{"A":1.5}'] * 20_000, bare=False)
    assert len(rows) == 20_000
    assert not read.any()


@pytest.mark.parametrize(
    "payload",
    [
        *(
            b'{"A":"x"}' + rest
            for rest in (b" null {}", b"{}", b"\x00}", b"\n{}", b"null", b",{}", b"true{}", b"}", b"]")
        ),
        *(b"null", b"", b"[]", b"1", b'"x"', b'\xef\xbb\xbf{"A":"x"}', b'{"A":"x', b'x"}', b'{"A":"}', b'{":1}'),
        *(b'{"A":1}', b'{"A":true}', b'{"A":{}}', b'{"A":[]}', b'{"A":"x","A":"y"}', b'{"A":null,"A":"y"}'),
        *(b'{"A":"x","a":"y"}', b'{"a":"y","A":"x"}', b'{"a":"x","\\u0041":"y"}', b'{"B":NaN}', b'{"B":[-Infinity]}'),
        *(b'{"B":1e400}', b'{"B":9e308}', b'{"B":' + b"1" * 400 + b"}", b'{"B":' + b"1" * 200 + b"e200}"),
        *(
            b'{"B":' + b"[" * 256 + b"]" * 256 + b"}",
            b'{"A":"\xff"}',
            b'{"B":"\xff"}',
            b'{"A":"\\ud800"}',
            b'{"A":"\n"}',
        ),
    ],
)
def test_payloads_that_arrow_reads_differently_are_left_to_the_row_decoder(payload: bytes) -> None:
    check_company(fields("A string"), payload, b'{"A":"x"}', bare=False)
    check_company(fields("A string"), payload, b'{"a":"x","more":1}', bare=False)


def test_a_document_split_over_two_payloads_is_invalid() -> None:
    columns = fields("A string")
    check(columns, [b'{"A":"}', b'{":1}', b'{"A":"x"}{"A":"y"}'], bare=False)
    check(columns, [b'"a', b'b"', b'"c"},{"value":"d"'], bare=True)
    check(columns, [b'"a"}\n{"value":"b"', b'"c"'], bare=True)
    check(columns, [b'"a","value":"b"', b'"c"', b"", b"null} null {"], bare=True)


@pytest.mark.parametrize("columns", ["M map<string,int>", "B bytes", "A array<bytes>", "A int, `a` int"])
def test_types_that_are_left_to_the_row_decoder(columns: str) -> None:
    assert not can_read(fields(columns))


def test_non_ascii_letters_with_ascii_capitals_are_handled() -> None:
    found = {c for c in map(chr, range(128, 0x110000)) if c.upper().isascii()}
    assert found == set("\xdf\u0131\u017f") | set(map(chr, range(0xFB00, 0xFB07)))
    check(fields("CLASS string"), [b'{"class":"x","more":1}', '{"cla\xdf":"y","more":1}'.encode()], bare=False)


def test_empty_batches_and_null_payloads_are_read() -> None:
    for count in (0, 2):
        rows, read = at_once(fields("A int"), [None] * count, bare=False)
        assert (rows, read.tolist()) == ([(None,)] * count, [True] * count)
