"""COUNT, COUNT_DISTINCT, SUM, AVG, MIN and MAX. Nulls do not count, except in COUNT(*)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import reduce
from typing import Any

import pyarrow as pa

from headrace.plan import types
from headrace.plan.functions.declaration import AggregateFunction, AggregateOverload, Aggregator
from headrace.plan.scalar_operations import EXACT, wrap_bigint, wrap_int
from headrace.plan.types import BIGINT, DOUBLE, INT, STRING

Types = Sequence[pa.DataType]
Constants = Sequence[Any]

ORDERED = ("int", "bigint", "double", "decimal", "string", "bytes", "date", "time", "timestamp")
"""Types with an order."""


def first_type(kinds: Types) -> pa.DataType:
    return kinds[0]


# -- COUNT ----------------------------------------------------------------------------------------------------------


def _count_rows(kinds: Types, constants: Constants) -> Aggregator:
    del kinds, constants
    return Aggregator(
        BIGINT, int, lambda count: count + 1, merge=lambda a, b: a + b, undo=lambda count: max(count - 1, 0)
    )


def _count(kinds: Types, constants: Constants) -> Aggregator:
    del kinds, constants
    return Aggregator(
        BIGINT,
        int,
        lambda count, value: count if value is None else count + 1,
        merge=lambda a, b: a + b,
        undo=lambda count, value: count if value is None else max(count - 1, 0),
    )


def _count_distinct(kinds: Types, constants: Constants) -> Aggregator:
    """Exact: stores each value once. A nested value is stored as text, since the key of a map must be plain."""
    del constants
    nested = types.is_nested(kinds[0])

    def add(seen: dict[Any, bool], value: Any) -> dict[Any, bool]:
        if value is not None:
            seen[_text(value) if nested else value] = True
        return seen

    state = types.map_of(STRING if nested else kinds[0], types.BOOLEAN)
    return Aggregator(state, dict, add, len, merge=lambda a, b: {**a, **b})


def _text(value: Any) -> str:
    """Formats a value so that equal values have equal text, whatever the order of a map."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{name!r}: {_text(value[name])}' for name in sorted(value))}}}"
    return f"[{', '.join(map(_text, value))}]" if isinstance(value, list) else repr(value)


# -- SUM, AVG -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Arithmetic:
    """How numbers of a type are added: wrapping in its range, as in Java; a decimal that overflows is an error."""

    zero: Any
    plus: Callable[[Any, Any], Any]
    minus: Callable[[Any, Any], Any]


def _decimals(kind: pa.DataType) -> Arithmetic:
    bound = Decimal(10) ** (kind.precision - kind.scale)

    def fit(value: Decimal) -> Decimal:
        if abs(value) >= bound:
            raise ArithmeticError(f"the sum has no place in DECIMAL({kind.precision}, {kind.scale})")
        return value

    zero = Decimal(0).scaleb(-kind.scale)
    return Arithmetic(zero, lambda a, b: fit(EXACT.add(a, b)), lambda a, b: fit(EXACT.subtract(a, b)))


_ARITHMETIC = {
    INT: Arithmetic(0, lambda a, b: wrap_int(a + b), lambda a, b: wrap_int(a - b)),
    BIGINT: Arithmetic(0, lambda a, b: wrap_bigint(a + b), lambda a, b: wrap_bigint(a - b)),
    DOUBLE: Arithmetic(0.0, lambda a, b: a + b, lambda a, b: a - b),
}


def _arithmetic(kind: pa.DataType) -> Arithmetic:
    return _decimals(kind) if types.is_decimal(kind) else _ARITHMETIC[kind]


def _sum(kinds: Types, constants: Constants) -> Aggregator:
    del constants
    numbers = _arithmetic(kinds[0])
    plus, minus = numbers.plus, numbers.minus
    return Aggregator(
        kinds[0],
        lambda: numbers.zero,
        lambda total, value: total if value is None else plus(total, value),
        merge=plus,
        undo=lambda total, value: total if value is None else minus(total, value),
    )


def _sum_list(kinds: Types, constants: Constants) -> Aggregator:
    del constants
    numbers = _arithmetic(kinds[0].value_type)

    def total(items: list[Any] | None) -> Any:
        return reduce(numbers.plus, (item for item in items or () if item is not None), numbers.zero)

    return Aggregator(
        kinds[0].value_type,
        lambda: numbers.zero,
        lambda so_far, items: numbers.plus(so_far, total(items)),
        merge=numbers.plus,
        undo=lambda so_far, items: numbers.minus(so_far, total(items)),
    )


def _average(kinds: Types, constants: Constants) -> Aggregator:
    """The sum of INTs is a BIGINT, so that their average is right where their SUM would wrap."""
    del constants
    kind = DOUBLE if kinds[0] == DOUBLE else BIGINT
    numbers = _arithmetic(kind)

    def moved(combine: Callable[[Any, Any], Any], step: int) -> Callable[[dict[str, Any], Any], dict[str, Any]]:
        def move(state: dict[str, Any], value: Any) -> dict[str, Any]:
            if value is not None:
                state["SUM"] = combine(state["SUM"], value)
                state["COUNT"] += step
            return state

        return move

    return Aggregator(
        types.struct([("SUM", kind), ("COUNT", BIGINT)]),
        lambda: {"SUM": numbers.zero, "COUNT": 0},
        moved(numbers.plus, 1),
        lambda state: state["SUM"] / state["COUNT"] if state["COUNT"] else 0.0,
        merge=lambda a, b: {"SUM": numbers.plus(a["SUM"], b["SUM"]), "COUNT": a["COUNT"] + b["COUNT"]},
        undo=moved(numbers.minus, -1),
    )


# -- MIN, MAX -------------------------------------------------------------------------------------------------------


def _extreme(better: Callable[[Any, Any], bool]) -> Callable[[Types, Constants], Aggregator]:
    def choose(best: Any, value: Any) -> Any:
        if value is None or (best is not None and not better(value, best)):
            return best
        return value

    return lambda kinds, constants: Aggregator(kinds[0], lambda: None, choose, merge=choose)


_min = _extreme(lambda value, best: value < best)
_max = _extreme(lambda value, best: value > best)


def _of_each(make: Callable[[Types, Constants], Aggregator], kinds: Sequence[str]) -> tuple[AggregateOverload, ...]:
    return tuple(AggregateOverload(f"(value: {kind}) -> {kind}", make, returns=first_type) for kind in kinds)


FUNCTIONS = (
    AggregateFunction(
        "COUNT",
        "The number of rows or, with an argument, of rows in which it is not null.",
        (AggregateOverload("() -> bigint", _count_rows), AggregateOverload("(value: any) -> bigint", _count)),
        example=("COUNT(*)", "3"),
    ),
    AggregateFunction(
        "COUNT_DISTINCT",
        "The exact number of distinct values; nulls are not counted.",
        (AggregateOverload("(value: any) -> bigint", _count_distinct),),
        example=("COUNT_DISTINCT(name)", "2"),
    ),
    AggregateFunction(
        "SUM",
        "The sum, in the type of the argument; 0 if there are only nulls.",
        _of_each(_sum, ("int", "bigint", "double", "decimal")),
        example=("SUM(amount)", "12"),
    ),
    AggregateFunction(
        "SUM_LIST",
        "The sum of all items of all arrays.",
        tuple(
            AggregateOverload(f"(items: array<{kind}>) -> {kind}", _sum_list, returns=lambda kinds: kinds[0].value_type)
            for kind in ("int", "bigint", "double", "decimal")
        ),
        example=("SUM_LIST(parts)", "12"),
    ),
    AggregateFunction(
        "AVG",
        "The average of the values that are not null; 0 if there are none.",
        tuple(AggregateOverload(f"(value: {kind}) -> double", _average) for kind in ("int", "bigint", "double")),
        example=("AVG(amount)", "4.0"),
    ),
    AggregateFunction("MIN", "The least value.", _of_each(_min, ORDERED), example=("MIN(amount)", "2")),
    AggregateFunction("MAX", "The greatest value.", _of_each(_max, ORDERED), example=("MAX(amount)", "7")),
)
