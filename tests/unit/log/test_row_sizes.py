"""Row sizes counted by columns agree with sizes counted by values."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.contracts import Topic, TopicSpec
from headrace.errors import RecordTooLarge
from headrace.log.row_sizes import record_size, row_sizes
from headrace.log.stored_rows import from_records, prepare_rows
from headrace.record import Record
from headrace.schema import RAW, Schema, parse_type
from headrace.settings import Size

TEXTS = st.none() | st.text(max_size=5)
NUMBERS = st.none() | st.integers(-9, 9)
COLUMNS: dict[str, st.SearchStrategy[Any]] = {
    "bigint": NUMBERS,
    "boolean": st.none() | st.booleans(),
    "string": TEXTS,
    "bytes": st.none() | st.binary(max_size=5),
    "array<bigint>": st.none() | st.lists(NUMBERS, max_size=4),
    "array<array<string>>": st.none() | st.lists(st.none() | st.lists(TEXTS, max_size=3), max_size=3),
    "map<string,bigint>": st.none()
    | st.dictionaries(st.text(max_size=3), NUMBERS, max_size=3).map(lambda d: [*d.items()]),
    "struct<a string,b array<bigint>>": st.none()
    | st.fixed_dictionaries({"a": TEXTS, "b": st.none() | st.lists(NUMBERS, max_size=3)}),
}


def counted(value: Any) -> int:
    """Of one value; a number has 8 bytes, a boolean 1."""
    if value is None:
        return 0
    if isinstance(value, str | bytes):
        return len(value.encode() if isinstance(value, str) else value)
    if isinstance(value, dict):
        return sum(map(counted, value.values()))
    if isinstance(value, list | tuple):
        return sum(map(counted, value))
    return 1 if isinstance(value, bool) else 8


@pytest.mark.parametrize("kind", COLUMNS)
@settings(deadline=None)
@given(data=st.data())
def test_sizes_are_those_of_the_values(kind: str, data: st.DataObject) -> None:
    column = pa.array(data.draw(st.lists(COLUMNS[kind], min_size=1, max_size=6)), parse_type(kind))
    start = data.draw(st.integers(0, len(column)))
    for part in (column, column.slice(start), column.slice(0, start)):
        assert row_sizes([part], len(part)).tolist() == [counted(value) for value in part.to_pylist()]


def test_records_and_their_rows_have_the_same_size() -> None:
    records = [
        Record(b"value", b"key", (("name", b"12"), ("", b""))),
        Record(None),
        Record(b"x", headers=(("h", b"1"),)),
    ]
    rows = prepare_rows(records, Topic("t", TopicSpec(schema=RAW), 0), 1)
    columns = [rows.column(name) for name in ("key", "value", "$headers")]
    assert row_sizes(columns, 3).tolist() == [record_size(record) for record in records] == [14, 0, 3]


LARGE = {
    "text": ("string", "x" * 200),
    "numbers": ("array<bigint>", [1] * 30),
    "map": ("map<string,string>", [(str(i), "x" * 10) for i in range(30)]),
    "deep": ("struct<a array<struct<b string>>>", {"a": [{"b": "x" * 50}] * 5}),
}


@pytest.mark.parametrize("case", LARGE)
def test_nested_values_are_counted(case: str) -> None:
    kind, value = LARGE[case]
    topic = Topic("t", TopicSpec(schema=Schema.parse(f"id int key, it {kind}"), max_record_bytes=Size(150)), 0)
    rows = pa.RecordBatch.from_pylist([{"id": 1}, {"id": 2, "it": value}], topic.schema.arrow)
    with pytest.raises(RecordTooLarge, match="record 1 "):
        prepare_rows(rows, topic, 1)
    prepare_rows(rows.slice(0, 1), topic, 1)


def test_headers_are_counted() -> None:
    topic = Topic("t", TopicSpec(max_record_bytes=Size(100)), 0)
    few, many = Record(b"x", headers=(("a", b"1"),)), Record(b"x", headers=(("name", b"y" * 50),) * 2)
    with pytest.raises(RecordTooLarge, match=r"record 1 .* 109 bytes"):
        prepare_rows(from_records([few, many]), topic, 1)
    prepare_rows(from_records([few] * 50), topic, 1)
