"""Encodes result columns as the payloads of a raw topic, all at once: byte for byte what the sink's encoder writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.formats.column_types import kind_name
from headrace.formats.contract import ColumnWriter
from headrace.plan import types as ty
from headrace.plan.chain.records import payload_format
from headrace.plan.nodes import Sink
from headrace.plan.relations import Format, WindowKind
from headrace.schema import Field

MIN_COLUMNAR_ROWS = 64
"""Below this number of rows, encoding one by one is faster."""


class PayloadEncoder:
    """Encodes for sinks whose formats write columns; see `payload_encoder`."""

    def __init__(self, key: ColumnWriter | None, value: ColumnWriter) -> None:
        self._key, self._value = key, value

    def values(self, columns: Sequence[pa.Array], valued: pa.BooleanArray) -> pa.BinaryArray:
        return self._value.write(columns, valued)

    def keys(
        self, columns: Sequence[pa.Array], keyed: pa.BooleanArray, starts: pa.Int64Array | None = None
    ) -> pa.BinaryArray:
        """`starts` are the starts of the keys' windows, if they have any."""
        if self._key is None:
            return pa.nulls(len(keyed), pa.binary())
        keys = self._key.write(columns, keyed)
        return keys if starts is None else _windowed(keys, starts, keyed)


def payload_encoder(sink: Sink) -> PayloadEncoder | None:
    """None if the sink's records must be encoded one by one."""
    relation = sink.relation
    if sink.timestamp is not None or (relation.window is not None and relation.window.kind is WindowKind.SESSION):
        return None
    key = _writer(sink.key_format, relation.key, is_key=True) if relation.key else None
    value = _writer(sink.value_format, relation.value, is_key=False)
    return None if value is None or (relation.key and key is None) else PayloadEncoder(key, value)


def _writer(form: Format, columns: tuple[Field, ...], *, is_key: bool) -> ColumnWriter | None:
    return payload_format(form).column_writer(columns, is_key=is_key, wrapped=form.option("wrapped", True))


def _windowed(keys: pa.BinaryArray, starts: pa.Int64Array, keyed: pa.BooleanArray) -> pa.BinaryArray:
    """A key's bytes, then its window's start; a key without bytes has the start alone."""
    numbers = pc.fill_null(starts, 0).to_numpy().astype(">i8")
    bounds = pa.Array.from_buffers(pa.binary(8), len(numbers), [None, pa.py_buffer(np.ascontiguousarray(numbers))])
    joined = pc.binary_join_element_wise(pc.fill_null(keys, b""), bounds.cast(pa.binary()), pa.scalar(b""))
    return pc.if_else(keyed, joined, pa.scalar(None, pa.binary())) if keyed.false_count else joined


class EntryEncoder:
    """Encodes entries of the chain as rows of a raw topic, all at once."""

    def __init__(self, sink: Sink, encoder: PayloadEncoder) -> None:
        self._encoder = encoder
        self._windowed = sink.relation.window is not None
        self._kinds = [[field.type for field in fields] for fields in (sink.relation.key, sink.relation.value)]
        self._nothing = [(None,) * len(kinds) for kinds in self._kinds]

    def rows(self, entries: Sequence[Any]) -> list[pa.Array] | None:
        """Keys, values and times; None if an entry must not be written, or has no exact form in columns."""
        times = [entry[0] for entry in entries]
        if min(times) < 0:
            return None
        no_key, no_row = self._nothing
        keys = self._columns([entry[1] or no_key for entry in entries], self._kinds[0])
        rows = self._columns([no_row if entry[2] is None else entry[2] for entry in entries], self._kinds[1])
        if keys is None or rows is None:
            return None
        keyed, valued = (pa.array([entry[at] is not None for entry in entries]) for at in (1, 2))
        starts = pa.array([entry[1] and entry[1][-1][0] for entry in entries], pa.int64()) if self._windowed else None
        return [
            self._encoder.keys(keys, keyed, starts),
            self._encoder.values(rows, valued),
            pa.array(times, pa.int64()),
        ]

    def _columns(self, rows: list[Any], kinds: list[pa.DataType]) -> list[pa.Array] | None:
        try:
            return [_column([row[i] for row in rows], kind) for i, kind in enumerate(kinds)]
        except (ValueError, TypeError, ArithmeticError):  # half a surrogate pair, for example
            return None


def _column(values: list[Any], kind: pa.DataType) -> pa.Array:
    """A column of values that are exactly of its type: in a column of doubles 1 would be written as 1, not as 1.0."""
    if not _TYPES[kind_name(kind)].issuperset(map(type, values)):
        raise TypeError
    if pa.types.is_decimal(kind) and any(v is not None and v.as_tuple().exponent != -kind.scale for v in values):
        raise TypeError
    return pa.array(values, _NUMBERS.get(kind, kind))


_NUMBERS = {ty.DATE: pa.int32(), ty.TIME: pa.int32(), ty.TIMESTAMP: pa.int64()}
_WHOLE = frozenset({int, type(None)})
_TYPES: Mapping[str, frozenset[type]] = {
    **dict.fromkeys(("int", "bigint", "date", "time", "timestamp"), _WHOLE),
    "boolean": frozenset({bool, type(None)}),
    "double": frozenset({float, type(None)}),
    "string": frozenset({str, type(None)}),
    "bytes": frozenset({bytes, type(None)}),
    "decimal": frozenset({Decimal, type(None)}),
}


def entry_encoder(sink: Sink) -> EntryEncoder | None:
    """None if the sink's records must be encoded one by one."""
    encoder = payload_encoder(sink)
    return None if encoder is None else EntryEncoder(sink, encoder)
