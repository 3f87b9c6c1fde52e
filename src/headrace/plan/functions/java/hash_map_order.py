"""The iteration order of Java's HashMap, which functions over maps expose and REDUCE depends on."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, TypeVar

from headrace.plan.limits import MAX_CACHED_TEXT

V = TypeVar("V")


def entries_in_hash_order(values: Mapping[Any, V]) -> list[tuple[Any, V]]:
    """Returns the entries by their slot in the smallest sufficient table; those of one slot in insertion order."""
    size = len(values)
    if size < 2:
        return list(values.items())
    slots = 1 << (size - 1).bit_length()
    if size > slots * 0.75:  # the table doubles when three quarters are full
        slots *= 2
    return sorted(values.items(), key=lambda entry: _kept_spread(entry[0]) & (slots - 1))


def _kept_spread(key: Any) -> int:
    return _spread(key) if isinstance(key, str) and len(key) > MAX_CACHED_TEXT else _short_spread(key)


def _spread(key: Any) -> int:
    code = _hash(key) & 0xFFFF_FFFF
    return code ^ (code >> 16)


_short_spread = lru_cache(maxsize=65_536, typed=True)(_spread)


def _hash(key: Any) -> int:
    """Returns `hashCode` of the Java object for a key."""
    if isinstance(key, str):
        return _text_hash(key)
    if isinstance(key, bool):
        return 1231 if key else 1237
    if isinstance(key, float):
        key = struct.unpack(">q", struct.pack(">d", key))[0]
    if isinstance(key, int):
        # As an Integer where it fits; a negative Long would fold to its complement, but the type is not known here.
        return key if -(1 << 31) <= key < 1 << 31 else key ^ (key & (1 << 64) - 1) >> 32
    return 0


def _text_hash(text: str) -> int:
    code = 0
    for (unit,) in struct.iter_unpack("<H", text.encode("utf-16-le", "surrogatepass")):
        code = (31 * code + unit) & 0xFFFF_FFFF
    return code
