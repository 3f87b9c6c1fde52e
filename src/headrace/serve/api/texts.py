"""JSON by its own text: the elements of an array, and the fields of an object, as they were written.

Parsing numbers and writing them again may change them; what is cut out of the text does not.
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
"""A value, and its text."""
Read = Callable[[str, int], tuple[Any, int]]
"""From a place in a text: the value that begins there, and where it ends."""

_value: Read = make_scanner(json.JSONDecoder())  # type: ignore[arg-type] - it only looks at how to parse


def elements(body: bytes) -> list[Element]:
    """Those of the array that a body is, or that is its one field, `records`."""
    return _elements(body, _value)


def members(body: bytes) -> list[Element]:
    """The same, but of an object the value is a dictionary of its fields, each of them a value with its text."""
    return _elements(body, _value_or_members)


def _elements(body: bytes, read: Read) -> list[Element]:
    try:
        text = body.decode()
        at = _behind(_SPACE, text, 0)
        wrapping = _WRAPPING.match(text, at)
        found, end = _array(text, wrapping.end() if wrapping else at, read)
        if text[end:].strip(" \t\n\r") != ("}" if wrapping else ""):
            raise ValueError("there is more behind the array")
    except StopIteration as error:  # so the scanner says where it was at a loss
        raise _no_records(f"at character {error.value}") from None
    except (ValueError, RecursionError) as error:
        raise _no_records(str(error)) from None
    return found


def flat_objects(body: bytes) -> list[bytes] | None:
    """The texts of the elements, if each of them can only be a flat object or no JSON at all; else None.

    It is a cut at each `},{`, and much faster. A text that has this in it is cut in two, of which neither is JSON.
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
    return BadRequest(f"the body is no JSON array of records: {reason}", fix='send [...] or {"records": [...]}')


def _array(text: str, at: int, read: Read) -> tuple[list[Element], int]:
    """The elements of the array that begins there, and where it ends."""
    if text[at : at + 1] != "[":
        raise ValueError("it does not begin with [")
    found: list[Element] = []
    at = _behind(_SPACE, text, at + 1)
    while text[at : at + 1] != "]" or found:
        value, end = read(text, at)
        found.append((value, text[at:end]))
        comma = _COMMA.match(text, end)
        if comma is None:
            at = _behind(_SPACE, text, end)
            break
        at = comma.end()
    if text[at : at + 1] != "]":
        raise ValueError("it does not end with ]")
    return found, at + 1


def _value_or_members(text: str, at: int) -> tuple[Any, int]:
    return _members(text, at) if text[at : at + 1] == "{" else _value(text, at)


def _members(text: str, at: int) -> tuple[dict[str, Element], int]:
    """The fields of the object that begins there, and where it ends; of several with one name the last counts."""
    found: dict[str, Element] = {}
    at = _behind(_SPACE, text, at + 1)
    while text[at : at + 1] != "}" or found:
        name, end = _value(text, at)
        colon = _COLON.match(text, end)
        if not isinstance(name, str) or colon is None:
            raise ValueError(f"a field has no name at character {at}")
        start = colon.end()
        value, end = _value(text, start)
        found[name] = value, text[start:end]
        comma = _COMMA.match(text, end)
        if comma is None:
            at = _behind(_SPACE, text, end)
            break
        at = comma.end()
    if text[at : at + 1] != "}":
        raise ValueError(f"an object does not end at character {at}")
    return found, at + 1


def _behind(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return at if match is None else match.end()
