"""A column reader gives the rows of its serde."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import BadRecord
from headrace.formats.lookup import find_format
from headrace.formats.values import values_of
from headrace.schema import Schema
from tests.unit.formats.rows import values

BYTES = st.binary(max_size=9) | st.binary(min_size=4, max_size=4) | st.binary(min_size=8, max_size=8)
TEXTS = st.text(max_size=6).map(str.encode)
JSON = st.sampled_from([b"1", b'"a"', b"null", b"1.5", b'"1', b'{"k":1}', b'{"K":1,"L":"x"}', b"{}", b"\xff", b"12 "])


@given(
    st.sampled_from(["int", "bigint", "double", "string", "bytes", "boolean"]),
    st.sampled_from(["KAFKA", "json"]),
    st.lists(st.none() | BYTES | TEXTS | JSON, max_size=6),
    st.integers(0, 2),
    st.booleans(),
)
def test_a_column_reader_gives_the_rows_of_the_serde(
    kind: str, name: str, payloads: list[bytes | None], skip: int, is_key: bool
) -> None:
    columns = Schema.parse(f"K {kind}").fields
    made = find_format(name, {}).column_reader(columns, is_key=is_key, wrapped=True)
    if made is None:
        return
    serde = find_format(name, {}).serde(columns, is_key=is_key, wrapped=True)
    read = made.read(pa.array([b"123"] * skip + payloads, pa.binary()).slice(skip))
    found = zip(values_of(read.columns[0]), read.present.to_pylist(), read.read.tolist(), payloads, strict=True)
    for value, there, sure, payload in found:
        if sure:
            assert repr((value,) if there else None) == repr(serde.decode(payload))
            assert there or value is None
    if name == "KAFKA":
        assert [_refused(serde, payload) for payload in payloads] == [not sure for sure in read.read]


def _refused(serde: Any, payload: bytes | None) -> bool:
    try:
        serde.decode(payload)
    except BadRecord:
        return True
    return False


@pytest.mark.parametrize("name", ["DELIMITED", "AVRO", "NONE", "PROTOBUF", "JSON_SR"])
def test_other_formats_have_no_column_reader(name: str) -> None:
    assert find_format(name, {}).column_reader(Schema.parse("A int").fields, is_key=False, wrapped=True) is None


def test_a_relation_without_columns_has_no_column_reader() -> None:
    assert find_format("JSON", {}).column_reader((), is_key=True, wrapped=True) is None


@given(st.sampled_from(["int", "bigint", "double", "string", "bytes"]), st.data(), st.booleans())
def test_columns_are_encoded_as_the_serde_encodes_rows(kind: str, data: st.DataObject, is_key: bool) -> None:
    columns = Schema.parse(f"K {kind}").fields
    rows = data.draw(st.lists(st.none() | st.tuples(values(columns[0].type)), max_size=5))
    column = pa.array([row and row[0] for row in rows], columns[0].type)
    there = pa.array([row is not None for row in rows], pa.bool_())
    for name in ("KAFKA", "json"):
        made = find_format(name, {}).column_writer(columns, is_key=is_key, wrapped=False)
        serde = find_format(name, {}).serde(columns, is_key=is_key, wrapped=False)
        if made is not None:
            assert made.write([column], there).to_pylist() == [serde.encode(row) for row in rows]
    assert find_format("KAFKA", {}).column_writer(columns, is_key=is_key, wrapped=False) is not None
