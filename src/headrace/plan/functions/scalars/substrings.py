"""Functions that search, slice, split and pad text or bytes. Positions count from 1, or from the end when negative."""

from __future__ import annotations

from typing import TypeVar

from headrace.plan.functions.declaration import Function, NullRule, Overload, never_growing
from headrace.plan.limits import check_items, check_length

AREA = "strings"

Text = TypeVar("Text", str, bytes)


def instr(text: str | None, part: str | None, position: int | None = 1, occurrence: int | None = 1) -> int:
    if text is None or part is None or not position or not occurrence or occurrence < 1:
        return 0
    return _forward(text, part, position, occurrence) if position > 0 else _backward(text, part, position, occurrence)


def _forward(text: str, part: str, position: int, occurrence: int) -> int:
    at = position - 2
    for _ in range(occurrence):
        at = text.find(part, at + 1)
        if at < 0:
            return 0
    return at + 1


def _backward(text: str, part: str, position: int, occurrence: int) -> int:
    last = len(text) + position
    for _ in range(occurrence):
        at = text.rfind(part, 0, last + len(part)) if last >= 0 else -1
        if at < 0:
            return 0
        last = at - 1
    return last + 2


def substring(text: Text, position: int) -> Text:
    return text[_start(text, position) :]


def substring_of_length(text: Text, position: int, length: int) -> Text:
    start = _start(text, position)
    return text[start : start + max(length, 0)]


def _start(text: str | bytes, position: int) -> int:
    return max(len(text) + position, 0) if position < 0 else max(position - 1, 0)


def lpad(text: Text, length: int, padding: Text) -> Text | None:
    fill = _filling(text, length, padding)
    return None if fill is None else fill + text[:length]


def rpad(text: Text, length: int, padding: Text) -> Text | None:
    fill = _filling(text, length, padding)
    return None if fill is None else text[:length] + fill


def _filling(text: Text, length: int, padding: Text) -> Text | None:
    if length < 0 or not padding:
        return None
    check_length(length)
    missing = max(length - len(text), 0)
    return (padding * (missing // len(padding) + 1))[:missing]


def split(text: str, delimiter: str) -> list[str]:
    check_items(text.count(delimiter))
    return text.split(delimiter) if delimiter else list(text) or [""]


def split_bytes(data: bytes, delimiter: bytes) -> list[bytes]:
    check_items(data.count(delimiter))
    return data.split(delimiter) if delimiter else [data[i : i + 1] for i in range(len(data))] or [b""]


def split_to_map(text: str, between_entries: str, in_entry: str) -> dict[str, str] | None:
    if not between_entries or not in_entry:
        return None
    check_items(text.count(between_entries))
    parts = (entry.split(in_entry) for entry in text.split(between_entries))
    return {pair[0]: pair[1] for pair in parts if len(pair) == 2}


FUNCTIONS = (
    Function(
        "INSTR",
        "The position of a substring, 0 if the string does not contain it; optionally from a position on, and of its "
        "nth occurrence. A negative position searches from there towards the beginning.",
        (
            Overload("(text: string, part: string) -> int", instr, NullRule.PASS),
            Overload("(text: string, part: string, position: int) -> int", instr, NullRule.PASS),
            Overload("(text: string, part: string, position: int, occurrence: int) -> int", instr, NullRule.PASS),
        ),
        ("INSTR('corporate floor', 'or', -4)", "5"),
        area=AREA,
    ),
    Function(
        "SUBSTRING",
        "The string or bytes from a position on, up to a length if one is given.",
        never_growing(
            Overload("(text: string, position: int) -> string", substring),
            Overload("(text: string, position: int, length: int) -> string", substring_of_length),
            Overload("(data: bytes, position: int) -> bytes", substring),
            Overload("(data: bytes, position: int, length: int) -> bytes", substring_of_length),
        ),
        ("SUBSTRING('stream', 2, 3)", "'tre'"),
        area=AREA,
    ),
    Function(
        "LPAD",
        "The string or bytes padded at the left to a length, or cut at the end. "
        "Null if the length is negative or the padding empty.",
        (
            Overload("(text: string, length: int, padding: string) -> string", lpad),
            Overload("(data: bytes, length: int, padding: bytes) -> bytes", lpad),
        ),
        ("LPAD('foo', 7, 'Bar')", "'BarBfoo'"),
        area=AREA,
    ),
    Function(
        "RPAD",
        "The string or bytes padded at the right to a length, or cut at the end. "
        "Null if the length is negative or the padding empty.",
        (
            Overload("(text: string, length: int, padding: string) -> string", rpad),
            Overload("(data: bytes, length: int, padding: bytes) -> bytes", rpad),
        ),
        ("RPAD('foo', 7, 'Bar')", "'fooBarB'"),
        area=AREA,
    ),
    Function(
        "SPLIT",
        "Splits a string at a delimiter; an empty delimiter splits it into characters.",
        (
            Overload("(text: string, delimiter: string) -> array<string>", split),
            Overload("(data: bytes, delimiter: bytes) -> array<bytes>", split_bytes),
        ),
        ("SPLIT('a,b', ',')", "ARRAY['a', 'b']"),
        area=AREA,
    ),
    Function(
        "SPLIT_TO_MAP",
        "Splits a string into the entries of a map, by a delimiter between entries and one between key and value.",
        (Overload("(text: string, between_entries: string, in_entry: string) -> map<string, string>", split_to_map),),
        ("SPLIT_TO_MAP('a:=1/b:=2', '/', ':=')", "MAP('a' := '1', 'b' := '2')"),
        area=AREA,
    ),
)
