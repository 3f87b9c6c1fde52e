"""Column values to what orjson writes, in one of two styles; decimals have all their digits in both.

`JAVA` is ksqlDB's, for the chain's values: doubles as Java writes them, dates and times as numbers. `LOSSLESS` is for
rows of typed topics: the shortest doubles, dates and times as ISO text; `strict` reads it back.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from functools import cache
from typing import Any

import orjson
import pyarrow as pa

from headrace.formats.column_types import kind_name
from headrace.formats.java_numbers import decimal_text, double_text
from headrace.formats.primitives import EPOCH, MS

Write = Callable[[Any], Any]


@dataclass(frozen=True)
class Style:
    leaves: Mapping[str, Write]
    map: Callable[[pa.DataType, Write | None], Write | None]
    """For a map's type and the function for its items."""


def writer(kind: pa.DataType, style: Style) -> Write | None:
    """A function for values that are not None; None where orjson writes the values unchanged."""
    if pa.types.is_list(kind):
        item = writer(kind.value_type, style)
        return item and (lambda value: [None if v is None else item(v) for v in value])
    if pa.types.is_map(kind):
        return style.map(kind, writer(kind.item_type, style))
    return _struct(kind, style) if pa.types.is_struct(kind) else style.leaves.get(kind_name(kind))


def _struct(kind: pa.DataType, style: Style) -> Write | None:
    fields = {f.name: writer(f.type, style) for f in kind}
    if not any(fields.values()):
        return None

    def write(value: dict[str, Any]) -> dict[str, Any]:
        get = value.get
        return {name: v if (v := get(name)) is None or inner is None else inner(v) for name, inner in fields.items()}

    return write


def row_writer(kinds: list[pa.DataType]) -> Callable[[Any], list[Any]] | None:
    """Like `writer`, for a row of the chain; columns that need no conversion are not touched."""
    writers = [(i, write) for i, kind in enumerate(kinds) if (write := writer(kind, JAVA)) is not None]
    if not writers:
        return None

    def encode(row: Any) -> list[Any]:
        cells = list(row)
        for i, write in writers:
            if cells[i] is not None:
                cells[i] = write(cells[i])
        return cells

    return encode


def dumps(value: Any) -> bytes:
    """JSON text as Java writes it: a lone surrogate, which is invalid in any text, becomes a question mark, and the
    null key of a map becomes the text "null". orjson refuses both; both are so rare that they are handled only then.
    """
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:
        return orjson.dumps(_encodable(value))


def _encodable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, list):
        return [_encodable(inner) for inner in value]
    if isinstance(value, dict):
        return {"null" if k is None else _encodable(k): _encodable(inner) for k, inner in value.items()}
    return value


def _decimal(value: Decimal) -> orjson.Fragment:
    return orjson.Fragment(decimal_text(value))


def _bytes(value: bytes) -> str:
    return base64.b64encode(value).decode()


# -- Java -----------------------------------------------------------------------------------------------------------


def _java_double(value: float) -> Any:
    size = abs(value)
    if 1e-3 <= size < 1e7 or size == 0:
        return value  # here orjson and Java agree
    text = double_text(value)
    return orjson.Fragment(text) if size < float("inf") else text  # JSON has no numbers for the others


def _java_map(kind: pa.DataType, item: Write | None) -> Write | None:
    return item and (lambda value: {k: None if v is None else item(v) for k, v in value.items()})


JAVA = Style({"double": _java_double, "decimal": _decimal, "bytes": _bytes}, _java_map)


# -- lossless -------------------------------------------------------------------------------------------------------

_NON_FINITE_NAMES = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def lossless_double(value: float) -> Any:
    """NaN and the infinities, for which JSON has no numbers, are text."""
    return _NON_FINITE_NAMES.get(repr(value), value)


def _iso(moment: Callable[[int], str]) -> Write:
    def convert(value: int) -> Any:
        try:
            return moment(value)
        except OverflowError:  # outside of the years 1 to 9999: written as a number
            return value

    return convert


def _pairs(kind: pa.DataType, item: Write | None) -> Write:
    key = to_text(kind.key_type)
    return lambda value: {key(k): v if v is None or item is None else item(v) for k, v in value}


LOSSLESS = Style(
    {
        "float": lossless_double,
        "double": lossless_double,
        "decimal": _decimal,
        "bytes": _bytes,
        "date": _iso(lambda days: (EPOCH.date() + timedelta(days=days)).isoformat()),
        "time": _iso(lambda ms: (EPOCH + ms * MS).time().isoformat("milliseconds")),
        "timestamp": _iso(lambda ms: (EPOCH + ms * MS).replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"),
    },
    _pairs,
)


@cache
def to_text(kind: pa.DataType) -> Callable[[Any], str]:
    """A function from the internal form to the text that `strict.from_text` reads; never called with None."""
    if pa.types.is_decimal(kind):
        return decimal_text
    convert = writer(kind, LOSSLESS)

    def write(value: Any) -> str:
        encoded = value if convert is None else convert(value)
        return encoded if isinstance(encoded, str) else orjson.dumps(encoded).decode()

    return write
