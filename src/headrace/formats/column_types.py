"""Column checks for serdes: type names in error messages, and errors that several formats share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NoReturn

import pyarrow as pa

from headrace.errors import BadRecord, FormatUnsupported
from headrace.formats.primitives import Mismatch
from headrace.schema import Field, type_name


def kind_name(kind: pa.DataType) -> str:
    """A type without its parameters: "int", "decimal", "array", ... and "null" for the type of a bare NULL."""
    return "null" if pa.types.is_null(kind) else type_name(kind).partition("(")[0].partition("<")[0]


def sql_name(kind: pa.DataType) -> str:
    """A type's name in a statement."""
    name = kind_name(kind)
    return "INTEGER" if name == "int" else name.upper()


def describe_columns(columns: Sequence[Field], *, is_key: bool) -> str:
    suffix = " KEY" if is_key else ""
    return "[" + ", ".join(f"`{c.name}` {sql_name(c.type)}{suffix}" for c in columns) + "]"


def nested_types(kind: pa.DataType) -> Iterator[pa.DataType]:
    """The type and all types inside it."""
    yield kind
    if pa.types.is_list(kind):
        yield from nested_types(kind.value_type)
    elif pa.types.is_map(kind):
        yield from nested_types(kind.key_type)
        yield from nested_types(kind.item_type)
    elif pa.types.is_struct(kind):
        for field in kind:
            yield from nested_types(field.type)


def refuse_column(format_name: str, column: Field, kind: pa.DataType, fix: str) -> NoReturn:
    raise FormatUnsupported(
        f"The '{format_name}' format does not support type '{sql_name(kind)}', column: `{column.name}`", fix=fix
    )


def bad_value(error: Mismatch, fix: str) -> BadRecord:
    """The error for a value in a row; its path begins with the column."""
    return BadRecord(error.reason(error.path.pop().removeprefix(".")), fix=fix)


def refuse_map_keys(columns: Sequence[Field]) -> None:
    """A map has no defined order, so equal keys could be written as different bytes and not match."""
    for column in columns:
        if any(pa.types.is_map(kind) for kind in nested_types(column.type)):
            raise FormatUnsupported(
                "Map keys, including types that contain maps, are not supported. "
                f"Key column name: `{column.name}`. Column type: {type_name(column.type)}.",
                fix="use the map's entries, or a string built from it, as the key",
            )


def nested_names(columns: Sequence[Field]) -> Iterator[str]:
    """The names of columns and of all fields inside them."""
    for column in columns:
        yield column.name
        for kind in nested_types(column.type):
            if pa.types.is_struct(kind):
                yield from (field.name for field in kind)


def check_map_keys_plain(format_name: str, columns: Sequence[Field]) -> None:
    """Map keys that are lists, maps or structs cannot be looked up."""
    for column in columns:
        for kind in nested_types(column.type):
            if pa.types.is_map(kind) and pa.types.is_nested(kind.key_type):
                refuse_column(format_name, column, kind.key_type, "use a primitive type for the keys of the map")
