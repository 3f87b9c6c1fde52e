"""For every format: encoded rows are decoded unchanged, and arbitrary bytes give a row or a bad record."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.errors import BadRecord, WrongType
from headrace.formats.lookup import find_format
from headrace.formats.schema_registry.registry import MemoryRegistry
from headrace.schema import Field
from tests.unit.formats.rows import KINDS, LEAVES, MAP_KEYS, TEXT_KEYS, has_null_item, proto_like, tables, types


def serde(name: str, columns: list[Field], *, is_key: bool = False, wrapped: bool = True, **options: Any) -> Any:
    return find_format(name, options).serde(columns, is_key=is_key, wrapped=wrapped)


def round_trip(made: Any, row: tuple[Any, ...]) -> Any:
    return made.decode(made.encode(row))


def bare(row: tuple[Any, ...], columns: list[Field], wrapped: bool) -> Any:
    """A single bare null is no row."""
    return None if row == (None,) and len(columns) == 1 and not wrapped else row


@given(tables(types(TEXT_KEYS)), st.booleans(), st.sampled_from(["JSON", "JSON_SR"]))
def test_json(table: tuple[list[Field], tuple[Any, ...]], wrapped: bool, name: str) -> None:
    columns, row = table
    assert round_trip(serde(name, columns, wrapped=wrapped), row) == bare(row, columns, wrapped)


@given(tables(LEAVES), st.sampled_from([",", "|", "TAB", "SPACE", "$", "a", "-"]))
def test_delimited(table: tuple[list[Field], tuple[Any, ...]], delimiter: str) -> None:
    columns, row = table
    expected = tuple(None if v in ("", b"") else v for v in row)  # an empty field is null
    assert round_trip(serde("DELIMITED", columns, delimiter=delimiter), row) == expected


@given(tables(st.sampled_from([KINDS[k] for k in ("int", "bigint", "double", "string", "bytes")]), most=1))
def test_kafka(table: tuple[list[Field], tuple[Any, ...]]) -> None:
    columns, row = table
    assert round_trip(serde("KAFKA", columns), row) == bare(row, columns, wrapped=False)


@given(tables(types(MAP_KEYS)), st.booleans())
@example(([Field("A", pa.list_(pa.float64()))], ([float("inf")],)), True)
def test_avro(table: tuple[list[Field], tuple[Any, ...]], wrapped: bool) -> None:
    columns, row = table
    made = serde("AVRO", columns, wrapped=wrapped, registry=MemoryRegistry())
    assert round_trip(made, row) == bare(row, columns, wrapped)


@given(
    tables(types(MAP_KEYS, items=False)),
    st.sampled_from(["PROTOBUF", "PROTOBUF_NOSR"]),
    st.sampled_from(["", "OPTIONAL"]),
)
def test_protobuf(table: tuple[list[Field], tuple[Any, ...]], name: str, nullable: str) -> None:
    columns, row = table
    made = serde(name, columns, protobuf_nullable_representation=nullable)
    if any(map(has_null_item, row)):
        with pytest.raises(WrongType):
            made.encode(row)
        return
    expected = tuple(proto_like(v, c.type, nullable=bool(nullable)) for v, c in zip(row, columns, strict=True))
    assert round_trip(made, row) == expected


EVERY_KIND = [
    *(Field(f"c_{name}", kind) for name, kind in KINDS.items()),
    Field("c_decimal", pa.decimal128(9, 2)),
    Field("c_array", pa.list_(pa.int32())),
    Field("c_map", pa.map_(pa.string(), pa.float64())),
    Field("c_struct", pa.struct([("x", pa.decimal128(4, 1)), ("y", pa.list_(pa.struct([("z", pa.string())])))])),
]
PLAIN = [c for c in EVERY_KIND if not pa.types.is_nested(c.type)]
COLUMNS = {
    **{
        name: [EVERY_KIND, *([c] for c in EVERY_KIND)]
        for name in ("JSON", "JSON_SR", "AVRO", "PROTOBUF", "PROTOBUF_NOSR")
    },
    "DELIMITED": [PLAIN, *([c] for c in PLAIN)],
    "KAFKA": [[c] for c in PLAIN if c.name.removeprefix("c_") in ("int", "bigint", "double", "string", "bytes")],
    "NONE": [[]],
}
JSON_LIKE = st.text('{}[]":,0123456789eE.-+ntrufalsc_', max_size=40).map(str.encode)


def _all_serdes(name: str) -> list[Any]:
    options = {} if name in ("JSON", "DELIMITED", "KAFKA", "NONE", "PROTOBUF_NOSR") else {"registry": MemoryRegistry()}
    made = [serde(name, c, wrapped=w, **options) for c in COLUMNS[name] for w in (True, False)]
    for one in made:  # so that there are schemas for the ids that the payloads below begin with
        one.encode(tuple(None for _ in COLUMNS[name][0]) if one is made[0] else None)
    return made


SERDES = {name: _all_serdes(name) for name in COLUMNS}


@pytest.mark.parametrize("name", COLUMNS)
@given(payload=st.binary(max_size=60) | JSON_LIKE)
def test_any_bytes_are_a_row_or_a_bad_record(name: str, payload: bytes) -> None:
    for made in SERDES[name]:
        for given_payload in (payload, b"\x00\x00\x00\x00\x01" + payload, b"\x00\x00\x00\x00\x01\x00" + payload):
            with suppress(BadRecord):
                made.encode(made.decode(given_payload))


@pytest.mark.parametrize("name", COLUMNS)
def test_a_null_payload_decodes_to_no_row(name: str) -> None:
    for made in SERDES[name]:
        assert made.decode(None) is None
        assert made.encode(None) is None


@pytest.mark.parametrize("name", ["JSON", "JSON_SR", "AVRO", "PROTOBUF", "PROTOBUF_NOSR", "KAFKA", "DELIMITED"])
def test_a_null_key_of_one_column_encodes_to_a_null_payload(name: str) -> None:
    assert serde(name, [Field("K", pa.int32())], is_key=True).encode((None,)) is None


@pytest.mark.parametrize("name", ["JSON", "JSON_SR", "AVRO", "PROTOBUF", "PROTOBUF_NOSR", "KAFKA", "DELIMITED", "NONE"])
def test_without_key_columns_every_key_is_null(name: str) -> None:
    made = serde(name, [], is_key=True)
    assert made.decode(b"ignored") is None
    assert made.encode(()) is None
