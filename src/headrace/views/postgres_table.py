"""The SQL of a view in PostgreSQL, and the encoding of its values. It never contains names or values from users.

| type | stored as |
|---|---|
| INT, BIGINT, DATE, TIME, TIMESTAMP | BIGINT |
| BOOLEAN, DOUBLE, BYTES | BOOLEAN, DOUBLE PRECISION, BYTEA |
| STRING | TEXT in code point order; the characters 0, which cannot be stored, and 1 are escaped as pairs |
| DECIMAL | NUMERIC with its scale |
| ARRAY, MAP, STRUCT | BYTEA, bytes of `plan.state_encoding` |

A row is found by a digest of its key: index entries are limited in size, keys are not. For the same reason other
indexes cover only prefixes of texts and bytes, and conditions bound these prefixes too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from hashlib import sha256
from typing import Any

import pyarrow as pa

from headrace.plan import types as ty
from headrace.plan.analysis.lookup import Bound, Selection
from headrace.plan.expressions import Compare
from headrace.plan.scalar_operations import EXACT
from headrace.plan.state_encoding import decode, encode
from headrace.views.column_encoding import ColumnCodec, NotSearchable, ValueCodec
from headrace.views.sqlite_table import SqliteTable

TEXT = 'TEXT COLLATE "C"'
_BEGINNING = {TEXT: 150, "BYTEA": 600}
"""Characters and bytes of a value's indexed prefix. Four such values always fit in an entry, which has 2,700 bytes."""
_MOST_WIDE, _MOST_INDEXED = 4, 16

_WHOLE = (ty.INT, ty.BIGINT, ty.DATE, ty.TIME, ty.TIMESTAMP)
_TYPES = dict.fromkeys(_WHOLE, "BIGINT") | {
    ty.BOOLEAN: "BOOLEAN",
    ty.DOUBLE: "DOUBLE PRECISION",
    ty.STRING: TEXT,
    ty.BYTES: "BYTEA",
}


def sql_type(kind: pa.DataType) -> str:
    if ty.is_decimal(kind):
        return f"NUMERIC(1000, {kind.scale})"
    return _TYPES.get(kind, "BYTEA")


def codec_of(kind: pa.DataType) -> ValueCodec:
    """Converts to the text that PostgreSQL parses as the value, and back from what the driver returns."""
    if kind == ty.STRING:
        return ValueCodec(_escaped, _unescaped)
    if ty.is_decimal(kind):
        return ValueCodec(lambda value: f"{int(EXACT.scaleb(value, kind.scale))}E-{kind.scale}")
    if ty.is_nested(kind):
        return ValueCodec(lambda value: _bytes(encode(value)), decode)
    return ValueCodec(_bytes) if kind == ty.BYTES else ValueCodec(str)


def _bytes(value: bytes) -> str:
    return f"\\x{value.hex()}"


def _escaped(text: str) -> str:
    """Escapes the character 0 and keeps the order."""
    if "\x00" in text or "\x01" in text:
        return text.replace("\x01", "\x01\x02").replace("\x00", "\x01\x01")
    return text


def _unescaped(text: str) -> str:
    return text.replace("\x01\x01", "\x00").replace("\x01\x02", "\x01") if "\x01" in text else text


def array_literal(sql: str, texts: Iterable[str | None]) -> str:
    """Values as one array literal, so that many are bound at once."""
    if sql in _BEGINNING:
        texts = (None if text is None else '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"' for text in texts)
    return "{" + ",".join("NULL" if text is None else text for text in texts) + "}"


@dataclass(frozen=True)
class PostgresTable(SqliteTable):
    """One table of a schema. Statements use `$1` ...; `name` is schema and table, both generated."""

    name: str = ""

    @cached_property
    def keys(self) -> ColumnCodec:
        return ColumnCodec(self.relation.key, form=codec_of)

    @cached_property
    def values(self) -> ColumnCodec:
        return ColumnCodec(self.relation.value, form=codec_of)

    @cached_property
    def types(self) -> list[str]:
        """The types of all columns, in the order of `columns`."""
        fields = [sql_type(field.type) for field in self.relation.key]
        windows = ["BIGINT"] * 2 if self.windowed else []
        return ["BYTEA", *fields, *windows, "BIGINT", *(sql_type(field.type) for field in self.relation.value)]

    @cached_property
    def columns(self) -> list[str]:
        return ["id", *self.key_names, "time", *self.value_names]

    # -- statements -------------------------------------------------------------------------------------------------

    @cached_property
    def create(self) -> list[str]:
        columns = ", ".join(f"{name} {sql}" for name, sql in zip(self.columns, self.types, strict=True))
        create_table = f"CREATE TABLE {self.name} ({columns}, version BIGINT NOT NULL, PRIMARY KEY (id))"
        whole = [
            name for name, field in zip(self.key_names, self.relation.key, strict=False) if _is_ordered(field.type)
        ]
        keys = self.index(whole + (["ws"] if self.windowed else []))
        return [create_table, *([keys] if keys else []), *([self.index(["we"])] if self.windowed else [])]

    def index(self, names: Sequence[str], called: str = "") -> str:
        """An index over as many of the columns as it can hold; empty if there are none."""
        indexed, wide = list[str](), 0
        for name in names:
            wide += self._type(name) in _BEGINNING
            if wide > _MOST_WIDE or len(indexed) == _MOST_INDEXED:
                break
            indexed.append(f"({self._beginning(name)})")
        return f"CREATE INDEX {called} ON {self.name} ({', '.join(indexed)})" if indexed else ""

    def _type(self, name: str) -> str:
        return self.types[self.columns.index(name)]

    def _beginning(self, name: str) -> str:
        sql = self._type(name)
        if sql not in _BEGINNING:
            return name
        return f"left({name}, {_BEGINNING[sql]})" if sql == TEXT else f"substring({name} for {_BEGINNING[sql]})"

    @cached_property
    def put(self) -> str:
        """An upsert that takes an array for every column, and the version."""
        names = ", ".join(self.columns)
        arrays = ", ".join(f"CAST(${i} AS {_array_type(sql)})" for i, sql in enumerate(self.types, 1))
        again = ", ".join(f"{name} = excluded.{name}" for name in [*self.columns[1:], "version"])
        rows = f"SELECT {names}, CAST(${len(self.types) + 1} AS BIGINT) FROM unnest({arrays}) AS given ({names})"
        return f"INSERT INTO {self.name} ({names}, version) {rows} ON CONFLICT (id) DO UPDATE SET {again}"

    @cached_property
    def delete(self) -> str:
        return f"DELETE FROM {self.name} WHERE id = ANY(CAST($1 AS BYTEA[]))"

    @cached_property
    def get(self) -> str:
        return f"{self._select} WHERE id = ANY(CAST($1 AS BYTEA[]))"

    def scan(self, selection: Selection) -> tuple[str, list[Any]]:
        statement, values = super().scan(selection)
        first, *others = statement.split("?")
        return first + "".join(f"${i}{part}" for i, part in enumerate(others, 1)), values

    def _bound(self, bound: Bound) -> tuple[str, list[Any]]:
        name, kind = self.places[bound.column]
        texts = [text for value in bound.values for text in search_values(kind, bound.op, value)]
        if not texts:
            return "false", []
        sql = sql_type(kind)
        text, values = _compared(name, bound.op, sql, texts)
        if sql not in _BEGINNING:
            return text, values
        op = Compare(f"{bound.op}=") if bound.op in (Compare.LESS, Compare.GREATER) else bound.op
        beginnings, more = _compared(self._beginning(name), op, sql, [_cut(sql, text) for text in texts])
        return f"{beginnings} AND {text}", more + values

    # -- rows -------------------------------------------------------------------------------------------------------

    def stored_key(self, key: tuple[Any, ...]) -> tuple[Any, ...]:
        """Returns the digest and the columns of the key. Of floating-point numbers, 0 and -0 are the same key."""
        own = key[:-1] if self.windowed else key
        stored = (*self.keys.stored(own), *(map(str, key[-1]) if self.windowed else ()))
        same = [text if i not in self._reals or text != "-0.0" else "0.0" for i, text in enumerate(stored)]
        return (_bytes(sha256(repr(same).encode()).digest()), *stored)

    @cached_property
    def _reals(self) -> set[int]:
        return {i for i, field in enumerate(self.relation.key) if field.type == ty.DOUBLE}


def _array_type(sql: str) -> str:
    return "TEXT[]" if sql == TEXT else f"{sql}[]"


def _compared(left: str, op: Compare, sql: str, texts: Sequence[str]) -> tuple[str, list[Any]]:
    if op is Compare.EQUAL:
        return f"{left} = ANY(CAST(? AS {_array_type(sql)}))", [array_literal(sql, texts)]
    return f"{left} {op} CAST(? AS {sql.split(' COLLATE')[0]})", texts[:1]  # type: ignore[return-value]


def _cut(sql: str, text: str) -> str:
    """The indexed prefix. Each byte has two hex digits, after two leading characters."""
    return text[: _BEGINNING[sql]] if sql == TEXT else text[: 2 + 2 * _BEGINNING[sql]]


# -- conditions -----------------------------------------------------------------------------------------------------


def _is_ordered(kind: pa.DataType) -> bool:
    return kind in _TYPES or ty.is_decimal(kind)


def search_values(kind: pa.DataType, op: Compare, value: Any) -> list[str]:
    """A constant as the column is compared with it: empty if nothing can equal it; raises if it has no exact form."""
    if ty.is_decimal(kind):
        return _sought_decimal(value)
    if kind in _WHOLE:
        return _sought_whole(op, value)
    if kind == ty.DOUBLE:
        return _sought_real(value)
    if type(value) is not _PLAIN.get(kind):
        raise NotSearchable(kind)
    into: Callable[[Any], str] | None = codec_of(kind).into
    return [into(value)] if into else []


_PLAIN = {ty.STRING: str, ty.BYTES: bytes, ty.BOOLEAN: bool}


def _sought_decimal(value: Any) -> list[str]:
    if not isinstance(value, Decimal | int):
        raise NotSearchable(value)
    return [str(Decimal(value))]


def _sought_whole(op: Compare, value: Any) -> list[str]:
    """Rounds a floating-point number towards more rows: the chain decides, so an extra row does no harm."""
    if isinstance(value, float) and math.isfinite(value):
        if op is Compare.EQUAL and not value.is_integer():
            return []
        value = math.ceil(value) if op in (Compare.LESS, Compare.LESS_OR_EQUAL) else math.floor(value)
    if not isinstance(value, int) or not -(1 << 63) <= value < 1 << 63:
        raise NotSearchable(value)
    return [str(int(value))]


def _sought_real(value: Any) -> list[str]:
    if not isinstance(value, float | int) or (isinstance(value, int) and abs(value) > 1 << 53):
        raise NotSearchable(value)
    return [str(float(value))]
