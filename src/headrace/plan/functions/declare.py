"""How a function is declared: a name, a line of doc, a runnable example, and overloads.

An overload's signature is text:

    (text: string, length: int) -> string
    (list: array<T>, keep: lambda(T) -> boolean) -> array<T>        one capital letter is any type, the same everywhere
    (first: T, more: T...) -> T                                     dots: none or more of these
    (value: T, count: const int) -> array<T>                        const: a literal, known when the plan is made

`decimal` alone is a decimal of any size, `any` is any type, `unit` a word such as DAYS. Where a result's type depends
on more than the text can say, `returns` computes it from the arguments' types.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import pyarrow as pa

Returns = Callable[[Sequence[pa.DataType]], pa.DataType]


class Nulls(StrEnum):
    PROPAGATE = "null in, null out"
    PASS = "the function sees nulls"


@dataclass(frozen=True)
class Overload:
    """One way to call a scalar or table function.

    `python` takes chain values (see `plan.types`) and gives one back, or a list for a table function; what it raises is
    reported and gives null. With `typed` it is a maker instead: it takes the arguments' types and gives the function.
    A lambda comes as a Python function. `spark` is a template such as `upper({0})`, only where Spark means just that.
    """

    signature: str
    python: Callable[..., Any]
    nulls: Nulls = Nulls.PROPAGATE
    returns: Returns | None = None
    typed: bool = False
    spark: str | None = None
    version: str = ""
    """Of a user's own: what tells its code from another's."""


@dataclass(frozen=True)
class Function:
    """A scalar or table function under the name every dialect knows it by; `example` is `(call, result)` in SQL."""

    name: str
    doc: str
    overloads: tuple[Overload, ...]
    example: tuple[str, str] = ("", "")
    aliases: tuple[str, ...] = ()
    area: str = ""
    table: bool = False
    """Gives a list, whose items become rows."""
    repeatable: bool = True
    """Gives the same for the same arguments; if not (UUID, RANDOM), it must be derived from the record."""


@dataclass(frozen=True)
class Aggregator:
    """An aggregate at work. `state` is a plain value (numbers, text, lists, dicts) of type `state_type`.

    `add` and `undo` take the state and the row's arguments and give the new state; they may change it in place.
    `merge` joins two sessions, the earlier first. Without `undo` it cannot be used on a table. With `ordered`, `add`
    also gets the row's number in its group, before the arguments: sessions merge by time, while some care for arrival.
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
    """`make(types, constants)` gives the aggregator for the arguments' types and the values of the `const` ones."""

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
