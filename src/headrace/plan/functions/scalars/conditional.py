"""Functions that choose one of several values: the first that is not null, the greatest, the least."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import reduce
from typing import Any

import pyarrow as pa

from headrace.plan.functions.declaration import Function, NullRule, Overload, never_growing
from headrace.plan.functions.java.natural_order import equality_key, order_key
from headrace.plan.functions.scalars.rounding import rescaled
from headrace.plan.types import NULL, as_decimal, is_decimal, wider_number

AREA = "choice"


def first(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


def _unless_equal(types: Sequence[pa.DataType]) -> Callable[[Any, Any], Any]:
    key = equality_key(types[0] if types[0] != NULL else types[1])

    def unless_equal(value: Any, other: Any) -> Any:
        same = value == other if key is None else key(value) == key(other)
        return None if same else value

    return unless_equal


# -- the greatest and the least -------------------------------------------------------------------------------------


def widest(types: Sequence[pa.DataType]) -> pa.DataType:
    """Returns the type that can hold each of the arguments."""
    known = [as_decimal(kind) for kind in types if kind != NULL]
    return reduce(lambda left, right: wider_number(left, right) or left, known)


def _extreme(choose: Callable[..., Any]) -> Callable[[Sequence[pa.DataType]], Callable[..., Any]]:
    """Returns a factory for the greatest or least of the values that are not null."""

    def make(types: Sequence[pa.DataType]) -> Callable[..., Any]:
        known = [kind for kind in types if kind != NULL]
        kind = widest(known) if is_decimal(known[0]) else known[0]
        key = order_key(kind)

        def extreme(*values: Any) -> Any:
            present = [value for value in values if value is not None]
            result = choose(present, key=key) if present else None
            return rescaled(result, kind.scale) if isinstance(result, Decimal) else result

        return extreme

    return make


_KINDS = ("int", "bigint", "double", "string", "bytes", "date", "time", "timestamp")


def _extremes(choose: Callable[..., Any]) -> tuple[Overload, ...]:
    make = _extreme(choose)
    overloads = [
        Overload(f"(first: {kind}, more: {kind}...) -> {kind}", make, NullRule.PASS, typed=True) for kind in _KINDS
    ]
    widening = Overload(
        "(first: decimal, more: decimal...) -> decimal", make, NullRule.PASS, returns=widest, typed=True
    )
    return never_growing(*overloads, widening)


FUNCTIONS = (
    Function(
        "COALESCE",
        "The first of the values that is not null.",
        never_growing(Overload("(first: T, more: T...) -> T", first, NullRule.PASS)),
        ("COALESCE(NULL, 'b', 'c')", "'b'"),
        area=AREA,
    ),
    Function(
        "IFNULL",
        "The value, or an alternative if it is null.",
        never_growing(Overload("(value: T, otherwise: T) -> T", first, NullRule.PASS, spark="coalesce({0}, {1})")),
        ("IFNULL(NULL, 'b')", "'b'"),
        area=AREA,
    ),
    Function(
        "NULLIF",
        "The value, or null if it equals the second argument.",
        never_growing(Overload("(value: T, other: T) -> T", _unless_equal, NullRule.PASS, typed=True)),
        ("NULLIF('a', 'b')", "'a'"),
        area=AREA,
    ),
    Function(
        "AS_VALUE",
        "Copies a key column into the value.",
        never_growing(Overload("(key: T) -> T", first, NullRule.PASS, spark="{0}")),
        ("AS_VALUE(5)", "5"),
        area=AREA,
    ),
    Function(
        "GREATEST",
        "The greatest of the values that are not null.",
        _extremes(max),
        ("GREATEST(3, 7, 5)", "7"),
        area=AREA,
    ),
    Function(
        "LEAST",
        "The least of the values that are not null.",
        _extremes(min),
        ("LEAST(3, 7, 5)", "3"),
        area=AREA,
    ),
)
