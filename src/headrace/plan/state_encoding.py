"""Encodes state to bytes and back, with exactly the same values.

A state consists of plain values: None, booleans, integers of any size, floats, text, bytes, decimals, and tuples, lists
and mappings of those. Types are preserved, a tuple as a tuple and a list as a list, since steps change lists in place
and look entries up by tuples.

The first byte names the encoding, four more hold a checksum over it and what follows. PLAIN is Python's own `marshal`,
version 2, whose form has been stable since 2005: every Python can still write and read it (a golden test checks that).
It runs at the speed of C, which matters, as every entry of every touched bucket is encoded in every batch. It does not
support decimals; a state that has some is TAGGED: the same, with each decimal, and each tuple that could be mistaken
for one, wrapped. Larger states are compressed with LZ4, preceded by their length: moving a byte to Spark's store and
storing it costs more than compressing it. Data of a later version, and damaged data, is rejected, never guessed at:
`marshal` must only read what it wrote.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any
from zlib import crc32

import pyarrow as pa

from headrace.errors import StateUnreadable

_MARSHAL = 2
_PLAIN = 1
_TAGGED = 2
_PACKED = {_PLAIN: 3, _TAGGED: 4}
_UNPACKED = {packed: tag for tag, packed in _PACKED.items()}
_HEADER = 5
_LENGTH = 4
_WORTH = range(256, 1 << 30)
"""Sizes in bytes that are compressed: below it saves little, above is LZ4's limit."""

_LZ4 = pa.Codec("lz4_raw")
_DECIMAL = "\x00decimal"
_TUPLE = "\x00tuple"


def encode(value: Any) -> bytes:
    tag = _PLAIN
    try:
        body = marshal.dumps(value, _MARSHAL)
    except ValueError:
        tag = _TAGGED
        body = marshal.dumps(_tagged(value), _MARSHAL)
    if len(body) in _WORTH:
        packed = len(body).to_bytes(_LENGTH, "big") + _LZ4.compress(body, asbytes=True)
        tag, body = (_PACKED[tag], packed) if len(packed) < len(body) else (tag, body)
    return bytes((tag,)) + crc32(body, tag).to_bytes(4, "big") + body


def decode(data: bytes, where: str | None = None) -> Any:
    """Decodes a value; `where` appears in the error if it cannot be decoded."""
    body = memoryview(data)[_HEADER:]
    finish = _FINISH.get(data[0]) if data else None
    if finish is None:
        raise _unknown(data, where)
    if not body or crc32(body, data[0]) != int.from_bytes(data[1:_HEADER], "big"):
        raise StateUnreadable(
            f"state of {len(data):,} bytes is damaged: its checksum does not match", where=where, fix=_ANEW
        )
    if data[0] in _UNPACKED:
        body = _LZ4.decompress(body[_LENGTH:], int.from_bytes(body[:_LENGTH], "big"))
    return finish(marshal.loads(body))


def unpacked_size(data: bytes) -> int:
    """Returns the uncompressed size, a measure of the memory and time that the value takes."""
    return int.from_bytes(data[_HEADER : _HEADER + _LENGTH], "big") if data[0] in _UNPACKED else len(data)


def _unknown(data: bytes, where: str | None) -> StateUnreadable:
    supported = ", ".join(f"{tag:02x}" for tag in _FINISH)
    actual = f"encoding {data[0]:02x}" if data else "no bytes"
    return StateUnreadable(
        f"state in {actual}, but this version supports {supported}",
        where=where,
        fix="run the version that wrote it, or restart the query from scratch",
    )


def _tagged(value: Any) -> Any:
    if isinstance(value, Decimal):
        return (_DECIMAL, str(value))
    if isinstance(value, tuple):
        items = tuple(map(_tagged, value))
        # Only a tuple's own first item can make it look like a tag; a wrapped first item is a tuple itself.
        return (_TUPLE, items) if items and items[0] in (_DECIMAL, _TUPLE) else items
    if isinstance(value, list):
        return list(map(_tagged, value))
    if isinstance(value, dict):
        return {_tagged(key): _tagged(item) for key, item in value.items()}
    return value


def _untagged(value: Any) -> Any:
    if isinstance(value, tuple):
        if value and value[0] == _DECIMAL:
            return Decimal(value[1])
        return tuple(map(_untagged, value[1] if value and value[0] == _TUPLE else value))
    if isinstance(value, list):
        return list(map(_untagged, value))
    if isinstance(value, dict):
        return {_untagged(key): _untagged(item) for key, item in value.items()}
    return value


_ANEW = "restore the checkpoint from a backup, or restart the query from scratch"
_FINISH: Mapping[int, Callable[[Any], Any]] = {
    _PLAIN: lambda value: value,
    _TAGGED: _untagged,
    _PACKED[_PLAIN]: lambda value: value,
    _PACKED[_TAGGED]: _untagged,
}
