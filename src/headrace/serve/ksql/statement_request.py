"""The body of a request with statements: their text, the properties that act like SET, the variables like DEFINE."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from headrace.errors import BadRequest

_VARIABLES = "sessionVariables"


class StatementRequest(NamedTuple):
    text: str
    properties: dict[str, Any]
    variables: dict[str, str]

    @classmethod
    def of(cls, body: Mapping[str, Any], text_name: str, properties_name: str) -> StatementRequest:
        """Read a body whose text and properties have these names; raises if a part has the wrong type."""
        text = body.get(text_name)
        if not isinstance(text, str):
            raise BadRequest(f'the body has no "{text_name}"', fix=f'send {{"{text_name}": "STATEMENT;"}}')
        properties = _object(body, properties_name)
        return cls(text, properties, {name: str(value) for name, value in _object(body, _VARIABLES).items()})


def _object(body: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = body.get(name)
    if value is not None and not isinstance(value, dict):
        raise BadRequest(f'"{name}" must be a JSON object', fix=f'send "{name}": {{"name": "value"}}, or omit it')
    return value or {}
