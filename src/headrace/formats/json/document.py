"""Parses JSON documents from bytes: strict, bounded in depth, and exact on request."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import orjson

DEPTH = 256
"""Documents nested deeper than this are refused."""


class JsonObject(dict[str, Any]):
    """A JSON object that records which of its names occurred more than once."""

    twice: frozenset[str] = frozenset()


def parse_json(payload: bytes) -> Any:
    """Fast; repeated names are lost and numbers with a fraction are floats. Raises ValueError."""
    value = orjson.loads(payload)
    if max_depth(payload) > DEPTH and _depth(value) > DEPTH:
        raise ValueError(f"nested deeper than {DEPTH}")
    return value


def parse_json_exactly(payload: bytes) -> Any:
    """Keeps every digit, as Decimal, and repeated names, as `JsonObject.twice`. Raises ValueError."""
    parse_json(payload)  # the strict parser decides what valid JSON is: Python's accepts NaN and lone surrogates
    return json.loads(payload, object_pairs_hook=_object, parse_float=Decimal)


def max_depth(payload: bytes) -> int:
    """An upper bound of the document's nesting depth."""
    return payload.count(b"[") + payload.count(b"{")


def _object(pairs: list[tuple[str, Any]]) -> JsonObject:
    document = JsonObject(pairs)
    if len(document) < len(pairs):
        names = [name for name, _ in pairs]
        document.twice = frozenset(name for name in names if names.count(name) > 1)
    return document


def _depth(value: Any) -> int:
    level, depth = [value], 0
    while level := [v for v in level if isinstance(v, list | dict)]:
        depth += 1
        level = [inner for v in level for inner in (v.values() if isinstance(v, dict) else v)]
    return depth
