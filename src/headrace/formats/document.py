"""A JSON document from bytes: strict, bounded in depth, and exact where that is asked for."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import orjson

DEPTH = 256
"""Documents nested deeper than this are refused."""


class Object(dict[str, Any]):
    """A JSON object that remembers which of its names came more than once."""

    twice: frozenset[str] = frozenset()


def parse(payload: bytes) -> Any:
    """Fast; repeated names are lost and numbers with a fraction are floats. Raises ValueError."""
    value = orjson.loads(payload)
    if openings(payload) > DEPTH and _depth(value) > DEPTH:
        raise ValueError(f"nested deeper than {DEPTH}")
    return value


def parse_exactly(payload: bytes) -> Any:
    """Keeps every digit, as Decimal, and repeated names, as `Object.twice`. Raises ValueError."""
    parse(payload)  # the strict one decides what JSON is: Python's own takes NaN and lone surrogates
    return json.loads(payload, object_pairs_hook=_object, parse_float=Decimal)


def openings(payload: bytes) -> int:
    """No document is nested deeper than this."""
    return payload.count(b"[") + payload.count(b"{")


def _object(pairs: list[tuple[str, Any]]) -> Object:
    found = Object(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        found.twice = frozenset(name for name in names if names.count(name) > 1)
    return found


def _depth(value: Any) -> int:
    level, depth = [value], 0
    while level := [v for v in level if isinstance(v, list | dict)]:
        depth += 1
        level = [inner for v in level for inner in (v.values() if isinstance(v, dict) else v)]
    return depth
