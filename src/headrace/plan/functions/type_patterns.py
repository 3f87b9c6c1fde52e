"""Type patterns: what a parameter accepts, and how the arguments of a call bind the letters of a signature.

A pattern `accepts` an argument's type and records in `bound` the type of each letter; then `fill` turns a pattern into
the type it has with these letters. A bare NULL fits every pattern and binds nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from headrace.plan import types

TypeBindings = dict[str, pa.DataType]


@dataclass(frozen=True)
class LambdaType:
    """A lambda as an argument: its number of parameters and, once the body is typed, its result type."""

    parameters: int
    result: pa.DataType | None = None


@dataclass(frozen=True)
class UnitType:
    """A word such as DAYS as an argument; in the plan it becomes a string."""


UNIT = UnitType()
Argument = pa.DataType | LambdaType | UnitType


class Pattern:
    """Base class of patterns. `generics` counts the letters and `any` in it: fewer of them make a closer fit."""

    @property
    def generics(self) -> int:
        return 0

    def accepts(self, argument: Argument, bound: TypeBindings) -> bool:
        raise NotImplementedError

    def fill(self, bound: TypeBindings) -> pa.DataType:
        raise NotImplementedError


@dataclass(frozen=True)
class ExactType(Pattern):
    type: pa.DataType

    def accepts(self, argument: Argument, bound: TypeBindings) -> bool:
        return argument == self.type or argument == types.NULL

    def fill(self, bound: TypeBindings) -> pa.DataType:
        return self.type

    def __str__(self) -> str:
        return type_text(self.type)


@dataclass(frozen=True)
class AnyDecimal(Pattern):
    """A decimal of any size, not necessarily the same one everywhere; as a result it is the first one bound."""

    def accepts(self, argument: Argument, bound: TypeBindings) -> bool:
        if isinstance(argument, LambdaType | UnitType):
            return False
        if not types.is_decimal(argument):
            return argument == types.NULL
        bound.setdefault("decimal", argument)
        return True

    def fill(self, bound: TypeBindings) -> pa.DataType:
        return bound.get("decimal", types.NULL)

    def __str__(self) -> str:
        return "DECIMAL"


@dataclass(frozen=True)
class AnyType(Pattern):
    @property
    def generics(self) -> int:
        return 1

    def accepts(self, argument: Argument, bound: TypeBindings) -> bool:
        return isinstance(argument, pa.DataType)

    def fill(self, bound: TypeBindings) -> pa.DataType:
        return types.NULL

    def __str__(self) -> str:
        return "ANY"


@dataclass(frozen=True)
class AnyUnit(Pattern):
    def accepts(self, argument: Argument, bound: TypeBindings) -> bool:
        return isinstance(argument, UnitType)

    def fill(self, bound: TypeBindings) -> pa.DataType:
        return types.STRING

    def __str__(self) -> str:
        return "UNIT"


@dataclass(frozen=True)
class TypeVariable(Pattern):
    name: str

    @property
    def generics(self) -> int:
        return 1

    def accepts(self, argument: Argument, bound: TypeBindings) -> bool:
        if not isinstance(argument, pa.DataType):
            return False
        if argument == types.NULL:
            return True
        return bound.setdefault(self.name, argument) == argument

    def fill(self, bound: TypeBindings) -> pa.DataType:
        return bound.get(self.name, types.NULL)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class ArrayOf(Pattern):
    item: Pattern

    @property
    def generics(self) -> int:
        return self.item.generics

    def accepts(self, argument: Argument, bound: TypeBindings) -> bool:
        if isinstance(argument, LambdaType | UnitType):
            return False
        if not types.is_array(argument):
            return argument == types.NULL
        return self.item.accepts(argument.value_type, bound)

    def fill(self, bound: TypeBindings) -> pa.DataType:
        return types.array(self.item.fill(bound))

    def __str__(self) -> str:
        return f"ARRAY<{self.item}>"


@dataclass(frozen=True)
class MapOf(Pattern):
    key: Pattern
    value: Pattern

    @property
    def generics(self) -> int:
        return self.key.generics + self.value.generics

    def accepts(self, argument: Argument, bound: TypeBindings) -> bool:
        if isinstance(argument, LambdaType | UnitType):
            return False
        if not types.is_map(argument):
            return argument == types.NULL
        return self.key.accepts(argument.key_type, bound) and self.value.accepts(argument.item_type, bound)

    def fill(self, bound: TypeBindings) -> pa.DataType:
        return types.map_of(self.key.fill(bound), self.value.fill(bound))

    def __str__(self) -> str:
        return f"MAP<{self.key}, {self.value}>"


@dataclass(frozen=True)
class StructOf(Pattern):
    """A struct with exactly these fields; without fields, any struct."""

    fields: tuple[tuple[str, Pattern], ...]

    @property
    def generics(self) -> int:
        return sum(pattern.generics for _, pattern in self.fields) if self.fields else 1

    def accepts(self, argument: Argument, bound: TypeBindings) -> bool:
        if isinstance(argument, LambdaType | UnitType):
            return False
        if not types.is_struct(argument):
            return argument == types.NULL
        field_types = types.fields(argument)
        if not self.fields:
            return True
        return list(field_types) == [name for name, _ in self.fields] and all(
            pattern.accepts(field_types[name], bound) for name, pattern in self.fields
        )

    def fill(self, bound: TypeBindings) -> pa.DataType:
        return types.struct((name, pattern.fill(bound)) for name, pattern in self.fields)

    def __str__(self) -> str:
        return f"STRUCT<{', '.join(f'{name} {pattern}' for name, pattern in self.fields)}>"


@dataclass(frozen=True)
class LambdaOf(Pattern):
    parameters: tuple[Pattern, ...]
    result: Pattern

    @property
    def generics(self) -> int:
        return sum(pattern.generics for pattern in self.parameters) + self.result.generics

    def accepts(self, argument: Argument, bound: TypeBindings) -> bool:
        if not isinstance(argument, LambdaType) or argument.parameters != len(self.parameters):
            return False
        return argument.result is None or self.result.accepts(argument.result, bound)

    def fill(self, bound: TypeBindings) -> pa.DataType:
        return self.result.fill(bound)

    def __str__(self) -> str:
        return f"LAMBDA ({', '.join(map(str, self.parameters))}) => {self.result}"


def type_text(kind: Argument) -> str:
    """Renders an argument's type for messages."""
    if isinstance(kind, LambdaType):
        return "LAMBDA"
    return "UNIT" if isinstance(kind, UnitType) else types.type_text(kind, null="null")
