"""The functions that exist only for the corpus (FORMAT.md, "Test-only functions")."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from itertools import count
from typing import Any, cast

import pyarrow as pa

from headrace.formats.java_numbers import decimal_text, double_text
from headrace.plan import functions
from headrace.plan.functions.declaration import (
    AggregateFunction,
    AggregateOverload,
    Aggregator,
    Function,
    NullRule,
    Overload,
)
from headrace.plan.types import BIGINT, DOUBLE


class Thrown(Exception):
    """What a function that is meant to throw throws."""


# -- scalar functions -----------------------------------------------------------------------------------------------


def _named(name: str, signature: str) -> Overload:
    return Overload(f"{signature} -> string", lambda *arguments: name, nulls=NullRule.PASS)


def _throw(*arguments: Any) -> Any:
    raise Thrown("this function always throws")


def _throw_if(value: bool) -> int:
    return _throw() if value else 0


def _every_other(types: Sequence[pa.DataType]) -> Callable[[str], str | None]:
    calls = count()
    return lambda text: text if next(calls) % 2 else None


def _if_evaluated(value: Any, evaluated: bool) -> Any:
    return value if evaluated else _throw()


SCALARS = (
    Function(
        "TEST_UDF",
        "The name of the chosen overload.",
        (
            _named("doStuffIntString", "(a: int, b: string)"),
            _named("doStuffLongString", "(a: bigint, b: string)"),
            _named("doStuffLongLongString", "(a: bigint, b: bigint, c: string)"),
            _named("doStuffLongVarargs", "(a: bigint, more: string...)"),
            Overload("(value: struct<A string>) -> string", lambda value: value["A"]),
        ),
    ),
    Function(
        "BAD_UDF",
        "Throws, or gives null every other time.",
        (
            Overload("(value: int) -> int", _throw),
            Overload("(value: boolean) -> int", _throw_if),
            Overload("(value: string) -> string", _every_other, typed=True),
        ),
    ),
    Function(
        "TOSTRUCT",
        "A struct around a text.",
        (Overload("(value: string) -> struct<A string>", lambda value: {"A": value}),),
    ),
    Function(
        "WHENCONDITION",
        "The condition; throws if it was not to be evaluated.",
        (Overload("(value: boolean, evaluated: boolean) -> boolean", _if_evaluated),),
    ),
    Function(
        "WHENRESULT",
        "The result; throws if it was not to be evaluated.",
        (Overload("(value: int, evaluated: boolean) -> int", _if_evaluated),),
    ),
)

# -- table functions ------------------------------------------------------------------------------------------------


def _java_text(value: Any) -> str:
    """As `Object.toString`."""
    match value:
        case bool():
            return str(value).lower()
        case float():
            return double_text(value)
        case Decimal():
            return decimal_text(value)
        case dict():
            return "Struct{" + ",".join(f"{k}={_java_text(v)}" for k, v in value.items() if v is not None) + "}"
    return str(value)


_SEVEN = ("int", "bigint", "double", "boolean", "string", "decimal", "struct<A string>")


def _echo(wrap: str, first: Callable[[Any], Any]) -> Overload:
    parameters = ", ".join(f"a{number}: {wrap.format(kind)}" for number, kind in enumerate(_SEVEN))
    return Overload(f"({parameters}) -> string", lambda *values: [_java_text(first(value)) for value in values])


TABLES = (
    Function(
        "THROWING_UDTF",
        "Throws when told to.",
        (Overload("(value: boolean) -> boolean", lambda value: _throw() if value else [value]),),
        table=True,
    ),
    Function(
        "TEST_UDTF",
        "Its arguments as text; a single one as it is.",
        (
            _echo("{}", lambda value: value),
            _echo("array<{}>", lambda value: value[0]),
            _echo("map<string, {}>", lambda value: next(iter(value.values()))),
            *(Overload(f"(value: {kind}) -> {kind}", lambda value: [value]) for kind in _SEVEN if kind != "decimal"),
            Overload("(value: decimal) -> decimal", lambda value: [value], returns=lambda types: types[0]),
        ),
        table=True,
    ),
)

# -- aggregates -----------------------------------------------------------------------------------------------------


def _weight(value: Any) -> int:
    """A number is itself, a text its length, null nothing."""
    return len(value) if isinstance(value, str) else value or 0


def _weights(types: Sequence[pa.DataType], constants: Sequence[Any]) -> Aggregator:
    start = sum(map(_weight, constants))
    return Aggregator(
        BIGINT,
        lambda: start,
        lambda state, *arguments: state + sum(map(_weight, arguments)),
        merge=lambda left, right: left + right,
    )


def _weighing(name: str, signature: str) -> AggregateFunction:
    return AggregateFunction(
        name, "Numbers and lengths of texts, summed.", (AggregateOverload(f"{signature} -> bigint", _weights),)
    )


def _undoable_sum(types: Sequence[pa.DataType], constants: Sequence[Any]) -> Aggregator:
    return Aggregator(
        BIGINT,
        lambda: 0,
        lambda state, value: state + (value or 0),
        merge=lambda left, right: left + right,
        undo=lambda state, value: state - (value or 0),
    )


def _double_sum(types: Sequence[pa.DataType], constants: Sequence[Any]) -> Aggregator:
    return Aggregator(
        DOUBLE, lambda: 0.0, lambda state, value: state + (value or 0.0), merge=lambda left, right: left + right
    )


def _struct_sum(types: Sequence[pa.DataType], constants: Sequence[Any]) -> Aggregator:
    def add(state: dict[str, int], value: dict[str, int] | None) -> dict[str, int]:
        return {name: state[name] + ((value or {}).get(name) or 0) for name in ("A", "B")}

    return Aggregator(types[0], lambda: {"A": 0, "B": 0}, add, merge=add)


def _collected(types: Sequence[pa.DataType], constants: Sequence[Any]) -> Aggregator:
    """The first arguments of rows in which no argument is null."""

    def add(state: list[Any], *arguments: Any) -> list[Any]:
        return state if None in arguments else [*state, arguments[0]]

    return Aggregator(pa.list_(types[0]), list, add, merge=lambda left, right: left + right)


def _collecting(name: str, signature: str) -> AggregateFunction:
    overload = AggregateOverload(signature, _collected, returns=lambda types: pa.list_(types[0]))
    return AggregateFunction(name, "First columns of rows without a null.", (overload,))


AGGREGATES = (
    AggregateFunction(
        "TEST_UDAF",
        "A sum.",
        (
            AggregateOverload("(value: int) -> bigint", _undoable_sum),
            AggregateOverload("(value: bigint) -> bigint", _undoable_sum),
            AggregateOverload("(value: double) -> double", _double_sum),
            AggregateOverload("(value: string, start: const string) -> bigint", _weights),
            AggregateOverload("(value: struct<A int, B int>) -> struct<A int, B int>", _struct_sum),
        ),
    ),
    _weighing("MULTI_ARG", "(a: bigint, b: string, start: const int, more: const string...)"),
    _weighing("FOUR_ARG", "(a: bigint, b: string, c: string, d: string, start: const int, more: const string...)"),
    _weighing(
        "FIVE_ARG", "(a: bigint, b: string, c: string, d: string, e: int, start: const int, more: const string...)"
    ),
    _weighing("VAR_ARG", "(a: bigint, more: string...)"),
    _weighing("MID_VAR_ARG", "(a: bigint, more: string..., start: const int, other: const int)"),
    _collecting("OBJ_COL_ARG", "(a: int, more: any...) -> array<int>"),
    _collecting("GENERIC_VAR_ARG", "(a: A, b: B, more: C...) -> array<A>"),
)


def install() -> None:
    """Put them beside the product's functions, for this process."""
    scalars = cast(dict[str, Function], functions.SCALARS)
    aggregates = cast(dict[str, AggregateFunction], functions.AGGREGATES)
    scalars.update({function.name: function for function in (*SCALARS, *TABLES)})
    aggregates.update({function.name: function for function in AGGREGATES})


@contextmanager
def installed() -> Iterator[None]:
    """The same for a while: where other tests share the process."""
    tables = [cast(dict[str, Any], table) for table in (functions.SCALARS, functions.AGGREGATES)]
    before = [dict(table) for table in tables]
    install()
    try:
        yield
    finally:
        for table, content in zip(tables, before, strict=True):
            table.clear()
            table.update(content)
