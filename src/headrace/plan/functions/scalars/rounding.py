"""Rounding and integer functions: ABS, SIGN, CEIL, FLOOR, ROUND, TRUNC, and series of integers.

Integers wrap in their type's range as in Java, decimals keep their scale, and a half rounds up, towards plus infinity.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_DOWN, ROUND_HALF_UP, Context, Decimal
from math import copysign, isfinite, isnan
from typing import Any

import pyarrow as pa

from headrace.plan.functions.declaration import Function, Overload
from headrace.plan.limits import check_items
from headrace.plan.types import BIGINT_MAX, BIGINT_MIN, INT_MIN, decimal

CONTEXT = Context(prec=160, rounding=ROUND_HALF_UP)
"""Wide enough for a decimal of 76 digits with as many more after the point."""

AREA = "math"


# -- result types ---------------------------------------------------------------------------------------------------


def same(types: Sequence[pa.DataType]) -> pa.DataType:
    return types[0]


def whole(types: Sequence[pa.DataType]) -> pa.DataType:
    """Returns the decimal type of the digits before the point."""
    return decimal(max(1, types[0].precision - types[0].scale), 0)


# -- rescaling ------------------------------------------------------------------------------------------------------


def rescaled(value: Decimal, scale: int, rounding: str | None = None) -> Decimal:
    """Returns the value with `scale` digits after the point; there is no negative zero."""
    return CONTEXT.plus(value.quantize(Decimal(1).scaleb(-scale), rounding, CONTEXT))


def _scale(value: Decimal) -> int:
    exponent = value.as_tuple().exponent
    assert isinstance(exponent, int), "a decimal is a finite number"
    return -exponent


def _half(value: Decimal) -> str:
    """A half rounds up, so below zero it rounds towards zero."""
    return ROUND_HALF_UP if value > 0 else ROUND_HALF_DOWN


def _down(value: Decimal) -> str:
    return ROUND_DOWN


def _rounders(mode: Callable[[Decimal], str]) -> tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]:
    """Returns the functions for a decimal to an integer, a decimal to some places with its scale kept, and a double."""

    def to_whole(value: Decimal) -> Decimal:
        return rescaled(value, 0, mode(value))

    def to_places(value: Decimal, places: int) -> Decimal:
        scale = _scale(value)
        return value if places >= scale else rescaled(rescaled(value, places, mode(value)), scale)

    def double_to_places(value: float, places: int) -> float:
        if not isfinite(value):
            raise ValueError(f"{value} has no decimal places")
        exact = Decimal(repr(value))
        return value if places >= _scale(exact) else float(rescaled(exact, places, mode(exact)))

    return to_whole, to_places, double_to_places


_round_whole, _round_places, _round_double = _rounders(_half)
_trunc_whole, _trunc_places, _trunc_double = _rounders(_down)


def _cut(rounding: str) -> Callable[[Decimal], Decimal]:
    """Removes the fraction but keeps the scale."""
    return lambda value: rescaled(rescaled(value, 0, rounding), max(0, _scale(value)))


# -- doubles --------------------------------------------------------------------------------------------------------


def _saturated(value: float, to_int: Callable[[float], int]) -> int:
    """Casts a double to BIGINT as Java does: NaN is zero, and values out of range become the nearest bound."""
    if isnan(value):
        return 0
    if value >= BIGINT_MAX:
        return BIGINT_MAX
    return BIGINT_MIN if value <= BIGINT_MIN else to_int(value)


def _nearest(value: float) -> int:
    below = math.floor(value)
    return below + (value - below >= 0.5)


def round_double(value: float) -> int:
    return _saturated(value, _nearest)


def trunc_double(value: float) -> int:
    return _saturated(value, math.trunc)


def ceil_double(value: float) -> float:
    return copysign(math.ceil(value), value) if isfinite(value) else value


def floor_double(value: float) -> float:
    return copysign(math.floor(value), value) if isfinite(value) else value


# -- integers -------------------------------------------------------------------------------------------------------


def _as_is(value: int) -> int:
    return value


def abs_int(value: int) -> int:
    return value if value == INT_MIN else abs(value)


def abs_bigint(value: int) -> int:
    return value if value == BIGINT_MIN else abs(value)


def sign(value: float) -> int:
    return (value > 0) - (value < 0)


def series(start: int, end: int, step: int | None = None) -> list[int]:
    if step is None:
        step = 1 if end >= start else -1
    if step == 0:
        raise ValueError("the step of a series must not be zero")
    if (end - start) * step < 0:
        raise ValueError("the step of a series must lead from its start to its end")
    check_items((end - start) // step + 1)
    return list(range(start, end + (1 if step > 0 else -1), step))


def _rounding(name: str, doc: str, python: tuple[Callable[..., Any], ...], example: tuple[str, str]) -> Function:
    """Declares ROUND or TRUNC: to an integer, or to decimal places."""
    double, double_places, to_whole, to_places = python
    return Function(
        name,
        doc,
        (
            Overload("(value: int) -> bigint", _as_is, spark="cast({0} as bigint)"),
            Overload("(value: bigint) -> bigint", _as_is, spark="{0}"),
            Overload("(value: double) -> bigint", double),
            Overload("(value: decimal) -> decimal", to_whole, returns=whole),
            Overload("(value: double, places: int) -> double", double_places),
            Overload("(value: decimal, places: int) -> decimal", to_places, returns=same),
        ),
        example,
        area=AREA,
    )


def _integral(name: str, doc: str, double: Callable[..., Any], rounding: str, example: tuple[str, str]) -> Function:
    """Declares CEIL or FLOOR."""
    return Function(
        name,
        doc,
        (
            Overload("(value: int) -> int", _as_is, spark="{0}"),
            Overload("(value: bigint) -> bigint", _as_is, spark="{0}"),
            Overload("(value: double) -> double", double),
            Overload("(value: decimal) -> decimal", _cut(rounding), returns=same),
        ),
        example,
        area=AREA,
    )


FUNCTIONS = (
    Function(
        "ABS",
        "The absolute value; the least integer of a type stays as it is.",
        (
            Overload("(value: int) -> int", abs_int),
            Overload("(value: bigint) -> bigint", abs_bigint),
            Overload("(value: double) -> double", abs, spark="abs({0})"),
            # Spark's own rounds a decimal of more than 34 digits.
            Overload("(value: decimal) -> decimal", Decimal.copy_abs, returns=same),
        ),
        ("ABS(-3)", "3"),
        area=AREA,
    ),
    Function(
        "SIGN",
        "The sign of a number: -1, 0 or 1.",
        (Overload("(value: double) -> int", sign),),
        ("SIGN(-2.5)", "-1"),
        area=AREA,
    ),
    _integral("CEIL", "The value rounded up to a whole number.", ceil_double, ROUND_CEILING, ("CEIL(1.2)", "2.0")),
    _integral("FLOOR", "The value rounded down to a whole number.", floor_double, ROUND_FLOOR, ("FLOOR(1.8)", "1.0")),
    _rounding(
        "ROUND",
        "The value rounded to a whole number, or to a number of decimal places; halves are rounded up.",
        (round_double, _round_double, _round_whole, _round_places),
        ("ROUND(2.5)", "3"),
    ),
    _rounding(
        "TRUNC",
        "The value cut off to a whole number, or to a number of decimal places.",
        (trunc_double, _trunc_double, _trunc_whole, _trunc_places),
        ("TRUNC(2.9)", "2"),
    ),
    Function(
        "GENERATE_SERIES",
        "The integers from a start to an end, both included, in steps of one or of `step`.",
        (
            Overload("(start: int, end: int) -> array<int>", series),
            Overload("(start: bigint, end: bigint) -> array<bigint>", series),
            Overload("(start: int, end: int, step: int) -> array<int>", series),
            Overload("(start: bigint, end: bigint, step: int) -> array<bigint>", series),
        ),
        ("GENERATE_SERIES(1, 7, 3)", "ARRAY[1, 4, 7]"),
        area="array",
    ),
)
