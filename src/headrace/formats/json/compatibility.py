"""JSON Schema compatibility: every document that the writer's schema allows must be allowed by the reader's.

Supported are types, properties, required and additional ones, items, enums, unions (`oneOf`, `anyOf`), bounds, and
references within the schema. Any other keyword that restricts documents must be the same on both sides.

Properties that a schema does not name are allowed unless it forbids them, so naming a new one is a restriction: to add
properties later, close the object with `"additionalProperties": false`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from headrace.errors import BadSchema

TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")
_NOTES = frozenset(
    {"$schema", "$id", "id", "$comment", "$defs", "definitions", "title", "description", "default", "examples"}
    | {"readOnly", "writeOnly", "deprecated"}
)
_LOWER = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_UPPER = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
_UNIONS = ("oneOf", "anyOf")
_UNDERSTOOD = {*_NOTES, *_LOWER, *_UPPER, *_UNIONS, "type", "properties", "required", "additionalProperties"}
_UNDERSTOOD |= {"items", "enum", "const", "$ref"}
_DEEPEST = 64
_MOST_STEPS = 20_000

Node = Mapping[str, Any]


def check(text: str) -> None:
    schema = _parsed(text)
    _walk(schema, schema, "#", 0)


def problems(reader: str, writer: str) -> list[str]:
    pair = _Pair(_parsed(reader), _parsed(writer))
    return list(pair.at("#", pair.reader, pair.writer))


def _parsed(text: str) -> Any:
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _bad(f"it is not JSON: {error}") from None
    if not isinstance(schema, dict | bool):
        raise _bad("it must be an object, true or false")
    return schema


def _bad(why: str) -> BadSchema:
    return BadSchema(f"this is not a valid JSON schema: {why}", fix='for example {"type": "object", "properties": {}}')


def _walk(schema: Any, root: Any, path: str, depth: int) -> None:
    """Refuse what could not be compared with the next version."""
    if isinstance(schema, bool):
        return
    if not isinstance(schema, dict) or depth > _DEEPEST:
        raise _bad(f"{path} must be a schema that is not nested too deeply")
    types = schema.get("type", [])
    unknown = [t for t in (types if isinstance(types, list) else [types]) if t not in TYPES]
    if unknown:
        raise _bad(f"{path} has the type {unknown[0]!r}")
    for name, kind in _SHAPES.items():
        if name in schema and not isinstance(schema[name], kind):
            raise _bad(f"{path}/{name} has the wrong shape")
    for place, part in _parts(schema):
        _walk(part, root, f"{path}/{place}", depth + 1)
    _node(schema, root)


_SHAPES: dict[str, Any] = {
    "properties": dict,
    "required": list,
    "enum": list,
    "oneOf": list,
    "anyOf": list,
    "allOf": list,
    "$ref": str,
    "$defs": dict,
    "definitions": dict,
    **dict.fromkeys((*_LOWER, *_UPPER), int | float),
}


def _parts(schema: Node) -> Iterator[tuple[str, Any]]:
    for name in ("properties", "$defs", "definitions"):
        yield from ((f"{name}/{key}", part) for key, part in schema.get(name, {}).items())
    for name in (*_UNIONS, "allOf"):
        yield from ((f"{name}/{i}", part) for i, part in enumerate(schema.get(name, ())))
    items = schema.get("items", True)
    yield from ((f"items/{i}", part) for i, part in enumerate(items if isinstance(items, list) else [items]))
    yield "additionalProperties", schema.get("additionalProperties", True)


class _Pair:
    """A reader's and a writer's schema."""

    def __init__(self, reader: Any, writer: Any) -> None:
        self.reader, self.writer = reader, writer
        self.seen: set[tuple[str, str]] = set()
        self.steps = 0

    def at(self, path: str, reader: Any, writer: Any) -> Iterator[str]:
        self.steps += 1
        if self.steps > _MOST_STEPS:  # nested unions are tried in all combinations
            raise _bad("it is too large to compare")
        pair = (json.dumps(reader), json.dumps(writer))
        if pair in self.seen:
            return
        self.seen.add(pair)
        yield from self.resolved(path, _node(reader, self.reader), _node(writer, self.writer))

    def resolved(self, path: str, reader: Node | None, writer: Node | None) -> Iterator[str]:
        if writer is None:  # it allows no document, so none was written
            return
        if reader is None:
            yield f"{path}: no value is allowed any more"
            return
        strange = _mismatch(reader, writer)
        if strange:
            yield f'{path}: the keyword "{strange}" is not supported, and it differs between the schemas'
            return
        wrote, read = _branches(writer), _branches(reader)
        if len(wrote) > 1 or len(read) > 1:
            yield from self.unions(path, read, wrote)
        else:
            yield from self.single(path, _whole(reader), _whole(writer))

    def unions(self, path: str, read: list[Any], wrote: list[Any]) -> Iterator[str]:
        """Each alternative of the writer must match one of the reader."""
        for branch in wrote:
            if not any(self.fits(path, other, branch) for other in read):
                yield f"{path}: no alternative allows {json.dumps(branch)[:80]}"

    def fits(self, path: str, reader: Any, writer: Any) -> bool:
        before = set(self.seen)
        if next(self.at(path, reader, writer), None) is None:
            return True
        self.seen = before
        return False

    def single(self, path: str, reader: Node, writer: Node) -> Iterator[str]:
        for rule in _RULES:
            yield from rule(path, reader, writer)
        types = _types(writer)
        if "object" in types:
            yield from self.properties(path, reader, writer)
        if "array" in types and isinstance(reader.get("items", True), dict | bool):
            yield from self.at(f"{path}/items", reader.get("items", True), writer.get("items", True))

    def properties(self, path: str, reader: Node, writer: Node) -> Iterator[str]:
        read, wrote = (schema.get("properties", {}) for schema in (reader, writer))
        more_read, more_wrote = (schema.get("additionalProperties", True) for schema in (reader, writer))
        for name in sorted({*read, *wrote}):
            location = f"{path}/properties/{name}"
            yield from self.at(location, read.get(name, more_read), wrote.get(name, more_wrote))
        yield from self.at(f"{path}/additionalProperties", more_read, more_wrote)


def _node(schema: Any, root: Any) -> Node | None:
    """What a schema says: `true` is an empty schema, `false` is None, a reference is resolved."""
    for _ in range(_DEEPEST):
        if isinstance(schema, bool):
            return {} if schema else None
        if "$ref" not in schema:
            return schema
        schema = _referred(schema["$ref"], root)
    raise _bad("its references are circular")


def _referred(reference: str, root: Any) -> Any:
    if not reference.startswith("#"):
        raise _bad(f'the reference "{reference}" points outside the schema')
    target = root
    for part in reference.removeprefix("#").split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if not isinstance(target, dict) or name not in target:
            raise _bad(f'the reference "{reference}" points to nothing')
        target = target[name]
    if not isinstance(target, dict | bool):
        raise _bad(f'the reference "{reference}" does not point to a schema')
    return target


def _mismatch(reader: Node, writer: Node) -> str | None:
    """An unsupported keyword that only one side has, or that differs."""
    for name in sorted({*reader, *writer}):
        if name in _UNDERSTOOD and not (name == "items" and _is_tuple(reader, writer)):
            continue
        if not name.startswith("connect.") and not _same(reader, writer, name):
            return name
    return None


def _same(reader: Node, writer: Node, name: str) -> bool:
    """A reference may resolve to something else on the other side."""
    return reader.get(name) == writer.get(name) and "$ref" not in json.dumps(reader.get(name))


def _is_tuple(*schemas: Node) -> bool:
    return any(isinstance(schema.get("items"), list) for schema in schemas)


def _branches(schema: Node) -> list[Any]:
    """The alternatives of a schema that is only a union, or that has several types."""
    unions = [name for name in _UNIONS if name in schema]
    rest = {name: value for name, value in schema.items() if name not in unions}
    if len(unions) == 1 and not {*rest} - _NOTES - {n for n in rest if n.startswith("connect.")}:
        return list(schema[unions[0]])
    types = schema.get("type")
    if isinstance(types, list) and not unions:
        return [{**rest, "type": one} for one in types]
    return [schema]


def _whole(schema: Node) -> Node:
    """A union with one member is that member."""
    (branch,) = _branches(schema) or [schema]
    return branch if isinstance(branch, dict) else {}


# -- rules for two schemas, neither of them a union --------------------------------------------------------------------


def _types(schema: Node) -> set[str]:
    declared = schema.get("type")
    if isinstance(declared, str):
        return {declared}
    if declared is None and "enum" not in schema and "const" not in schema:
        return set(TYPES)
    return set(declared or {_type_of(value) for value in _values(schema) or ()})


def _type_of(value: Any) -> str:
    kinds = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}
    return kinds.get(type(value), "null")


def _values(schema: Node) -> list[Any] | None:
    return [schema["const"]] if "const" in schema else schema.get("enum")


def _same_types(path: str, reader: Node, writer: Node) -> Iterator[str]:
    allowed = _types(reader) | ({"integer"} if "number" in _types(reader) else set())
    missing = _types(writer) - allowed
    if missing:
        yield f"{path}: {', '.join(sorted(missing))} is not allowed any more"


def _same_values(path: str, reader: Node, writer: Node) -> Iterator[str]:
    allowed, wrote = _values(reader), _values(writer)
    if allowed is None:
        return
    missing = [value for value in wrote or () if value not in allowed]
    if wrote is None or missing:
        yield f"{path}: {json.dumps(missing)[:80] if wrote else 'other values'} is not allowed any more"


def _bounds(path: str, reader: Node, writer: Node) -> Iterator[str]:
    for names, sign in ((_LOWER, 1), (_UPPER, -1)):
        for name in names:
            if name in reader and (name not in writer or sign * reader[name] > sign * writer[name]):
                yield f"{path}: {name} is narrower"


def _required(path: str, reader: Node, writer: Node) -> Iterator[str]:
    if "object" not in _types(writer):
        return
    for name in sorted({*reader.get("required", ())} - {*writer.get("required", ())}):
        if "default" not in _property(reader, name):
            yield f"{path}: {name} is required now"


def _property(schema: Node, name: str) -> Node:
    property_schema = schema.get("properties", {}).get(name, {})
    return property_schema if isinstance(property_schema, dict) else {}


def _mixed_unions(path: str, reader: Node, writer: Node) -> Iterator[str]:
    for name in _UNIONS:
        if name in reader and not _same(reader, writer, name):
            yield f'{path}: "{name}" next to other keywords is not supported, and it differs between the schemas'


_RULES: tuple[Callable[[str, Node, Node], Iterator[str]], ...] = (
    _same_types,
    _same_values,
    _bounds,
    _required,
    _mixed_unions,
)
