"""Encodes columns as JSON payloads in batches: byte for byte what `JsonSerde` writes for each row.

Columns hold the chain's values: dates and times are numbers. Values that Arrow would write differently (a double with
an exponent, a text with quotes in it) are written one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from headrace.formats.column_types import kind_name
from headrace.formats.json.encoder import JAVA, dumps, writer
from headrace.schema import Field

_ESCAPED = r'["\\\x00-\x1f]'


def can_write(columns: Sequence[Field]) -> bool:
    """Whether columns of these types can be written as a batch."""
    return bool(columns) and all(kind_name(column.type) in _TEXTS for column in columns)


class JsonColumnWriter:
    """Writes rows of columns that `can_write`; `bare`: the value of the only column is the payload."""

    def __init__(self, columns: Sequence[Field], *, bare: bool) -> None:
        self._kinds = [column.type for column in columns]
        self._bare = bare
        names = [orjson.dumps(column.name).decode() for column in columns]
        self._before = [f"{',' if i else '{'}{name}:" for i, name in enumerate(names)]

    def write(self, columns: Sequence[pa.Array], present: pa.BooleanArray) -> pa.BinaryArray:
        """Payloads; null where there is no row, or the unwrapped value is null."""
        texts = [_text(column, kind) for column, kind in zip(columns, self._kinds, strict=True)]
        if self._bare:
            return pc.if_else(pc.and_(present, columns[0].is_valid()), texts[0], None).cast(pa.binary())
        parts = [part for pair in zip(self._before, texts, strict=True) for part in pair]
        rows = pc.binary_join_element_wise(*parts, "}", "")
        return (pc.if_else(present, rows, None) if present.false_count else rows).cast(pa.binary())


def _text(column: pa.Array, kind: pa.DataType) -> pa.StringArray:
    """Each value as JSON."""
    texts = _TEXTS[kind_name(kind)](column, kind)
    return pc.fill_null(texts, "null") if column.null_count else texts


def _boolean(column: pa.Array, kind: pa.DataType) -> pa.StringArray:
    return pc.if_else(column, "true", "false")


def _number(column: pa.Array, kind: pa.DataType) -> pa.StringArray:
    return column.cast(pa.string())


def _double(column: pa.Array, kind: pa.DataType) -> pa.StringArray:
    size = pc.abs(column)
    plain = pc.or_(pc.and_(pc.greater_equal(size, 1e-3), pc.less(size, 1e7)), pc.equal(size, 0.0))
    texts = column.cast(pa.string())
    texts = pc.if_else(pc.match_substring(texts, "."), texts, pc.binary_join_element_wise(texts, ".0", ""))
    return _with_exact_decimals(texts, pc.invert(plain), column, kind)


def _decimal(column: pa.Array, kind: pa.DataType) -> pa.StringArray:
    texts = column.cast(pa.string())
    return _with_exact_decimals(texts, pc.match_substring(texts, "E"), column, kind)


def _string(column: pa.Array, kind: pa.DataType) -> pa.StringArray:
    quoted = pc.binary_join_element_wise('"', column, '"', "")
    return _with_exact_decimals(quoted, pc.match_substring_regex(column, _ESCAPED), column, kind)


def _with_exact_decimals(
    texts: pa.StringArray, odd: pa.BooleanArray, column: pa.Array, kind: pa.DataType
) -> pa.StringArray:
    """The texts, with those of odd values written one by one."""
    mask = pc.fill_null(odd, False)
    if not mask.true_count:
        return texts
    write: Callable[[Any], Any] = writer(kind, JAVA) or (lambda value: value)
    values = column.filter(mask).to_pylist()
    return pc.replace_with_mask(texts, mask, pa.array([dumps(write(value)).decode() for value in values], pa.string()))


_TEXTS: Mapping[str, Callable[[pa.Array, pa.DataType], pa.StringArray]] = {
    "boolean": _boolean,
    "int": _number,
    "bigint": _number,
    "double": _double,
    "decimal": _decimal,
    "string": _string,
    "date": _number,
    "time": _number,
    "timestamp": _number,
}
