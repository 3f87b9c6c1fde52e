"""Conversions of bytes from and to text and numbers: hex, utf8, ascii, base64, and big or little endian numbers."""

from __future__ import annotations

import base64
import re
import struct
import uuid
from collections.abc import Callable
from hashlib import md5

from headrace.plan.functions.declaration import Function, Overload, never_growing
from headrace.plan.functions.replay_context import random_bytes

AREA = "bytes"


def _utf8(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _ascii(data: bytes) -> str:
    return data.decode("ascii", "replace")


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _from_base64(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)


def _from_hex(text: str) -> bytes:
    if not re.fullmatch(r"(?:[0-9A-Fa-f]{2})*", text):
        raise ValueError("not an even number of hexadecimal digits")
    return bytes.fromhex(text)


def _from_any_hex(text: str) -> bytes:
    """Also accepts `0x4A` and `X'4A'`; only after `0x` may the number of digits be odd."""
    if text.startswith("0x"):
        return _from_hex(text[2:].rjust(len(text[2:]) + len(text) % 2, "0"))
    quoted = re.fullmatch(r"[xX]'(.*)'", text)
    return _from_hex(quoted.group(1) if quoted else text)


_READERS: dict[str, Callable[[str], bytes]] = {
    "hex": _from_hex,
    "utf8": lambda text: text.encode("utf-8", "replace"),
    "ascii": lambda text: text.encode("ascii", "replace"),
    "base64": _from_base64,
}
_WRITERS: dict[str, Callable[[bytes], str]] = {
    "hex": lambda data: data.hex().upper(),
    "utf8": _utf8,
    "ascii": _ascii,
    "base64": _base64,
}
# ENCODE and FROM_BYTES differ in the case of hexadecimal digits, and in what they accept as one.
_ENCODE_READERS = {**_READERS, "hex": _from_any_hex}
_ENCODE_WRITERS: dict[str, Callable[[bytes], str]] = {**_WRITERS, "hex": bytes.hex}


def _known(encoding: str) -> str:
    if encoding.lower() not in _READERS:
        raise ValueError(f"encoding '{encoding}' is not one of {', '.join(_READERS)}")
    return encoding.lower()


def encode(text: str, source: str, target: str) -> str:
    return _ENCODE_WRITERS[_known(target)](_ENCODE_READERS[_known(source)](text))


def to_bytes(text: str, encoding: str) -> bytes:
    return _READERS[_known(encoding)](text)


def from_bytes(data: bytes, encoding: str) -> str:
    return _WRITERS[_known(encoding)](data)


_ORDERS = {"BIG_ENDIAN": ">", "LITTLE_ENDIAN": "<"}


def _unpacker(letter: str) -> Callable[..., int | float]:
    size = struct.calcsize(f">{letter}")

    def unpack(data: bytes, order: str = "BIG_ENDIAN") -> int | float:
        if order not in _ORDERS:
            raise ValueError(f"byte order '{order}' is neither of {', '.join(_ORDERS)}")
        if len(data) != size:
            raise ValueError(f"{size} bytes are needed, not {len(data)}")
        return struct.unpack(_ORDERS[order] + letter, data)[0]

    return unpack


def new_uuid() -> str:
    return str(uuid.UUID(bytes=random_bytes(), version=4))


def uuid_of(data: bytes) -> str | None:
    return str(uuid.UUID(bytes=data)) if len(data) == 16 else None


def _number(name: str, kind: str, letter: str, example: tuple[str, str]) -> Function:
    unpack = _unpacker(letter)
    return Function(
        name,
        f"Reads bytes as a {kind}; the byte order is BIG_ENDIAN by default, or LITTLE_ENDIAN.",
        (
            Overload(f"(data: bytes) -> {kind}", unpack),
            Overload(f"(data: bytes, order: string) -> {kind}", unpack),
        ),
        example,
        area=AREA,
    )


FUNCTIONS = (
    Function(
        "ENCODE",
        "Converts a string from one encoding to another: hex, utf8, ascii or base64.",
        (Overload("(text: string, source: string, target: string) -> string", encode),),
        ("ENCODE('1 + 1 = 1', 'ascii', 'hex')", "'31202b2031203d2031'"),
        area=AREA,
    ),
    Function(
        "TO_BYTES",
        "Decodes a string to bytes; the encoding is hex, utf8, ascii or base64.",
        (Overload("(text: string, encoding: string) -> bytes", to_bytes),),
        ("FROM_BYTES(TO_BYTES('a', 'utf8'), 'hex')", "'61'"),
        area=AREA,
    ),
    Function(
        "FROM_BYTES",
        "Encodes bytes as a string, in hex, utf8, ascii or base64.",
        (Overload("(data: bytes, encoding: string) -> string", from_bytes),),
        ("FROM_BYTES(TO_BYTES('abc', 'utf8'), 'base64')", "'YWJj'"),
        area=AREA,
    ),
    _number("INT_FROM_BYTES", "int", "i", ("INT_FROM_BYTES(TO_BYTES('0000002A', 'hex'))", "42")),
    _number("BIGINT_FROM_BYTES", "bigint", "q", ("BIGINT_FROM_BYTES(TO_BYTES('000000000000002A', 'hex'))", "42")),
    _number("DOUBLE_FROM_BYTES", "double", "d", ("DOUBLE_FROM_BYTES(TO_BYTES('3FF8000000000000', 'hex'))", "1.5")),
    Function(
        "MD5",
        "The MD5 digest of a string's UTF-8 bytes, in hex.",
        never_growing(
            Overload("(text: string) -> string", lambda text: md5(text.encode()).hexdigest(), spark="md5({0})")
        ),
        ("MD5('r1')", "'7c92cf1eee8d99cc85f8355a3d6e4b86'"),
        area=AREA,
    ),
    Function(
        "UUID",
        "A random UUID, or the UUID of 16 bytes.",
        never_growing(
            Overload("() -> string", new_uuid),
            Overload("(data: bytes) -> string", uuid_of),
        ),
        ("UUID(TO_BYTES('00112233445566778899AABBCCDDEEFF', 'hex'))", "'00112233-4455-6677-8899-aabbccddeeff'"),
        area=AREA,
        repeatable=False,
    ),
)
