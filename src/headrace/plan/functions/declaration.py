"""Declaration of a function: a name, a line of documentation, a runnable example, and overloads.

An overload's signature is text:

    (text: string, length: int) -> string
    (list: array<T>, keep: lambda(T) -> boolean) -> array<T>        a capital letter is any type, the same everywhere
    (first: T, more: T...) -> T                                     dots: zero or more of these
    (value: T, count: const int) -> array<T>                        const: a literal, known at planning time

`decimal` alone is a decimal of any size, `any` is any type, `unit` a word such as DAYS. If the text cannot express the
type of a result, `returns` computes it from the types of the arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import pyarrow as pa

Returns = Callable[[Sequence[pa.DataType]], pa.DataType]


class NullRule(StrEnum):
    PROPAGATE = "null in, null out"
    PASS = "the function handles nulls"


@dataclass(frozen=True)
class Overload:
    """One overload of a scalar or table function.

    `python` takes chain values (see `plan.types`) and returns one, or a list for a table function; if it raises, that
    is reported and the result is null. With `typed` it is a factory instead: it takes the arguments' types and returns
    the function. A lambda is passed as a Python function. `spark` is a template such as `upper({0})`, only where Spark
    has exactly the same semantics.
    """

    signature: str
    python: Callable[..., Any]
    nulls: NullRule = NullRule.PROPAGATE
    returns: Returns | None = None
    typed: bool = False
    spark: str | None = None
    version: str = ""
    """Version of the code of a user-defined function."""
    never_grows: bool = False
    """Its result is never much larger than its arguments. Results of others are charged (see `plan.allowance`)."""


def never_growing(*overloads: Overload) -> tuple[Overload, ...]:
    """Declares that the results are never much larger than the arguments (a test of the registry checks that)."""
    return tuple(replace(overload, never_grows=True) for overload in overloads)


@dataclass(frozen=True)
class Function:
    """A scalar or table function under its name in every dialect; `example` is `(call, result)` in SQL."""

    name: str
    doc: str
    overloads: tuple[Overload, ...]
    example: tuple[str, str] = ("", "")
    aliases: tuple[str, ...] = ()
    area: str = ""
    table: bool = False
    """Returns a list, whose items become rows."""
    repeatable: bool = True
    """Deterministic; if not (UUID, RANDOM), the result must be derived from the record."""


@dataclass(frozen=True)
class Aggregator:
    """The implementation of an aggregate. `state` is a plain value (numbers, text, lists, dicts) of type `state_type`.

    `add` and `undo` take the state and the row's arguments and return the new state; they may change it in place.
    `merge` merges two sessions, the earlier first. Without `undo` it cannot be used on a table. With `ordered`, `add`
    also gets the row's number in its group, before the arguments: sessions merge by time, but some aggregates need the
    order of arrival.
    """

    state_type: pa.DataType
    initial: Callable[[], Any]
    add: Callable[..., Any]
    result: Callable[[Any], Any] = lambda state: state
    merge: Callable[[Any, Any], Any] | None = None
    undo: Callable[..., Any] | None = None
    ordered: bool = False


@dataclass(frozen=True)
class AggregateOverload:
    """`make(types, constants)` returns the aggregator for the arguments' types and the values of the `const` ones."""

    signature: str
    make: Callable[[Sequence[pa.DataType], Sequence[Any]], Aggregator]
    returns: Returns | None = None
    spark: str | None = None


@dataclass(frozen=True)
class AggregateFunction:
    name: str
    doc: str
    overloads: tuple[AggregateOverload, ...]
    example: tuple[str, str] = ("", "")
    aliases: tuple[str, ...] = ()
    area: str = "aggregate"
