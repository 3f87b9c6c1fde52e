"""Parameters of requests, declared once as the fields of a dataclass: parsed by them, and shown in OpenAPI.

    @dataclass(frozen=True, kw_only=True)
    class Page:
        topic: str = in_path("The topic's name.")
        limit: int = in_query("Maximum number of records to return.", 100)

Undeclared parameters are refused, so that a misspelt name is not ignored.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass
from functools import lru_cache
from typing import Any, Union, get_args, get_origin, get_type_hints

from headrace.errors import BadRequest, suggestion
from headrace.settings import parse_value

PATH, QUERY, HEADER, BODY, PAYLOAD = "path", "query", "header", "body", "payload"
_LARGEST = (1 << 63) - 1
_PLAIN: Mapping[Any, str] = {str: "text", int: "a whole number", bool: "true or false", float: "a number"}


@dataclass(frozen=True)
class Payload:
    """A body as received."""

    content: bytes
    type: str


def in_path(doc: str) -> Any:
    return _declared(PATH, doc)


def in_query(doc: str, default: Any = MISSING, *, name: str | None = None, most: int | None = None) -> Any:
    return _declared(QUERY, doc, default, name, most)


def in_header(doc: str, default: Any = MISSING, *, name: str) -> Any:
    return _declared(HEADER, doc, default, name)


def in_body(doc: str, default: Any = MISSING) -> Any:
    """A field of the JSON object in the body."""
    return _declared(BODY, doc, default)


def raw_body(doc: str, *types: str) -> Any:
    """The whole body, with one of these content types."""
    return dataclasses.field(metadata={"in": PAYLOAD, "doc": doc, "types": types})


def _declared(place: str, doc: str, default: Any = MISSING, name: str | None = None, most: int | None = None) -> Any:
    facts = {"in": place, "doc": doc, "name": name, "most": most}
    return dataclasses.field(default=default, metadata=facts)


# -- declaration ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Parameter:
    """One parameter. `attribute` is its name in the dataclass, `name` its name in the request."""

    attribute: str
    name: str
    place: str
    doc: str
    type: Any
    default: Any
    most: int | None = None
    types: tuple[str, ...] = ()

    @property
    def required(self) -> bool:
        return self.default is MISSING


@lru_cache(256)
def parameters_of(kind: type) -> tuple[Parameter, ...]:
    hints = get_type_hints(kind)
    return tuple(_parameter(field, hints[field.name]) for field in dataclasses.fields(kind))


def _parameter(field: dataclasses.Field[Any], hint: Any) -> Parameter:
    facts = field.metadata
    name = facts.get("name") or field.name
    more = facts.get("most"), facts.get("types", ())
    return Parameter(field.name, name, facts["in"], facts["doc"], hint, field.default, *more)


def alternatives(hint: Any) -> tuple[Any, ...]:
    """The types that a value may have."""
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


# -- parsing --------------------------------------------------------------------------------------------------------


def read_parameters(kind: type, places: Mapping[str, Mapping[str, Any]], whole: Payload | None = None) -> Any:
    """Build the dataclass from the path, query, headers and body in `places`."""
    declared = parameters_of(kind)
    for place in (QUERY, BODY):
        _check_names(places.get(place, {}), [p.name for p in declared if p.place == place], place)
    values = {p.attribute: whole if p.place == PAYLOAD else _value(p, places.get(p.place, {})) for p in declared}
    return kind(**values)


def _check_names(names: Iterable[str], known: list[str], place: str) -> None:
    what = "parameter" if place == QUERY else "field"
    for name in names:
        if name not in known:
            fix = suggestion(name, known, f"there are: {', '.join(known) or 'none'}")
            raise BadRequest(f'there is no {what} "{name[:80]}"', fix=fix)


def _value(parameter: Parameter, values: Mapping[str, Any]) -> Any:
    if parameter.name not in values:
        if parameter.required:
            raise BadRequest(f'{parameter.place} "{parameter.name}" is missing', fix=parameter.doc)
        return parameter.default
    raw = values[parameter.name]
    value = coerce_value(raw, parameter) if parameter.place == BODY else _from_text(raw, parameter)
    least, most = (0, _LARGEST) if parameter.most is None else (1, parameter.most)
    if isinstance(value, int) and not least <= value <= most:
        raise BadRequest(f'"{parameter.name}" cannot be {value}', fix=f"write {least} to {most}")
    return value


def _from_text(text: str, parameter: Parameter) -> Any:
    kind = next(one for one in alternatives(parameter.type) if one is not types.NoneType)
    try:
        return parse_value(kind, text)
    except ValueError:
        raise _wrong(parameter, text, _PLAIN[kind]) from None


def coerce_value(value: Any, parameter: Parameter) -> Any:
    """Check that a JSON value has the declared type."""
    for kind in alternatives(parameter.type):
        if _is(value, kind):
            return value
    expected = " or ".join(_type_name(kind) for kind in alternatives(parameter.type))
    raise _wrong(parameter, value, expected)


def _is(value: Any, kind: Any) -> bool:
    if kind is Any:
        return True
    if get_origin(kind) is list:
        return isinstance(value, list) and all(_is(item, get_args(kind)[0]) for item in value)
    if get_origin(kind) is dict:
        return isinstance(value, dict) and all(_is(item, get_args(kind)[1]) for item in value.values())
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def _type_name(kind: Any) -> str:
    if kind is types.NoneType:
        return "null"
    plain = {list: "an array", dict: "an object"}
    return _PLAIN.get(kind) or plain.get(get_origin(kind), "a value")


def _wrong(parameter: Parameter, value: Any, expected: str) -> BadRequest:
    return BadRequest(f'"{parameter.name}" is {str(value)[:80]!r}, expected {expected}', fix=parameter.doc)
