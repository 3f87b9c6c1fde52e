"""Avro: schemas of columns, schema resolution, and the registry."""

from __future__ import annotations

import io
import json
from decimal import Decimal
from typing import Any

import fastavro
import pytest

from headrace.errors import BadFormatOption, BadRecord, FormatUnsupported, UnknownSchema
from headrace.formats.lookup import find_format
from headrace.formats.schema_registry.registry import MemoryRegistry, framed
from headrace.schema import Field, Schema


def serde(columns: str, registry: MemoryRegistry, *, is_key: bool = False, wrapped: bool = True, **options: Any) -> Any:
    maker = find_format("AVRO", {"registry": registry, "topic": "t", **options})
    return maker.serde(Schema.parse(columns).fields, is_key=is_key, wrapped=wrapped)


def payload(registry: MemoryRegistry, schema: Any, value: Any) -> bytes:
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(schema), value)
    return framed(registry.register("t-value", json.dumps(schema), "AVRO"), body.getvalue())


def record(**fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": "r", "fields": [{"name": n, "type": t} for n, t in fields.items()]}


def test_the_schema_is_that_of_ksqldb() -> None:
    registry = MemoryRegistry()
    serde("A int, S struct<X decimal(4,2)>, M map<int,date>", registry).encode((1, None, None))
    schema = json.loads(registry.latest("t-value").text)
    assert (schema["namespace"], schema["name"]) == ("io.confluent.ksql.avro_schemas", "KsqlDataSourceSchema")
    a, s, m = (field["type"] for field in schema["fields"])
    assert a == ["null", "int"]
    assert s[1]["name"] == "KsqlDataSourceSchema_S"
    assert s[1]["fields"][0]["type"][1] == {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
    assert m[1]["type"] == "array"
    assert [field["name"] for field in m[1]["items"]["fields"]] == ["key", "value"]


@pytest.mark.parametrize("option", ["VALUE_SCHEMA_FULL_NAME", "VALUE_AVRO_SCHEMA_FULL_NAME", "schema_full_name"])
def test_the_schema_name_can_be_configured(option: str) -> None:
    registry = MemoryRegistry()
    serde("A int", registry, **{option: "com.example.Order"}).encode((1,))
    schema = json.loads(registry.latest("t-value").text)
    assert (schema["namespace"], schema["name"]) == ("com.example", "Order")


def test_reading_registers_no_schema() -> None:
    registry = MemoryRegistry()
    serde("A int", registry)
    assert registry.subjects() == []


def test_a_single_key_is_bare() -> None:
    registry = MemoryRegistry()
    assert serde("K string", registry, is_key=True).encode(("a",))[5:] == b"\x02a"
    assert registry.latest("t-key").text == '"string"'


@pytest.mark.parametrize(
    ("kind", "schema", "value", "got"),
    [
        ("bigint", "int", 1, 1),
        ("double", "float", 1.5, 1.5),
        ("string", "int", 1, "1"),
        ("string", "boolean", True, "true"),
        ("string", {"type": "enum", "name": "e", "symbols": ["X"]}, "X", "X"),
        ("bytes", {"type": "fixed", "name": "f", "size": 2}, b"ab", b"ab"),
        ("timestamp", {"type": "long", "logicalType": "timestamp-micros"}, 1_500_999, 1500),
        ("timestamp", {"type": "long", "logicalType": "timestamp-millis"}, -1, -1),
        ("time", {"type": "long", "logicalType": "time-micros"}, 1999, 1),
        ("date", ["null", {"type": "int", "logicalType": "date"}], 5, 5),
        (
            "decimal(6,3)",
            {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 1},
            Decimal("1.5"),
            Decimal("1.500"),
        ),
        ("array<bigint>", {"type": "array", "items": "int"}, [1], [1]),
        ("map<string,int>", {"type": "map", "values": ["null", "int"]}, {"a": None}, {"a": None}),
        ("struct<X int,Z int>", record(x="int", y="int"), {"x": 1, "y": 2}, {"X": 1, "Z": None}),
    ],
)
def test_a_writers_schema_is_resolved_by_name(kind: str, schema: Any, value: Any, got: Any) -> None:
    registry = MemoryRegistry()
    made = serde(f"OTHER int, COL {kind}", registry)
    written = payload(registry, {**record(col=schema), "name": "outer"}, {"col": value})
    assert repr(made.decode(written)) == repr((None, got))


@pytest.mark.parametrize(
    ("kind", "schema", "value"),
    [
        ("int", "string", "1"),
        ("int", "long", 2**40),
        ("string", "bytes", b""),
        ("bytes", "string", ""),
        ("array<int>", "int", 1),
        ("map<string,int>", "int", 1),
        ("struct<X int>", {"type": "map", "values": "int"}, {"X": 1}),
    ],
)
def test_an_incompatible_value_is_a_bad_record(kind: str, schema: Any, value: Any) -> None:
    registry = MemoryRegistry()
    with pytest.raises(BadRecord, match='column "C"'):
        serde(f"C {kind}", registry).decode(payload(registry, record(c=schema), {"c": value}))


def test_payloads_without_a_known_schema_are_bad_records() -> None:
    registry = MemoryRegistry()
    registry.register("t-value", "no schema", "AVRO")
    registry.register("t-value", "{}", "JSON")
    made = serde("A int", registry)
    for bad in (b"", b"\x01\x00\x00\x00\x01\x00", framed(1, b"\x00"), framed(2, b"\x00"), framed(9, b"\x00")):
        with pytest.raises(BadRecord):
            made.decode(bad)


def test_names_are_avro_names() -> None:
    with pytest.raises(FormatUnsupported, match="`a-b`"):
        find_format("AVRO", {}).check([Field("a-b", Schema.parse("A int").fields[0].type)], is_key=False, wrapped=True)


def test_a_registry_numbers_versions_and_keeps_ids() -> None:
    registry = MemoryRegistry()
    first, second = registry.register("a", "1", "AVRO"), registry.register("a", "2", "AVRO")
    assert registry.register("a", "1", "AVRO") == first != second
    assert registry.register("b", "2", "AVRO") == second
    assert registry.register("b", "2", "JSON") not in (first, second)
    assert [version.number for version in registry.versions("a")] == [1, 2]
    assert registry.latest("a").id == second
    assert registry.schema(first) == ("1", "AVRO")
    assert registry.subjects() == ["a", "b"]
    for unknown in (lambda: registry.schema(0), lambda: registry.schema(99), lambda: registry.latest("c")):
        with pytest.raises(UnknownSchema):
            unknown()


def test_json_refuses_a_schema_name() -> None:
    with pytest.raises(BadFormatOption, match="schema_full_name"):
        find_format("JSON", {"VALUE_AVRO_SCHEMA_FULL_NAME": "com.example.Order"})
