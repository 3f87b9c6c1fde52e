"""Parses columns of text to typed columns: vectorized where the text is plain, else value by value.

An Arrow kernel is used only for text on which it gives the same result as `strict.from_text`.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from headrace.formats.json.strict import from_text
from headrace.formats.primitives import Mismatch
from headrace.formats.values import column_of
from headrace.schema import PRIMITIVES

_WHOLE = r"^-?[0-9]{1,18}$"
_REAL = r"^-?[0-9]{1,30}(\.[0-9]{1,30})?$"
_DAY = r"[1-9][0-9]{3}-[0-9]{2}-[0-9]{2}"
_PLAIN_TEXT: dict[pa.DataType, str] = {
    PRIMITIVES["boolean"]: "^(true|false)$",
    PRIMITIVES["int"]: _WHOLE,
    PRIMITIVES["bigint"]: _WHOLE,
    PRIMITIVES["double"]: _REAL,
    PRIMITIVES["date"]: f"^{_DAY}$",
    PRIMITIVES["timestamp"]: f"^{_DAY}T[0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}(\\.[0-9]{{3}})?Z$",
}


def parse_column(texts: pa.StringArray, kind: pa.DataType) -> tuple[pa.Array, dict[int, Mismatch]]:
    """The column, null where a text does not fit, and the reasons."""
    column = parse_column_vectorized(texts, kind)
    return (column, {}) if column is not None else _one_by_one(texts, kind)


def parse_column_vectorized(texts: pa.StringArray, kind: pa.DataType) -> pa.Array | None:
    """The column if every text is plain, else None."""
    if pa.types.is_string(kind):
        return texts
    shape = _PLAIN_TEXT.get(kind)
    if shape is None or pc.all(pc.match_substring_regex(texts, shape)).as_py() is False:
        return None
    try:
        return texts.cast(kind)
    except pa.ArrowInvalid:
        return None


def _one_by_one(texts: pa.StringArray, kind: pa.DataType) -> tuple[pa.Array, dict[int, Mismatch]]:
    convert = from_text(kind)
    values: list[object] = []
    bad: dict[int, Mismatch] = {}
    for i, text in enumerate(texts.to_pylist()):
        try:
            values.append(None if text is None else convert(text))
        except Mismatch as error:
            values.append(None)
            bad[i] = error
    return column_of(values, kind), bad
