"""Key utilities: null keys, hashable store keys, and the byte order of Kafka Streams' sorted stores.

Kafka Streams stores rows waiting for a join sorted by the bytes of the key, and emits them in that order. So the order
is that of the source's key format: big-endian numbers with KAFKA, text with JSON and DELIMITED. Formats whose bytes are
not known here (AVRO, PROTOBUF) are ordered as KAFKA.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Hashable
from typing import Any

import orjson

from headrace.plan.nodes import Node, Source, walk
from headrace.plan.steps import Key

Order = Callable[[Key], bytes]


def is_null(key: Key | None) -> bool:
    """Whether a key is null and so joins nothing. A key of several columns is never null, whatever they contain."""
    return key is None or key == (None,)


def hashable(key: Key) -> Hashable:
    """Returns the key itself if it is hashable; otherwise with tuples in place of lists and maps."""
    try:
        hash(key)
    except TypeError:
        return _frozen(key)
    return key


def _frozen(value: Any) -> Hashable:
    if isinstance(value, dict):
        return tuple((name, _frozen(item)) for name, item in sorted(value.items(), key=str))
    return tuple(map(_frozen, value)) if isinstance(value, list | tuple) else value


def order_of(node: Node) -> Order:
    """Returns the sort order of the node's output keys: by the key format of its first source."""
    source = next((below for below in walk(node) if isinstance(below, Source)), None)
    return _ORDERS.get(source.key_format.name.upper(), _binary) if source else _binary


def _binary(key: Key) -> bytes:
    return b"".join(map(_bytes, key))


def _bytes(value: Any) -> bytes:
    if isinstance(value, int):
        return (value & 0xFFFF_FFFF_FFFF_FFFF).to_bytes(8)  # two's complement: negative ones come last
    if isinstance(value, float):
        return struct.pack(">d", value)
    if isinstance(value, str):
        return value.encode()
    return value if isinstance(value, bytes) else _json(value)


def _json(value: Any) -> bytes:
    return orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS)


def _json_key(key: Key) -> bytes:
    return _json(key[0] if len(key) == 1 else key)


def _delimited(key: Key) -> bytes:
    return ",".join("" if value is None else str(value) for value in key).encode()


_ORDERS: dict[str, Order] = {"JSON": _json_key, "JSON_SR": _json_key, "DELIMITED": _delimited}
