"""Schemas of topics: named, typed columns, some of which form the key.

Types are Arrow's. The text form is short enough for a command line:

    id bigint key, name string, price decimal(10,2) default 0, tags array<string>, at timestamp

A raw topic has the schema `RAW`: a binary key and a binary value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import time
from decimal import Decimal
from functools import cached_property
from typing import Any

import pyarrow as pa

from headrace.errors import BadSchema, IncompatibleSchema

PRIMITIVES: Mapping[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "bytes": pa.binary(),
    "date": pa.date32(),
    "time": pa.time32("ms"),
    "timestamp": pa.timestamp("ms", "UTC"),
}
SYNONYMS: Mapping[str, str] = {
    "bool": "boolean",
    "integer": "int",
    "long": "bigint",
    "real": "float",
    "varchar": "string",
    "text": "string",
    "binary": "bytes",
}
_NAMES = {arrow: name for name, arrow in PRIMITIVES.items()}

# Type changes that preserve every existing value: readers use the wider type.
WIDER: frozenset[tuple[pa.DataType, pa.DataType]] = frozenset(
    {
        (pa.int32(), pa.int64()),
        (pa.int32(), pa.float64()),
        (pa.float32(), pa.float64()),
        (pa.date32(), pa.timestamp("ms", "UTC")),
    }
)


@dataclass(frozen=True, slots=True)
class Field:
    """One column. For a column that is added later, earlier records read as its default."""

    name: str
    type: pa.DataType
    default: Any = None


@dataclass(frozen=True)
class Schema:
    """The columns in order, and the names of the key columns."""

    fields: tuple[Field, ...]
    key: tuple[str, ...] = ()
    _by_name: dict[str, Field] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        names = [f.name for f in self.fields]
        if not names:
            raise BadSchema("a schema requires at least one column", fix='for example "id bigint key, name string"')
        for name in names:
            if names.count(name) > 1:
                raise BadSchema(f'column "{name}" appears twice', fix="give each column a different name")
            if name.startswith("$"):
                raise BadSchema(
                    f'column "{name}" begins with "$"', fix='names with "$" are reserved for the log; rename it'
                )
        for name in self.key:
            if name not in names:
                raise BadSchema(f'key column "{name}" does not exist', fix=f"columns are: {', '.join(names)}")
        object.__setattr__(self, "_by_name", {f.name: f for f in self.fields})

    def __getitem__(self, name: str) -> Field:
        return self._by_name[name]

    def __contains__(self, name: str) -> bool:
        return name in self._by_name

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f.name for f in self.fields)

    @cached_property
    def is_raw(self) -> bool:
        return self == RAW

    @cached_property
    def arrow(self) -> pa.Schema:
        return pa.schema([pa.field(f.name, f.type) for f in self.fields])

    def __str__(self) -> str:
        return ", ".join(self._column_text(f) for f in self.fields)

    def _column_text(self, column: Field) -> str:
        text = f"{_quoted(column.name)} {type_name(column.type)}"
        if column.name in self.key:
            text += " key"
        if column.default is not None:
            text += f" default {_literal(column.default)}"
        return text

    @classmethod
    def parse(cls, text: str) -> Schema:
        """Parse the text form; `str(schema)` returns it."""
        return _Parser(text).schema()


def type_name(arrow: pa.DataType) -> str:
    """The text form of a type."""
    if arrow in _NAMES:
        return _NAMES[arrow]
    if pa.types.is_decimal(arrow):
        return f"decimal({arrow.precision},{arrow.scale})"
    if pa.types.is_list(arrow):
        return f"array<{type_name(arrow.value_type)}>"
    if pa.types.is_map(arrow):
        return f"map<{type_name(arrow.key_type)},{type_name(arrow.item_type)}>"
    if pa.types.is_struct(arrow):
        return "struct<" + ",".join(f"{_quoted(f.name)} {type_name(f.type)}" for f in arrow) + ">"
    raise BadSchema(f"type {arrow} is not supported in a topic", fix=f"use one of: {', '.join(PRIMITIVES)}")


def parse_type(text: str) -> pa.DataType:
    """Parse the text form of a type."""
    parser = _Parser(text)
    parsed = parser.type()
    parser.end()
    return parsed


def evolve(old: Schema, new: Schema) -> Schema:
    """Check that records written with `old` can be read with `new`; return the schema to store.

    Columns may be added at any position and widened; a column may not be removed or narrowed, or join or leave the key.
    """
    problems: list[str] = []
    for column in old.fields:
        if column.name not in new:
            problems.append(f'column "{column.name}" is missing')
        elif not _widens(column.type, new[column.name].type):
            problems.append(
                f'column "{column.name}" cannot change from {type_name(column.type)} '
                f"to {type_name(new[column.name].type)}"
            )
    if old.key != new.key:
        problems.append(f"the key cannot change from ({', '.join(old.key)}) to ({', '.join(new.key)})")
    if problems:
        raise IncompatibleSchema(
            "; ".join(problems), fix="add or widen columns only, or create a new topic with the new schema"
        )
    return new


def _widens(old: pa.DataType, new: pa.DataType) -> bool:
    if old == new or (old, new) in WIDER:
        return True
    if pa.types.is_decimal(old) and pa.types.is_decimal(new):
        return new.scale >= old.scale and new.precision - new.scale >= old.precision - old.scale
    if pa.types.is_list(old) and pa.types.is_list(new):
        return _widens(old.value_type, new.value_type)
    if pa.types.is_map(old) and pa.types.is_map(new):
        return old.key_type == new.key_type and _widens(old.item_type, new.item_type)
    if pa.types.is_struct(old) and pa.types.is_struct(new):
        fields = {f.name: f.type for f in new}
        return all(f.name in fields and _widens(f.type, fields[f.name]) for f in old)
    return False


def _quoted(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_]\w*", name) else "`" + name.replace("`", "``") + "`"


def _literal(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    text = value.decode() if isinstance(value, bytes) else str(value)
    is_number = isinstance(value, int | float | Decimal) and re.fullmatch(r"-?\d+(\.\d+)?", text)
    return text if is_number else "'" + text.replace("'", "''") + "'"


class _Parser:
    """A recursive descent parser over a dozen tokens; a grammar file would be longer."""

    _TOKEN = re.compile(r"\s*(?:(`(?:[^`]|``)+`)|('(?:[^']|'')*')|(-?\d+(?:\.\d+)?)|([A-Za-z_]\w*)|([<>(),:]))")

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def schema(self) -> Schema:
        fields: list[Field] = []
        key: list[str] = []
        while True:
            column, is_key = self._column()
            fields.append(column)
            if is_key:
                key.append(column.name)
            if not self._accept(","):
                break
        self.end()
        return Schema(tuple(fields), tuple(key))

    def type(self) -> pa.DataType:
        word = self._name("a type")
        name = SYNONYMS.get(word.lower(), word.lower())
        if name in PRIMITIVES:
            return PRIMITIVES[name]
        if name == "decimal":
            self._expect("(")
            precision = int(self._number())
            scale = int(self._number()) if self._accept(",") else 0
            self._expect(")")
            if not (0 < precision <= 38 and 0 <= scale <= precision):
                raise self._error(f"decimal({precision},{scale}) is not a valid type")
            return pa.decimal128(precision, scale)
        if name in ("array", "map", "struct"):
            self._expect("<")
            inner = getattr(self, f"_{name}")()
            self._expect(">")
            return inner
        raise self._error(f'unknown type "{word}"')

    def end(self) -> None:
        if self.text[self.at :].strip():
            raise self._error("unexpected text at the end")

    def _array(self) -> pa.DataType:
        return pa.list_(self.type())

    def _map(self) -> pa.DataType:
        key = self.type()
        self._expect(",")
        return pa.map_(key, self.type())

    def _struct(self) -> pa.DataType:
        fields: list[pa.Field] = []
        while True:
            name = self._name("a field name")
            self._accept(":")
            fields.append(pa.field(name, self.type()))
            if not self._accept(","):
                return pa.struct(fields)

    def _column(self) -> tuple[Field, bool]:
        name = self._name("a column name")
        kind = self.type()
        is_key = self._accept("key")
        default = self._default(kind) if self._accept("default") else None
        return Field(name, kind, default), is_key

    def _default(self, kind: pa.DataType) -> Any:
        token = self._next()
        if token is None:
            raise self._error("a default value is missing")
        text = token[1:-1].replace("''", "'") if token.startswith("'") else token
        try:
            if pa.types.is_time(kind):
                return time.fromisoformat(text)  # Arrow cannot cast a string to a time of day
            return pa.array([text]).cast(kind)[0].as_py()
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as error:
            raise self._error(f"default {token} is not a {type_name(kind)}") from error

    def _match(self) -> re.Match[str] | None:
        return self._TOKEN.match(self.text, self.at)

    def _next(self) -> str | None:
        match = self._match()
        if match is None:
            return None
        self.at = match.end()
        return match.group().strip()

    def _accept(self, word: str) -> bool:
        match = self._match()
        if match is None or match.group().strip().lower() != word:
            return False
        self.at = match.end()
        return True

    def _expect(self, word: str) -> None:
        if not self._accept(word):
            raise self._error(f'"{word}" is missing')

    def _name(self, what: str) -> str:
        match = self._match()
        if match is None or not (match.group(1) or match.group(4)):
            raise self._error(f"{what} is missing")
        self.at = match.end()
        return match.group(4) or match.group(1)[1:-1].replace("``", "`")

    def _number(self) -> str:
        match = self._match()
        if match is None or not match.group(3):
            raise self._error("a number is missing")
        self.at = match.end()
        return match.group(3)

    def _error(self, what: str) -> BadSchema:
        return BadSchema(
            f"{what} in schema",
            where=f"column {self.at + 1} of: {self.text}",
            fix='write "name type [key] [default value], ...", for example "id bigint key, name string"',
        )


RAW = Schema((Field("key", pa.binary()), Field("value", pa.binary())), key=("key",))
