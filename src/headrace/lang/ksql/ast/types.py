"""Types as written."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.lang.ksql.ast.node import Ast


@dataclass(frozen=True)
class TypeName(Ast):
    """A primitive or user-defined type: `STRING`, `DECIMAL` with parameters (10, 2), `ADDRESS`."""

    name: str
    parameters: tuple[int, ...] = ()
    quoted: bool = False


@dataclass(frozen=True)
class ArrayType(Ast):
    item: Type


@dataclass(frozen=True)
class MapType(Ast):
    key: Type
    value: Type


@dataclass(frozen=True)
class StructType(Ast):
    fields: tuple[tuple[str, Type], ...]


Type = TypeName | ArrayType | MapType | StructType
