"""What the serdes ask of columns: how a type is called in a refusal, and the refusals that several formats share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NoReturn

import pyarrow as pa

from headrace.errors import BadRecord, FormatRefused
from headrace.formats.primitives import Mismatch
from headrace.schema import Field, type_name


def kind_name(kind: pa.DataType) -> str:
    """A type without its parameters: "int", "decimal", "array", ... and "null" for the type of a bare NULL."""
    return "null" if pa.types.is_null(kind) else type_name(kind).partition("(")[0].partition("<")[0]


def sql_name(kind: pa.DataType) -> str:
    """A type's name as a statement has it."""
    name = kind_name(kind)
    return "INTEGER" if name == "int" else name.upper()


def described(columns: Sequence[Field], *, is_key: bool) -> str:
    suffix = " KEY" if is_key else ""
    return "[" + ", ".join(f"`{c.name}` {sql_name(c.type)}{suffix}" for c in columns) + "]"


def within(kind: pa.DataType) -> Iterator[pa.DataType]:
    """The type and all types inside it."""
    yield kind
    if pa.types.is_list(kind):
        yield from within(kind.value_type)
    elif pa.types.is_map(kind):
        yield from within(kind.key_type)
        yield from within(kind.item_type)
    elif pa.types.is_struct(kind):
        for field in kind:
            yield from within(field.type)


def refuse(format_name: str, column: Field, kind: pa.DataType, fix: str) -> NoReturn:
    raise FormatRefused(
        f"The '{format_name}' format does not support type '{sql_name(kind)}', column: `{column.name}`", fix=fix
    )


def misfit(error: Mismatch, fix: str) -> BadRecord:
    """The complaint about a value in a row, whose path begins with the column."""
    return BadRecord(error.reason(error.path.pop().removeprefix(".")), fix=fix)


def refuse_map_keys(columns: Sequence[Field]) -> None:
    """A map has no one order, so equal keys could be written as different bytes and miss each other."""
    for column in columns:
        if any(pa.types.is_map(kind) for kind in within(column.type)):
            raise FormatRefused(
                "Map keys, including types that contain maps, are not supported. "
                f"Key column name: `{column.name}`. Column type: {type_name(column.type)}.",
                fix="use the map's entries or a text made from it as the key",
            )


def names_within(columns: Sequence[Field]) -> Iterator[str]:
    """The names of columns and of all fields inside them."""
    for column in columns:
        yield column.name
        for kind in within(column.type):
            if pa.types.is_struct(kind):
                yield from (field.name for field in kind)


def check_map_keys_plain(format_name: str, columns: Sequence[Field]) -> None:
    """Keys of a map that are themselves lists, maps or structs cannot be looked up."""
    for column in columns:
        for kind in within(column.type):
            if pa.types.is_map(kind) and pa.types.is_nested(kind.key_type):
                refuse(format_name, column, kind.key_type, "use a plain type for the keys of the map")
