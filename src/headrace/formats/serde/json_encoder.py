"""The chain's values to what orjson writes: doubles in Java's form, decimals with all their digits."""

from __future__ import annotations

import base64
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import orjson
import pyarrow as pa

from headrace.formats.numbers import decimal_text, double_text
from headrace.formats.serde.column_checks import kind_name

Write = Callable[[Any], Any]


def writer(kind: pa.DataType) -> Write | None:
    """A function for values that are not None; None where orjson writes the values unchanged."""
    return _WRITERS.get(kind_name(kind), lambda kind: None)(kind)


def row_writer(kinds: list[pa.DataType]) -> Callable[[Any], list[Any]] | None:
    """The same for a row; columns that need no conversion are not touched."""
    writers = [(i, write) for i, kind in enumerate(kinds) if (write := writer(kind)) is not None]
    if not writers:
        return None

    def written(row: Any) -> list[Any]:
        cells = list(row)
        for i, write in writers:
            if cells[i] is not None:
                cells[i] = write(cells[i])
        return cells

    return written


def dumps(value: Any) -> bytes:
    """JSON text as Java writes it: a lone surrogate, which is invalid in any text, becomes a question mark, and the
    null key of a map becomes the text "null". orjson refuses both; both are so rare that they are handled only then.
    """
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:
        return orjson.dumps(_mended(value))


def _mended(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, list):
        return [_mended(inner) for inner in value]
    if isinstance(value, dict):
        return {"null" if k is None else _mended(k): _mended(inner) for k, inner in value.items()}
    return value


def _double(value: float) -> Any:
    size = abs(value)
    if 1e-3 <= size < 1e7 or size == 0:
        return value  # here orjson and Java agree
    text = double_text(value)
    return orjson.Fragment(text) if size < float("inf") else text  # JSON has no numbers for the others


def _decimal(value: Decimal) -> orjson.Fragment:
    return orjson.Fragment(decimal_text(value))


def _bytes(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _array(kind: pa.DataType) -> Write | None:
    item = writer(kind.value_type)
    return item and (lambda value: [None if v is None else item(v) for v in value])


def _map(kind: pa.DataType) -> Write | None:
    item = writer(kind.item_type)
    return item and (lambda value: {k: None if v is None else item(v) for k, v in value.items()})


def _struct(kind: pa.DataType) -> Write | None:
    fields = {f.name: writer(f.type) for f in kind}
    if not any(fields.values()):
        return None

    def write(value: dict[str, Any]) -> dict[str, Any]:
        found = value.get
        return {name: v if (v := found(name)) is None or inner is None else inner(v) for name, inner in fields.items()}

    return write


_WRITERS: dict[str, Callable[[pa.DataType], Write | None]] = {
    "double": lambda kind: _double,
    "decimal": lambda kind: _decimal,
    "bytes": lambda kind: _bytes,
    "array": _array,
    "map": _map,
    "struct": _struct,
}
