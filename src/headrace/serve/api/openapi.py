"""The OpenAPI 3.1 document of the API, generated from the routes: paths, parameters, responses and docstrings."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from typing import Any, get_args, get_origin, get_type_hints

from headrace.serve.api.parameters import BODY, PAYLOAD, Parameter, alternatives, parameters_of
from headrace.serve.api.route import RawResponse, Route

Document = dict[str, Any]
_PLAIN: Mapping[Any, str] = {str: "string", int: "integer", bool: "boolean", float: "number", types.NoneType: "null"}
_REFUSED: Document = {
    "type": "object",
    "required": ["code", "what", "where", "fix", "status"],
    "properties": {
        "code": {"type": "string", "description": "Stable; see the reference of errors."},
        "what": {"type": "string"},
        "where": {"type": ["string", "null"]},
        "fix": {"type": ["string", "null"], "description": "What to do about it."},
        "status": {"type": "integer"},
    },
}


def openapi(routes: Iterable[Route], prefix: str) -> Document:
    schemas: Document = {"Refused": _REFUSED}
    paths: Document = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": "headrace", "version": version("headrace")},
        "servers": [{"url": prefix}],
        "paths": paths,
        "components": {"schemas": schemas},
    }


def _operation(route: Route, schemas: Document) -> Document:
    summary, _, more = route.doc.partition("\n\n")
    declared = () if route.parameters is None else parameters_of(route.parameters)
    operation: Document = {
        "operationId": route.do.__name__,
        "tags": [route.path.split("/")[1]],
        "summary": " ".join(summary.split()),
        "parameters": [_parameter(one, schemas) for one in declared if one.place not in (BODY, PAYLOAD)],
        "responses": {str(route.status): _answer(route, schemas), "default": _refusal()},
    }
    if more:
        operation["description"] = " ".join(more.split())
    if any(one.place in (BODY, PAYLOAD) for one in declared):
        operation["requestBody"] = _body(declared, schemas)
    return operation


def _parameter(one: Parameter, schemas: Document) -> Document:
    schema = _schema(one.type, schemas)
    if not one.required and one.default is not None:
        schema["default"] = one.default
    if one.most is not None:
        schema |= {"minimum": 1, "maximum": one.most}
    return {"name": one.name, "in": one.place, "required": one.required, "description": one.doc, "schema": schema}


def _body(declared: Iterable[Parameter], schemas: Document) -> Document:
    whole = next((one for one in declared if one.place == PAYLOAD), None)
    if whole is not None:
        content = {kind: {"schema": {}} for kind in whole.types}
        return {"required": True, "description": whole.doc, "content": content}
    fields = [one for one in declared if one.place == BODY]
    schema = {
        "type": "object",
        "required": [one.name for one in fields if one.required],
        "properties": {one.name: {**_schema(one.type, schemas), "description": one.doc} for one in fields},
        "additionalProperties": False,
    }
    return {"required": True, "content": {"application/json": {"schema": schema}}}


def _answer(route: Route, schemas: Document) -> Document:
    kind = route.hints.get("return")
    if route.status == 204:
        return {"description": "Done."}
    schema = {} if kind is RawResponse or route.is_live else _schema(kind, schemas)
    return {"description": "Done.", "content": {one: {"schema": schema} for one in route.types}}


def _refusal() -> Document:
    schema = {"$ref": "#/components/schemas/Refused"}
    return {"description": "Refused.", "content": {"application/json": {"schema": schema}}}


def _schema(kind: Any, schemas: Document) -> Document:
    """The JSON schema of a type; dataclasses are named once, in `schemas`."""
    if len(alternatives(kind)) > 1:
        return {"anyOf": [_schema(one, schemas) for one in alternatives(kind)]}
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return {"$ref": f"#/components/schemas/{_named(kind, schemas)}"}
    if get_origin(kind) is list:
        return {"type": "array", "items": _schema(get_args(kind)[0], schemas)}
    if get_origin(kind) is dict:
        return {"type": "object", "additionalProperties": _schema(get_args(kind)[1], schemas)}
    return {"type": _PLAIN[kind]} if kind in _PLAIN else {}


def _named(kind: type, schemas: Document) -> str:
    """The name of a dataclass's schema, which includes its module: class names may repeat across modules."""
    name = f"{kind.__module__.rpartition('.')[2]}.{kind.__name__}"
    if name not in schemas:
        schemas[name] = {}  # it may be recursive
        hints = get_type_hints(kind)
        properties = {field.name: _schema(hints[field.name], schemas) for field in dataclasses.fields(kind)}
        schemas[name] = {"type": "object", "properties": properties, "required": list(properties)}
        if kind.__doc__ and not kind.__doc__.startswith(f"{kind.__name__}("):
            schemas[name]["description"] = " ".join(kind.__doc__.split())
    return name
