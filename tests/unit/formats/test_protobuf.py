"""Protobuf: the schema of columns, schema resolution, and where null is lost."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from headrace.errors import BadFormatOption, BadRecord, FormatUnsupported, WrongType
from headrace.formats.lookup import find_format
from headrace.formats.protobuf.proto_text import format_proto, parse_proto
from headrace.formats.protobuf.schema import message_class
from headrace.formats.schema_registry.registry import MemoryRegistry, framed
from headrace.schema import Schema


def serde(columns: str, registry: MemoryRegistry, *, is_key: bool = False, **options: Any) -> Any:
    maker = find_format("PROTOBUF", {"registry": registry, "topic": "t", **options})
    return maker.serde(Schema.parse(columns).fields, is_key=is_key, wrapped=True)


def test_the_schema_names_every_column() -> None:
    registry = MemoryRegistry()
    serde("A int, B decimal(4,2), C array<string>, D map<string,bigint>, E struct<X date>", registry).encode(
        (None,) * 5
    )
    assert registry.latest("t-value").text == (
        'syntax = "proto3";\n'
        'import "google/type/date.proto";\n'
        'import "confluent/type/decimal.proto";\n'
        "\n"
        "message ConnectDefault1 {\n"
        "  int32 A = 1;\n"
        "  confluent.type.Decimal B = 2;\n"
        "  repeated string C = 3;\n"
        "  map<string, int64> D = 4;\n"
        "  ConnectDefault3 E = 5;\n"
        "\n"
        "  message ConnectDefault3 {\n"
        "    google.type.Date X = 1;\n"
        "  }\n"
        "}\n"
    )


FOREIGN = """
// a producer's own schema
syntax = "proto3";
package com.example;
option java_package = "com.example";
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";

/* not the one
   that is written */
message Other { reserved 2, 5 to 9; string id = 1 [deprecated = true]; }

message Order {
  enum State { NEW = 0; PAID = 1; }
  message Line { string sku = 1; optional int32 count = 2; }
  sint64 id = 7;
  State state = 2;
  repeated Line lines = 3;
  map<string, Line> by_sku = 4;
  google.protobuf.Timestamp at = 5;
  google.protobuf.StringValue note = 6;
  oneof how { string card = 8; bool cash = 9; }
  repeated double weights = 10;
}
service Orders { rpc Get (Other) returns (Order) { option idempotency_level = IDEMPOTENT; } }
"""


def foreign(registry: MemoryRegistry, path: tuple[int, ...], index: bytes, **fields: Any) -> bytes:
    schema_id = registry.register("t-value", FOREIGN, "PROTOBUF")
    return framed(schema_id, index + message_class(parse_proto(FOREIGN), path)(**fields).SerializeToString())


def test_a_writers_schema_is_resolved_by_name() -> None:
    registry = MemoryRegistry()
    columns = (
        "ID bigint, STATE string, LINES array<struct<COUNT int,SKU string>>, BY_SKU map<string,struct<SKU string>>"
    )
    made = serde(
        f"{columns}, AT timestamp, NOTE string, CARD string, CASH boolean, WEIGHTS array<double>, NEW int", registry
    )
    payload = foreign(
        registry,
        (1,),
        b"\x02\x02",
        id=-5,
        state=1,
        lines=[{"sku": "a"}, {"count": 0}],
        by_sku=[{"key": "k", "value": {"sku": "b"}}],
        at={"seconds": 1, "nanos": 5_000_000},
        note={"value": "n"},
        cash=False,
        weights=[1.5],
    )
    lines = [{"COUNT": None, "SKU": "a"}, {"COUNT": 0, "SKU": ""}]
    assert made.decode(payload) == (-5, "PAID", lines, {"k": {"SKU": "b"}}, 1005, "n", None, False, [1.5], None)


def test_messages_are_found_by_their_index() -> None:
    registry = MemoryRegistry()
    assert serde("ID string", registry).decode(foreign(registry, (0,), b"\x00", id="x")) == ("x",)
    assert serde("SKU string", registry).decode(foreign(registry, (1, 0), b"\x04\x02\x00", sku="y")) == ("y",)


@pytest.mark.parametrize(
    "index", [b"", b"\x80", b"\x02\x0a", b"\x01", b"\x02\x01", b"\xfe\xff\xff\xff\x0f", b"\x04\x02\x08"]
)
def test_an_invalid_message_index_is_a_bad_record(index: bytes) -> None:
    registry = MemoryRegistry()
    schema_id = registry.register("t-value", FOREIGN, "PROTOBUF")
    with pytest.raises(BadRecord):
        serde("ID string", registry).decode(framed(schema_id, index))


@pytest.mark.parametrize(
    "kind", ["int", "array<string>", "map<string,int>", "struct<X int>", "date", "decimal(3,1)", "bytes"]
)
def test_an_incompatible_value_is_a_bad_record(kind: str) -> None:
    registry = MemoryRegistry()
    with pytest.raises(BadRecord):
        serde(f"ID {kind}", registry).decode(foreign(registry, (0,), b"\x00", id="x"))


def test_null_is_the_default_unless_optional() -> None:
    plain = serde("A int, B string, C decimal(3,1), D array<int>, E timestamp", MemoryRegistry())
    assert plain.decode(plain.encode((None,) * 5)) == (0, "", None, [], None)
    optional = serde("A int, B string", MemoryRegistry(), VALUE_PROTOBUF_NULLABLE_REPRESENTATION="optional")
    assert optional.decode(optional.encode((None, ""))) == (None, "")


def test_null_inside_an_array_and_dates_beyond_the_calendar_are_refused() -> None:
    with pytest.raises(WrongType, match="nulls in the array"):
        serde("A array<int>", MemoryRegistry()).encode(([None],))
    with pytest.raises(WrongType, match="date"):
        serde("A date", MemoryRegistry()).encode((2**31 - 1,))


def test_without_a_registry_there_is_no_header() -> None:
    made = find_format("protobuf_nosr", {}).serde(Schema.parse("A int, B string").fields, is_key=False, wrapped=True)
    assert made.encode((1, "a")) == b"\x08\x01\x12\x01a"
    assert made.decode(b"\x12\x01b") == (0, "b")


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ("A array<array<int>>", "ARRAY directly inside ARRAY"),
        ("A struct<B array<map<string,int>>>", "MAP directly inside ARRAY"),
        ("`a b` int", "illegal name"),
        ("A map<array<int>,int>", "does not support type 'ARRAY'"),
    ],
)
def test_types_that_protobuf_cannot_represent_are_refused(columns: str, reason: str) -> None:
    with pytest.raises(FormatUnsupported, match=reason):
        serde(columns, MemoryRegistry())


def test_unknown_representations_of_null_are_refused() -> None:
    with pytest.raises(BadFormatOption, match="WRAPPER"):
        find_format("PROTOBUF", {"VALUE_PROTOBUF_NULLABLE_REPRESENTATION": "WRAPPER"})


@pytest.mark.parametrize(
    "text", ["", "message", "message A {", "message A { int32 }", "message A { int32 x 1; }", "€", "syntax"]
)
def test_an_invalid_schema_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_proto(text)


def test_a_formatted_schema_is_parsed_to_the_same_fields() -> None:
    registry = MemoryRegistry()
    made = serde("A int, M map<string,struct<t time>>, D decimal(4,2)", registry)
    row = (1, {"a": {"t": 5}}, Decimal("1.50"))
    assert made.decode(made.encode(row)) == row
    again = parse_proto(format_proto(made.inner.file))
    assert [(f.name, f.number) for f in again.message_type[0].field] == [("A", 1), ("M", 2), ("D", 3)]
