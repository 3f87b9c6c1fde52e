"""Decodes batches of JSON payloads to columns, with exactly the same result as one by one.

Arrow's reader does the work. A sample of the payloads shows how names are spelled and which kind of value each column
has; Arrow is told to expect exactly that, and rejects everything else. Payloads that Arrow would accept and headrace's
parser would not, or that it would interpret differently, are detected (see `lines` and `Leaf`). Rejected
payloads are tried again in smaller parts, so that one of them does not spoil many; the few that remain are left to the
row decoder, which also reports what is wrong with them. Maps and bytes are always left to it.

Names and values are read by the rules of `lenient` or of `strict`: the strict ones match names exactly, read numbers
from numbers only, and leave decimals to the row decoder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from headrace.formats.column_types import kind_name, nested_names, nested_types
from headrace.formats.contract import ColumnBatch, Mask
from headrace.formats.json.lenient import places
from headrace.formats.json.lines import BARE, PLAIN_NAME, Lines, lines_of
from headrace.formats.text_columns import parse_column_vectorized
from headrace.schema import Field

_MOST_BYTES = 32 << 20
_PARTS = 16
_FEW = 256
"""Setting Arrow's reader up takes as long as reading some hundred payloads one by one."""
_SPOILT = 4
"""After this many unreadable parts in a row, the remaining ones are not tried."""
_SAMPLES = 5

Part = tuple[int, list[pa.Array] | None]
"""A number of payloads, and their columns if they could be read as a batch."""


def can_read(columns: Sequence[Field], *, strict: bool = False) -> bool:
    """Whether columns with these names and types can be read as a batch."""
    return bool(columns) and _readable(pa.struct([pa.field(column.name, column.type) for column in columns]), strict)


def _readable(kind: pa.DataType, strict: bool) -> bool:
    if pa.types.is_struct(kind):
        distinct = strict or len({f.name.upper() for f in kind}) == kind.num_fields
        return distinct and all(_readable(f.type, strict) for f in kind)
    if pa.types.is_list(kind):
        return _readable(kind.value_type, strict)
    return kind_name(kind) in (_STRICT if strict else _LENIENT) and not pa.types.is_decimal256(kind)


class JsonColumnReader:
    """Reads payloads for columns that `can_read`; `bare`: a payload is the unwrapped value of the only column."""

    def __init__(self, columns: Sequence[Field], *, bare: bool, strict: bool = False) -> None:
        self._kinds = [column.type for column in columns]
        self._wanted = pa.struct([pa.field(BARE if bare else c.name, c.type) for c in columns])
        self._bare, self._strict = bare, strict
        self._leaves = _STRICT if strict else _LENIENT
        self._may_skip = not bare and (strict or all(map(PLAIN_NAME.fullmatch, nested_names(columns))))
        self._has_decimals = any(pa.types.is_decimal(kind) for c in columns for kind in nested_types(c.type))

    def read(self, payloads: pa.BinaryArray) -> ColumnBatch:
        """Where a payload is missing or was not read, the columns are null."""
        columns, read = self._columns(payloads)
        return ColumnBatch(columns, (columns[0] if self._bare else payloads).is_valid(), read)

    def _columns(self, payloads: pa.BinaryArray) -> tuple[list[pa.Array], Mask]:
        parts = list(self._parts(payloads.drop_null()))
        read = np.repeat([rows is not None for _, rows in parts], [count for count, _ in parts])
        columns = [
            pa.concat_arrays([pa.nulls(count, kind) if rows is None else rows[i] for count, rows in parts])
            for i, kind in enumerate(self._kinds)
        ]
        if not payloads.null_count:
            return columns, read
        present = payloads.is_valid().to_numpy(zero_copy_only=False)
        spread = pa.array(np.cumsum(present) - 1, mask=~present)
        every = np.ones(len(payloads), bool)
        every[present] = read
        return [column.take(spread) for column in columns], every

    def _parts(self, payloads: pa.BinaryArray) -> Iterator[Part]:
        rows = self._at_once(payloads) if payloads.nbytes <= _MOST_BYTES else None
        if rows is not None or len(payloads) <= _FEW:
            yield len(payloads), rows
            return
        size, spoilt = max(_FEW, -(-len(payloads) // _PARTS)), 0
        for at in range(0, len(payloads), size):
            if spoilt == _SPOILT:
                yield len(payloads) - at, None
                return
            parts = list(self._parts(payloads.slice(at, size)))
            spoilt = spoilt + 1 if all(rows is None for _, rows in parts) else 0
            yield from parts

    def _at_once(self, payloads: pa.BinaryArray) -> list[pa.Array] | None:
        """The columns if all payloads can be read with the same result as one by one."""
        lines = lines_of(payloads, bare=self._bare) if len(payloads) else None
        if lines is None or (self._has_decimals and lines.have_inexact_decimals):
            return None
        table = self._table(lines, self._requested(self._wanted, _samples(payloads, bare=self._bare)))
        if table is None or table.num_rows != len(payloads):
            return None
        try:
            return [
                self._typed(column.combine_chunks(), kind)
                for column, kind in zip(table.columns, self._kinds, strict=True)
            ]
        except (pa.ArrowInvalid, Unsure):
            return None

    def _table(self, lines: Lines, requested: RequestedColumn) -> pa.Table | None:
        """Arrow's result; unexpected fields are skipped only if there are any, and only where they cannot matter."""
        if not requested.more:
            table, skips = _read(lines.joined, requested.kind, "error")
            if table is not None or not skips:
                return table
        if not self._may_skip or lines.hide_no_json or not (self._strict or lines.names_are_plain):
            return None
        table, _ = _read(lines.joined, requested.kind, "ignore")
        if table is None or self._strict:
            return table
        return None if lines.respell(dict(_nulls(table, requested.kind))) else table

    # -- expected types ---------------------------------------------------------------------------------------------

    def _requested(self, kind: pa.DataType, samples: Sequence[Any]) -> RequestedColumn:
        if pa.types.is_struct(kind):
            return self._requested_struct(kind, [value for value in samples if isinstance(value, dict)])
        if pa.types.is_list(kind):
            item = self._requested(kind.value_type, [v for value in samples if isinstance(value, list) for v in value])
            return RequestedColumn(pa.list_(item.kind), item.more)
        leaf = self._leaves[kind_name(kind)]
        if leaf.as_text and any(isinstance(value, str) for value in samples):
            return RequestedColumn(pa.string())
        return RequestedColumn(leaf.requested or kind)

    def _requested_struct(self, kind: pa.DataType, samples: Sequence[dict[str, Any]]) -> RequestedColumn:
        present = list(dict.fromkeys(name for value in samples for name in value))
        names = [f.name for f in kind]
        matches = names if self._strict else places(present, names)
        spelled = [at or name for at, name in zip(matches, names, strict=True)]
        inner = [self._requested(f.type, [v.get(name) for v in samples]) for f, name in zip(kind, spelled, strict=True)]
        more = not set(spelled).issuperset(present) or any(requested.more for requested in inner)
        return RequestedColumn(
            pa.struct([pa.field(name, requested.kind) for name, requested in zip(spelled, inner, strict=True)]), more
        )

    # -- Arrow's results --------------------------------------------------------------------------------------------

    def _typed(self, array: pa.Array, kind: pa.DataType) -> pa.Array:
        """The values as a column of its type; raises Unsure, or ArrowInvalid where a number is too large."""
        nulls = array.is_null() if array.null_count else None
        if pa.types.is_struct(kind):
            parts = [self._typed(array.field(i), f.type) for i, f in enumerate(kind)]
            return pa.StructArray.from_arrays(parts, fields=list(kind), mask=nulls)
        if pa.types.is_list(kind):
            items = self._typed(array.values, kind.value_type)
            return pa.ListArray.from_arrays(array.offsets, items, kind, mask=nulls)
        if pa.types.is_string(array.type) and not pa.types.is_string(kind):
            array = parse_column_vectorized(array, kind)
            if array is None:
                raise Unsure
            return array
        return self._leaves[kind_name(kind)].typed(array, kind)


def _read(joined: bytes, kind: pa.DataType, unexpected: str) -> tuple[pa.Table | None, bool]:
    """The table, or whether there is something to skip."""
    options = pyarrow.json.ReadOptions(use_threads=False, block_size=len(joined) + 1)
    try:
        table = pyarrow.json.read_json(pa.BufferReader(joined), options, _parsing(kind, unexpected))
        return table.select([field.name for field in kind]), False
    except pa.ArrowInvalid as error:
        return None, "unexpected field" in str(error)


@lru_cache(256)
def _parsing(kind: pa.DataType, unexpected: str) -> pyarrow.json.ParseOptions:
    return pyarrow.json.ParseOptions(explicit_schema=pa.schema(list(kind)), unexpected_field_behavior=unexpected)


# -- expected types -------------------------------------------------------------------------------------------------


def _samples(payloads: pa.BinaryArray, *, bare: bool) -> list[Any]:
    """Some of the payloads, parsed; those that are not JSON are left out."""
    documents: list[Any] = []
    for at in np.unique(np.linspace(0, len(payloads) - 1, _SAMPLES).astype(int)).tolist():
        try:
            document = orjson.loads(payloads[at].as_py())
        except ValueError:
            continue
        documents.append({BARE: document} if bare else document)
    return documents


@dataclass(frozen=True)
class RequestedColumn:
    """The type to request from Arrow, with names as the samples spell them; whether there are `more` of them."""

    kind: pa.DataType
    more: bool = False


def _nulls(table: pa.Table, kind: pa.DataType) -> Iterator[tuple[str, bool]]:
    """Names of all fields, at any depth, and whether they may be missing somewhere."""
    for field in kind:
        for inner in nested_types(field.type):
            if pa.types.is_struct(inner):
                yield from ((nested.name, True) for nested in inner)
    for field in kind:
        yield field.name, table[field.name].null_count > 0


# -- Arrow's results ------------------------------------------------------------------------------------------------


class Unsure(Exception):
    """A value may not be what it looks like."""


def _same(array: pa.Array, kind: pa.DataType) -> pa.Array:
    return array


def _double(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """`-0` is a whole number, and so 0.0; Arrow reads it as -0.0, which only `-0.0` should give."""
    if pc.any(pc.equal(array.view(pa.int64()), -(1 << 63))).as_py():
        raise Unsure
    return _finite(array)


def _float(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Read as a double first, as a single value is; a number that is too large for a float would be infinite."""
    return _finite(_double(array, kind).cast(kind))


def _finite(array: pa.Array) -> pa.Array:
    if pc.all(pc.is_finite(array)).as_py() is False:
        raise Unsure
    return array


def _decimal(array: pa.Array, kind: pa.DataType) -> pa.Array:
    array.validate(full=True)  # the reader accepts more digits than the type has
    return array


def _date(array: pa.Array, kind: pa.DataType) -> pa.Array:
    return array.cast(pa.int32()).cast(kind)


def _time(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if pc.all(pc.and_(pc.greater_equal(array, 0), pc.less(array, 86_400_000))).as_py() is False:
        raise Unsure
    return array.cast(pa.int32()).cast(kind)


def _timestamp(array: pa.Array, kind: pa.DataType) -> pa.Array:
    return array.cast(kind)


@dataclass(frozen=True)
class Leaf:
    typed: Callable[[pa.Array, pa.DataType], pa.Array] = _same
    requested: pa.DataType | None = None
    """The type to request from Arrow, if it is not the type itself."""
    as_text: bool = False
    """Whether values may also be text."""


_LENIENT: Mapping[str, Leaf] = {
    "boolean": Leaf(),
    "int": Leaf(as_text=True),
    "bigint": Leaf(as_text=True),
    "double": Leaf(_double, as_text=True),
    "decimal": Leaf(_decimal),
    "string": Leaf(),
    "date": Leaf(_date, pa.int64(), as_text=True),
    "time": Leaf(_time, pa.int64()),
    "timestamp": Leaf(_timestamp, pa.int64(), as_text=True),
}
_STRICT: Mapping[str, Leaf] = {
    **{name: leaf for name, leaf in _LENIENT.items() if name not in ("int", "bigint", "double", "decimal")},
    "int": Leaf(),
    "bigint": Leaf(),
    "float": Leaf(_float, pa.float64()),
    "double": Leaf(_double),
}
