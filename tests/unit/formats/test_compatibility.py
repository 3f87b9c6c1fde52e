"""Compatibility of schemas: the rules of each kind, and the levels over them."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest

from headrace.errors import BadSchema, IncompatibleSchema
from headrace.formats.avro.compatibility import problems as avro
from headrace.formats.json.compatibility import problems as json_schema
from headrace.formats.protobuf.compatibility import problems as protobuf
from headrace.formats.schema_registry.compatibility import LEVELS, check_schema
from headrace.formats.schema_registry.registry import MemoryRegistry
from headrace.formats.schema_registry.state import Kind, identity


def record(*fields: Any, name: str = "r", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


A = field("a", "int")
B = field("b", "string")
TREE = record(field("next", ["null", "tree"]), field("n", "int"), name="tree")


@pytest.mark.parametrize(
    ("reader", "writer", "reads"),
    [
        pytest.param("int", "int", True, id="same"),
        pytest.param("long", "int", True, id="promoted"),
        pytest.param("int", "long", False, id="not-narrowed"),
        pytest.param("double", "long", True, id="long-to-double"),
        pytest.param("string", "bytes", True, id="bytes-to-string"),
        pytest.param("string", "int", False, id="int-to-string"),
        pytest.param({"type": "int", "logicalType": "date"}, "int", True, id="logical-types-are-annotations"),
        pytest.param(record(A), record(A, B), True, id="field-removed"),
        pytest.param(record(A, B), record(A), False, id="field-added"),
        pytest.param(record(A, {**B, "default": ""}), record(A), True, id="field-added-with-default"),
        pytest.param(record({**A, "name": "z", "aliases": ["a"]}), record(A), True, id="field-renamed-by-alias"),
        pytest.param(record(A), record({**A, "type": "string"}), False, id="field-type"),
        pytest.param(record(A, name="n.r"), record(A, name="m.r"), True, id="namespaces-do-not-count"),
        pytest.param(record(A, name="q"), record(A), False, id="record-renamed"),
        pytest.param(record(A, name="q", aliases=["r"]), record(A), True, id="record-renamed-by-alias"),
        pytest.param(["null", "int"], "int", True, id="made-nullable"),
        pytest.param("int", ["null", "int"], False, id="made-not-nullable"),
        pytest.param(["null", "string"], ["null", "int"], False, id="union-branch-changed"),
        pytest.param(["null", "long"], ["null", "int"], True, id="union-branch-promoted"),
        pytest.param({"type": "array", "items": "long"}, {"type": "array", "items": "int"}, True, id="items"),
        pytest.param({"type": "map", "values": "int"}, {"type": "map", "values": "string"}, False, id="values"),
        pytest.param(TREE, TREE, True, id="recursive"),
        pytest.param(
            TREE,
            {**TREE, "fields": [TREE["fields"][0], field("n", "string")]},
            False,
            id="recursive-and-changed",
        ),
    ],
)
def test_avro(reader: Any, writer: Any, reads: bool) -> None:
    assert (avro(json.dumps(reader), json.dumps(writer)) == []) is reads


def enum(*symbols: str, **more: Any) -> str:
    return json.dumps({"type": "enum", "name": "e", "symbols": symbols, **more})


def test_avro_enums_fixed_and_decimals() -> None:
    assert avro(enum("X"), enum("X", "Y")) == ["it: the enum lacks Y and has no default"]
    assert avro(enum("X", default="X"), enum("X", "Y")) == []
    fixed = [json.dumps({"type": "fixed", "name": "f", "size": size}) for size in (2, 3)]
    assert avro(*fixed) == ["it: 2 bytes cannot read 3 bytes"]
    decimals = [json.dumps({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": s}) for s in (1, 2)]
    assert avro(*decimals) == ["it: decimal(4,1) is not decimal(4,2)"]


def test_an_avro_incompatibility_names_its_place() -> None:
    def nested(kind: str) -> str:
        return json.dumps(record(field("s", {"type": "array", "items": record(field("x", kind), name="i")})))

    assert avro(nested("int"), nested("string")) == ["s[].x: int cannot read string"]


def proto(*lines: str, more: str = "") -> str:
    return f'syntax = "proto3"; {more} message M {{ {" ".join(lines)} }}'


@pytest.mark.parametrize(
    ("reader", "writer", "reads"),
    [
        pytest.param(proto("int32 a = 1;"), proto("int32 a = 1; string b = 2;"), True, id="field-removed"),
        pytest.param(proto("int32 a = 1; string b = 2;"), proto("int32 a = 1;"), True, id="field-added"),
        pytest.param(proto("int32 z = 1;"), proto("int32 a = 1;"), True, id="field-renamed"),
        pytest.param(proto("int64 a = 1;"), proto("int32 a = 1;"), True, id="plain-integers"),
        pytest.param(proto("sint64 a = 1;"), proto("int64 a = 1;"), False, id="zigzag"),
        pytest.param(proto("string a = 1;"), proto("int32 a = 1;"), False, id="type-changed"),
        pytest.param(proto("bytes a = 1;"), proto("string a = 1;"), True, id="text-to-bytes"),
        pytest.param(proto("string b = 1;"), proto("int64 a = 1;"), False, id="number-used-again"),
        pytest.param(proto("repeated string a = 1;"), proto("string a = 1;"), True, id="one-text-to-many"),
        pytest.param(proto("string a = 1;"), proto("repeated string a = 1;"), False, id="many-to-one"),
        pytest.param(proto("repeated int32 a = 1;"), proto("int32 a = 1;"), False, id="packed"),
        pytest.param(proto("optional int32 a = 1;"), proto("int32 a = 1;"), True, id="made-optional"),
        pytest.param(
            proto("oneof c { int32 a = 1; }"), proto("oneof c { int32 a = 1; int32 b = 2; }"), False, id="oneof-member"
        ),
        pytest.param(
            proto("oneof c { int32 a = 1; int32 b = 2; }"), proto("int32 a = 1; int32 b = 2;"), False, id="into-a-oneof"
        ),
        pytest.param(
            proto("oneof c { int32 a = 1; int32 b = 2; }"), proto("oneof c { int32 a = 1; }"), True, id="oneof-grows"
        ),
        pytest.param(proto("int32 a = 1;"), proto("int32 a = 1;", more="message N {}"), False, id="message-removed"),
        pytest.param(proto("map<string, int64> a = 1;"), proto("map<string, int32> a = 1;"), True, id="map"),
        pytest.param(proto("map<string, string> a = 1;"), proto("map<string, int32> a = 1;"), False, id="map-values"),
        pytest.param(proto("M m = 1;"), proto("M m = 1;"), True, id="recursive"),
        pytest.param(
            proto("I i = 1;", more="message I { string x = 1; }"),
            proto("J i = 1;", more="message J { int32 x = 1; } message I {}"),
            False,
            id="message-inside",
        ),
    ],
)
def test_protobuf(reader: str, writer: str, reads: bool) -> None:
    assert (protobuf(reader, writer) == []) is reads


def test_protobuf_required_fields_are_refused() -> None:
    text = 'syntax = "proto2"; message M { required int32 a = 1; }'
    assert "required" in protobuf(text, text)[0]


def closed(required: tuple[str, ...] = (), **properties: Any) -> dict[str, Any]:
    shown = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**shown, "required": list(required)} if required else shown


INT, TEXT = {"type": "integer"}, {"type": "string"}


@pytest.mark.parametrize(
    ("reader", "writer", "reads"),
    [
        pytest.param({"type": "number"}, INT, True, id="integer-is-a-number"),
        pytest.param(INT, {"type": "number"}, False, id="number-is-no-integer"),
        pytest.param(closed(a=INT, b=TEXT), closed(a=INT), True, id="property-added"),
        pytest.param(closed(a=INT), closed(a=INT, b=TEXT), False, id="property-removed-from-closed"),
        pytest.param({**closed(a=INT), "additionalProperties": True}, closed(a=INT, b=TEXT), True, id="opened"),
        pytest.param(
            {"type": "object", "properties": {"b": TEXT}}, {"type": "object"}, False, id="property-added-to-open"
        ),
        pytest.param(closed(("a",), a=INT), closed(a=INT), False, id="required-added"),
        pytest.param(closed(("a",), a={**INT, "default": 0}), closed(a=INT), True, id="required-with-default"),
        pytest.param(closed(a=INT), closed(("a",), a=INT), True, id="required-removed"),
        pytest.param({"oneOf": [{"type": "null"}, INT]}, INT, True, id="union-for-one"),
        pytest.param(INT, {"oneOf": [{"type": "null"}, INT]}, False, id="one-for-union"),
        pytest.param({"type": ["null", "integer"]}, {"oneOf": [{"type": "null"}, INT]}, True, id="type-list"),
        pytest.param({"enum": ["x", "y"]}, {"enum": ["x"]}, True, id="enum-grows"),
        pytest.param({"enum": ["x"]}, {"enum": ["x", "y"]}, False, id="enum-shrinks"),
        pytest.param({"enum": ["x"]}, TEXT, False, id="enum-appears"),
        pytest.param({**INT, "maximum": 5}, {**INT, "maximum": 9}, False, id="narrower"),
        pytest.param({**INT, "maximum": 9}, {**INT, "maximum": 5}, True, id="wider"),
        pytest.param({"type": "array", "items": INT}, {"type": "array", "items": TEXT}, False, id="items"),
        pytest.param({"not": INT}, {"not": INT}, True, id="strange-but-same"),
        pytest.param({"not": INT}, {"not": TEXT}, False, id="strange-and-other"),
        pytest.param({"$ref": "#/$defs/i", "$defs": {"i": INT}}, INT, True, id="reference"),
        pytest.param(
            {"$ref": "#/$defs/i", "$defs": {"i": INT}},
            {"$ref": "#/$defs/i", "$defs": {"i": TEXT}},
            False,
            id="referred",
        ),
        pytest.param(
            {"type": "object", "properties": {"next": {"$ref": "#"}}},
            {"type": "object", "properties": {"next": {"$ref": "#"}}},
            True,
            id="recursive",
        ),
        pytest.param({}, closed(a=INT), True, id="anything"),
        pytest.param(False, INT, False, id="nothing"),
    ],
)
def test_json(reader: Any, writer: Any, reads: bool) -> None:
    assert (json_schema(json.dumps(reader), json.dumps(writer)) == []) is reads


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("AVRO", "no schema"),
        ("AVRO", '{"type": "enum", "name": "e"}'),
        ("AVRO", json.dumps(record(A, A))),
        ("AVRO", '["null", "unknown.name"]'),
        ("AVRO", "[" * 3000),
        ("PROTOBUF", "message {"),
        ("PROTOBUF", 'syntax = "proto3";'),
        ("PROTOBUF", 'syntax = "proto3"; message M { Gone g = 1; }'),
        ("JSON", "{"),
        ("JSON", "[]"),
        ("JSON", '{"type": "float"}'),
        ("JSON", '{"properties": []}'),
        ("JSON", '{"$ref": "#/$defs/gone"}'),
        ("JSON", '{"$ref": "http://example.org/schema"}'),
        ("JSON", '{"$ref": "#"}'),
        ("JSON", '{"items": ' * 100 + "{}" + "}" * 100),
        ("JSON", '"' + "x" * (1 << 20) + '"'),
    ],
)
def test_an_invalid_schema_is_refused(kind: Kind, text: str) -> None:
    with pytest.raises(BadSchema):
        check_schema(text, kind)


BASE, NARROWER, WIDER = (
    json.dumps(record(*fields)) for fields in ((A, B), (A,), (A, B, field("c", "int")))
)  # NARROWER reads BASE and not the other way round; BASE reads WIDER


@pytest.mark.parametrize("level", LEVELS)
def test_levels(level: str) -> None:
    registry = MemoryRegistry(strict=True)
    registry.set_level("NONE")
    for text in (NARROWER, BASE):
        registry.register("s", text, "AVRO")
    registry.set_level(level, "s")
    backward, forward = (not registry.problems("s", text, "AVRO") for text in (NARROWER, WIDER))
    wanted = LEVELS[level]
    # NARROWER reads all there is; the latest version reads WIDER, and so does the first.
    assert backward is (not wanted.forward)
    assert forward is (not wanted.backward)


def test_a_transitive_level_checks_all_versions() -> None:
    registry = MemoryRegistry(strict=True)
    first = json.dumps(record(A))
    second = json.dumps(record(A, {**B, "default": ""}))
    third = json.dumps(record(A, B))
    registry.register("s", first, "AVRO")
    registry.register("s", second, "AVRO")
    assert registry.problems("s", third, "AVRO") == []
    registry.set_level("BACKWARD_TRANSITIVE", "s")
    assert "version 1" in registry.problems("s", third, "AVRO")[0]
    with pytest.raises(IncompatibleSchema, match="b: the new field has no default"):
        registry.register("s", third, "AVRO")


def test_a_schema_nested_too_deeply_is_refused() -> None:
    def deep(depth: int) -> str:
        return '{"type": "array", "items": ' * depth + '"int"' + "}" * depth

    def chain(last: str) -> str:
        parts = {f"d{i}": {"type": "array", "items": {"$ref": f"#/$defs/d{i + 1}"}} for i in range(2000)}
        return json.dumps({"$ref": "#/$defs/d0", "$defs": {**parts, "d2000": {"type": last}}})

    registry = MemoryRegistry(strict=True)
    registry.register("j", chain("string"), "JSON")
    with pytest.raises(IncompatibleSchema, match="too deeply"):
        registry.register("j", chain("number"), "JSON")
    for depth in (10, 100, 200, 300, 500, 900, 3000):
        with contextlib.suppress(BadSchema, IncompatibleSchema):
            registry.register(f"a{depth}", deep(depth), "AVRO")
            registry.register(f"a{depth}", deep(depth).replace("int", "long"), "AVRO")
    assert len(registry.versions("a100")) == 2


def test_a_subject_keeps_its_kind() -> None:
    registry = MemoryRegistry(strict=True)
    registry.register("s", '"int"', "AVRO")
    with pytest.raises(IncompatibleSchema, match="it is AVRO, not JSON"):
        registry.register("s", "{}", "JSON")


def test_spacing_comments_and_key_order_do_not_change_the_identity() -> None:
    assert identity('{"a": 1,\n "b": 2}', "JSON") == identity('{"b":2,"a":1}', "JSON")
    one = 'message M { // note\n string a=1 ; /* "x */ string b = 2 [default = "a  //b"]; }'
    other = 'message M {string a = 1;string b = 2 [default="a  //b"];}'
    assert identity(one, "PROTOBUF") == identity(other, "PROTOBUF")
    assert identity(one, "PROTOBUF") != identity(one.replace("a  //b", "a //b"), "PROTOBUF")
