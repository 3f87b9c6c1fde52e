"""CSV: quoting, nulls, headers, and round trips."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings

from headrace.errors import BadOption
from headrace.formats.delimited.csv import CsvRows
from headrace.formats.lookup import find_row_format
from headrace.schema import Schema
from tests.unit.formats.strategies import same, tables


def decode(columns: str, *lines: str | bytes | None, **options: Any) -> Any:
    payloads = [line.encode() if isinstance(line, str) else line for line in lines]
    return CsvRows(**options).decode(pa.array(payloads, pa.binary()), Schema.parse(columns))


@pytest.mark.parametrize(
    ("line", "row"),
    [
        ("1,a", (1, "a")),
        ("1,a\r\n", (1, "a")),
        ('1,"a,b"', (1, "a,b")),
        ('1,"a ""b"""', (1, 'a "b"')),
        ('1,"two\nlines"', (1, "two\nlines")),
        ('1,""', (1, "")),
        ("1,", (1, None)),
        (",", (None, None)),
        ('"1",x', (1, "x")),
        ("1.0, x ", (1, " x ")),
    ],
)
def test_valid_lines_become_rows(line: str, row: tuple[Any, ...]) -> None:
    decoded = decode("a int, b string", line)
    assert decoded.rejects == []
    assert tuple(decoded.rows.to_pylist()[0].values()) == row


@pytest.mark.parametrize(
    ("line", "code", "reason"),
    [
        ("", "bad-record", "1 fields, expected 2"),
        (None, "bad-record", "empty"),
        ("1", "bad-record", "1 fields, expected 2"),
        ("1,a,b", "bad-record", "3 fields, expected 2"),
        ('1,"a', "bad-record", "quotes"),
        ('1,"a"b', "bad-record", "quotes"),
        ('1,a"b', "bad-record", "quotes"),
        ("1,a\n2,b", "bad-record", "line breaks"),
        (b"1,\xff", "bad-record", "UTF-8"),
        ("x,a", "wrong-type", "column \"a\": expected int, got text 'x'"),
        ("0x10,a", "wrong-type", "expected int"),
        ("2147483648,a", "wrong-type", "expected int"),
        ("1" * 5_000 + ",a", "wrong-type", "expected int"),
    ],
)
def test_an_invalid_line_is_rejected_and_the_others_are_kept(line: str | bytes | None, code: str, reason: str) -> None:
    decoded = decode("a int, b string", "1,x", line, '2,"y"')
    (reject,) = decoded.rejects
    assert (reject.index, reject.code) == (1, code)
    assert reason in reject.reason
    assert decoded.good.tolist() == [0, 2]
    assert decoded.rows.column("b").to_pylist() == ["x", "y"]


def test_a_header_names_the_columns_in_any_order() -> None:
    decoded = decode("a int, b string, c int default 5", "b;x;a", "hello;?;1", header=True, delimiter=";")
    assert decoded.good.tolist() == [1]
    assert decoded.rows.to_pylist() == [{"a": 1, "b": "hello", "c": 5}]


def test_a_header_is_written() -> None:
    rows = pa.RecordBatch.from_pydict({"a": [1]})
    assert CsvRows(header=True).encode(rows, Schema.parse("a bigint")).to_pylist() == [b"a", b"1"]


def test_every_type_is_read_from_text() -> None:
    decoded = decode(
        "a boolean, b decimal(5,2), c bytes, d timestamp, e array<int>", 'true,1.5,AQI=,1970-01-01T00:00:01Z,"[1,2]"'
    )
    assert decoded.rejects == []
    assert decoded.rows.column("d").cast(pa.int64()).to_pylist() == [1000]
    assert decoded.rows.column("e").to_pylist() == [[1, 2]]


@given(tables())
@settings(max_examples=60, deadline=None)
def test_encoded_rows_are_decoded_unchanged(table: tuple[Schema, pa.RecordBatch]) -> None:
    schema, rows = table
    csv = CsvRows()
    decoded = csv.decode(csv.encode(rows, schema), schema)
    assert decoded.rejects == []
    assert same(decoded.rows, rows)


def test_an_invalid_delimiter_is_refused() -> None:
    with pytest.raises(BadOption):
        find_row_format("csv", {"delimiter": '"'})
