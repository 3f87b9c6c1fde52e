"""Splits JSON into the source text of its parts: the elements of an array, the fields of an object.

Parsing and re-serializing may change numbers; a slice of the source text does not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from json.scanner import make_scanner
from typing import Any

from headrace.errors import BadRequest

_S = r"[ \t\n\r]*"
_SPACE, _COMMA, _COLON = (re.compile(pattern) for pattern in (_S, f"{_S},{_S}", f"{_S}:{_S}"))
_WRAPPING = re.compile(rf'\{{{_S}"records"{_S}:{_S}')
_FLAT = re.compile(rf'{_S}(\{{{_S}"records"{_S}:)?{_S}\[{_S}\{{(.*)\}}{_S}\]{_S}(\}})?{_S}'.encode(), re.S)
_BETWEEN = re.compile(rf"\}}{_S},{_S}\{{".encode())
Element = tuple[Any, str]
"""A value, and its source text."""
Read = Callable[[str, int], tuple[Any, int]]
"""Parses the value at a position of a text; returns the value and its end position."""

_value: Read = make_scanner(json.JSONDecoder())  # type: ignore[arg-type] - it only reads the decoder's settings


def array_elements(body: bytes) -> list[Element]:
    """The elements of an array that is the body, or its only field, `records`."""
    return _elements(body, _value)


def object_members(body: bytes) -> list[Element]:
    """Like `array_elements`, but the value of an object is a dictionary of its fields, each with its source text."""
    return _elements(body, _value_or_members)


def _elements(body: bytes, read: Read) -> list[Element]:
    try:
        text = body.decode()
        at = _behind(_SPACE, text, 0)
        wrapping = _WRAPPING.match(text, at)
        elements, end = _array(text, wrapping.end() if wrapping else at, read)
        if text[end:].strip(" \t\n\r") != ("}" if wrapping else ""):
            raise ValueError("text follows the array")
    except StopIteration as error:  # the scanner reports the position this way
        raise _no_records(f"at character {error.value}") from None
    except (ValueError, RecursionError) as error:
        raise _no_records(str(error)) from None
    return elements


def flat_objects(body: bytes) -> list[bytes] | None:
    """The source texts of the elements, if each can only be a flat object or invalid JSON; otherwise None.

    This splits at each `},{`, which is much faster than parsing. A string that contains `},{` is split into two parts,
    neither of which is valid JSON.
    """
    match = _FLAT.fullmatch(body)
    if match is None or (match[1] is None) != (match[3] is None):
        return None
    inside = match[2]
    parts = _BETWEEN.split(inside)
    if inside.count(b"{") != len(parts) - 1 or inside.count(b"}") != len(parts) - 1:
        return None
    return [b"{" + part + b"}" for part in parts]


def _no_records(reason: str) -> BadRequest:
    return BadRequest(f"the body is not a JSON array of records: {reason}", fix='send [...] or {"records": [...]}')


def _array(text: str, at: int, read: Read) -> tuple[list[Element], int]:
    """The elements of the array that starts at a position, and its end position."""
    if text[at : at + 1] != "[":
        raise ValueError("it does not begin with [")
    elements: list[Element] = []
    at = _behind(_SPACE, text, at + 1)
    while text[at : at + 1] != "]" or elements:
        value, end = read(text, at)
        elements.append((value, text[at:end]))
        comma = _COMMA.match(text, end)
        if comma is None:
            at = _behind(_SPACE, text, end)
            break
        at = comma.end()
    if text[at : at + 1] != "]":
        raise ValueError("it does not end with ]")
    return elements, at + 1


def _value_or_members(text: str, at: int) -> tuple[Any, int]:
    return _members(text, at) if text[at : at + 1] == "{" else _value(text, at)


def _members(text: str, at: int) -> tuple[dict[str, Element], int]:
    """The fields of the object that starts at a position, and its end position; of duplicate names the last wins."""
    members: dict[str, Element] = {}
    at = _behind(_SPACE, text, at + 1)
    while text[at : at + 1] != "}" or members:
        name, end = _value(text, at)
        colon = _COLON.match(text, end)
        if not isinstance(name, str) or colon is None:
            raise ValueError(f"a field has no name at character {at}")
        start = colon.end()
        value, end = _value(text, start)
        members[name] = value, text[start:end]
        comma = _COMMA.match(text, end)
        if comma is None:
            at = _behind(_SPACE, text, end)
            break
        at = comma.end()
    if text[at : at + 1] != "}":
        raise ValueError(f"an object does not end at character {at}")
    return members, at + 1


def _behind(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return at if match is None else match.end()
