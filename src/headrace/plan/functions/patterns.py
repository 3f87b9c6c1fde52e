"""What a parameter accepts, and how the letters of a signature are bound by the arguments of a call.

A pattern `accepts` an argument's type, writing down in `bound` what each letter stands for; later `fill` turns a
pattern into the type it has under these letters. A bare NULL fits every pattern and binds nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from headrace.plan import types

Bound = dict[str, pa.DataType]


@dataclass(frozen=True)
class LambdaType:
    """A lambda as an argument: its number of parameters and, once the body is typed, what it gives."""

    parameters: int
    result: pa.DataType | None = None


@dataclass(frozen=True)
class UnitType:
    """A word such as DAYS as an argument; in the plan it becomes a text."""


UNIT = UnitType()
Argument = pa.DataType | LambdaType | UnitType


class Pattern:
    """What all of them have. `generics` counts the letters and `any` in it: fewer of them make a closer fit."""

    @property
    def generics(self) -> int:
        return 0

    def accepts(self, argument: Argument, bound: Bound) -> bool:
        raise NotImplementedError

    def fill(self, bound: Bound) -> pa.DataType:
        raise NotImplementedError


@dataclass(frozen=True)
class Exactly(Pattern):
    type: pa.DataType

    def accepts(self, argument: Argument, bound: Bound) -> bool:
        return argument == self.type or argument == types.NULL

    def fill(self, bound: Bound) -> pa.DataType:
        return self.type

    def __str__(self) -> str:
        return type_text(self.type)


@dataclass(frozen=True)
class AnyDecimal(Pattern):
    """A decimal of any size, and not the same one everywhere; as a result it is the first that was given."""

    def accepts(self, argument: Argument, bound: Bound) -> bool:
        if isinstance(argument, LambdaType | UnitType):
            return False
        if not types.is_decimal(argument):
            return argument == types.NULL
        bound.setdefault("decimal", argument)
        return True

    def fill(self, bound: Bound) -> pa.DataType:
        return bound.get("decimal", types.NULL)

    def __str__(self) -> str:
        return "DECIMAL"


@dataclass(frozen=True)
class Anything(Pattern):
    @property
    def generics(self) -> int:
        return 1

    def accepts(self, argument: Argument, bound: Bound) -> bool:
        return isinstance(argument, pa.DataType)

    def fill(self, bound: Bound) -> pa.DataType:
        return types.NULL

    def __str__(self) -> str:
        return "ANY"


@dataclass(frozen=True)
class AnyUnit(Pattern):
    def accepts(self, argument: Argument, bound: Bound) -> bool:
        return isinstance(argument, UnitType)

    def fill(self, bound: Bound) -> pa.DataType:
        return types.STRING

    def __str__(self) -> str:
        return "UNIT"


@dataclass(frozen=True)
class Letter(Pattern):
    name: str

    @property
    def generics(self) -> int:
        return 1

    def accepts(self, argument: Argument, bound: Bound) -> bool:
        if not isinstance(argument, pa.DataType):
            return False
        if argument == types.NULL:
            return True
        return bound.setdefault(self.name, argument) == argument

    def fill(self, bound: Bound) -> pa.DataType:
        return bound.get(self.name, types.NULL)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class ArrayOf(Pattern):
    item: Pattern

    @property
    def generics(self) -> int:
        return self.item.generics

    def accepts(self, argument: Argument, bound: Bound) -> bool:
        if isinstance(argument, LambdaType | UnitType):
            return False
        if not types.is_array(argument):
            return argument == types.NULL
        return self.item.accepts(argument.value_type, bound)

    def fill(self, bound: Bound) -> pa.DataType:
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

    def accepts(self, argument: Argument, bound: Bound) -> bool:
        if isinstance(argument, LambdaType | UnitType):
            return False
        if not types.is_map(argument):
            return argument == types.NULL
        return self.key.accepts(argument.key_type, bound) and self.value.accepts(argument.item_type, bound)

    def fill(self, bound: Bound) -> pa.DataType:
        return types.map_of(self.key.fill(bound), self.value.fill(bound))

    def __str__(self) -> str:
        return f"MAP<{self.key}, {self.value}>"


@dataclass(frozen=True)
class StructOf(Pattern):
    """A struct with just these fields; without any, every struct."""

    fields: tuple[tuple[str, Pattern], ...]

    @property
    def generics(self) -> int:
        return sum(pattern.generics for _, pattern in self.fields) if self.fields else 1

    def accepts(self, argument: Argument, bound: Bound) -> bool:
        if isinstance(argument, LambdaType | UnitType):
            return False
        if not types.is_struct(argument):
            return argument == types.NULL
        there = types.fields(argument)
        if not self.fields:
            return True
        return list(there) == [name for name, _ in self.fields] and all(
            pattern.accepts(there[name], bound) for name, pattern in self.fields
        )

    def fill(self, bound: Bound) -> pa.DataType:
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

    def accepts(self, argument: Argument, bound: Bound) -> bool:
        if not isinstance(argument, LambdaType) or argument.parameters != len(self.parameters):
            return False
        return argument.result is None or self.result.accepts(argument.result, bound)

    def fill(self, bound: Bound) -> pa.DataType:
        return self.result.fill(bound)

    def __str__(self) -> str:
        return f"LAMBDA ({', '.join(map(str, self.parameters))}) => {self.result}"


def type_text(kind: Argument) -> str:
    """An argument's type as it is shown to people."""
    if isinstance(kind, LambdaType):
        return "LAMBDA"
    return "UNIT" if isinstance(kind, UnitType) else types.type_text(kind, null="null")
