"""Powers, logarithms, trigonometry: as java.lang.Math on doubles; undefined results are NaN or an infinity."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from math import copysign, inf, isfinite, isinf, isnan, nan

from headrace.plan.functions.declaration import Function, Overload
from headrace.plan.functions.replay_context import random_bytes

AREA = "math"


def _total(function: Callable[[float], float]) -> Callable[[float], float]:
    """Wraps the function: NaN outside its domain, and an infinity of the argument's sign on overflow."""

    def compute(value: float) -> float:
        try:
            return function(value)
        except ValueError:
            return nan
        except OverflowError:
            return copysign(inf, value)

    return compute


def exp(value: float) -> float:
    try:
        return math.exp(value)
    except OverflowError:
        return inf


def cosh(value: float) -> float:
    try:
        return math.cosh(value)
    except OverflowError:
        return inf


def cbrt(value: float) -> float:
    """Returns the nearest double: the C library may be off by one, so that the root of 27 would not be 3."""
    guess = math.cbrt(value)
    if guess == 0 or not isfinite(guess):
        return guess
    near = (guess, math.nextafter(guess, inf), math.nextafter(guess, -inf))
    return min(near, key=lambda root: abs(Fraction(root) ** 3 - Fraction(value)))


def fraction() -> float:
    """Returns a random double in [0, 1) with all bits of its precision."""
    return (int.from_bytes(random_bytes()[:8]) >> 11) / (1 << 53)


def ln(value: float) -> float:
    if value == 0:
        return -inf
    return math.log(value) if value > 0 else nan


def log(base: float, value: float) -> float:
    if isnan(base) or base <= 0 or base == 1:
        return nan
    below = ln(base)
    above = ln(value)
    return nan if isinf(above) and isinf(below) else above / below


def power(base: float, exponent: float) -> float:
    if exponent == 0:
        return 1.0
    # C's pow, and so Python's, returns 1 here.
    if isnan(exponent) or isnan(base) or (abs(base) == 1 and isinf(exponent)):
        return nan
    negative = copysign(1.0, base) < 0 and exponent % 2 == 1
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return -inf if negative else inf
    except ValueError:  # zero to a negative power, or a root of a negative number
        return (-inf if negative else inf) if base == 0 else nan


def cot(value: float) -> float:
    tangent = _tan(value)
    return copysign(inf, value) if tangent == 0 else 1.0 / tangent


_tan = _total(math.tan)


def _double(
    name: str, doc: str, python: Callable[..., float], example: tuple[str, str], spark: str | None = None
) -> Function:
    """Declares a function of one double."""
    overload = Overload("(value: double) -> double", python, spark=spark)
    return Function(name, doc, (overload,), example, area=AREA)


FUNCTIONS = (
    _double("SQRT", "The square root; NaN for negative numbers.", _total(math.sqrt), ("SQRT(9)", "3.0"), "sqrt({0})"),
    _double("CBRT", "The cube root.", cbrt, ("CBRT(27)", "3.0")),
    _double("EXP", "e to the power of a number.", exp, ("EXP(0)", "1.0")),
    _double("LN", "The natural logarithm; minus infinity for zero, NaN for negative numbers.", ln, ("LN(1)", "0.0")),
    Function(
        "LOG",
        "The natural logarithm, or the logarithm to a base; NaN if the base is 1 or not positive.",
        (
            Overload("(value: double) -> double", ln),
            Overload("(base: double, value: double) -> double", log),
        ),
        ("LOG(2, 8)", "3.0"),
        area=AREA,
    ),
    Function(
        "POWER",
        "A number raised to the power of another.",
        (Overload("(base: double, exponent: double) -> double", power),),
        ("POWER(2, 10)", "1024.0"),
        area=AREA,
    ),
    Function(
        "PI",
        "The ratio of a circle's circumference to its diameter.",
        (Overload("() -> double", lambda: math.pi, spark="pi()"),),
        ("PI()", "3.141592653589793"),
        area=AREA,
    ),
    _double("RADIANS", "Degrees as radians.", math.radians, ("RADIANS(180)", "3.141592653589793"), "radians({0})"),
    _double("DEGREES", "Radians as degrees.", math.degrees, ("DEGREES(PI())", "180.0"), "degrees({0})"),
    _double("SIN", "The sine of an angle in radians.", _total(math.sin), ("SIN(0)", "0.0")),
    _double("COS", "The cosine of an angle in radians.", _total(math.cos), ("COS(0)", "1.0")),
    _double("TAN", "The tangent of an angle in radians.", _tan, ("TAN(0)", "0.0")),
    _double("COT", "The cotangent of an angle in radians; infinite at zero.", cot, ("COT(0) > 1", "true")),
    _double("ASIN", "The arc sine, in radians; NaN outside -1 to 1.", _total(math.asin), ("ASIN(0)", "0.0")),
    _double("ACOS", "The arc cosine, in radians; NaN outside -1 to 1.", _total(math.acos), ("ACOS(1)", "0.0")),
    _double("ATAN", "The arc tangent, in radians.", math.atan, ("ATAN(0)", "0.0")),
    Function(
        "ATAN2",
        "The angle in radians between the x axis and the point (x, y).",
        (Overload("(y: double, x: double) -> double", math.atan2),),
        ("ATAN2(0, 1)", "0.0"),
        area=AREA,
    ),
    _double("SINH", "The hyperbolic sine.", _total(math.sinh), ("SINH(0)", "0.0")),
    _double("COSH", "The hyperbolic cosine.", cosh, ("COSH(0)", "1.0")),
    _double("TANH", "The hyperbolic tangent.", math.tanh, ("TANH(0)", "0.0")),
    Function(
        "RANDOM",
        "A random number from 0.0 up to, but not including, 1.0.",
        (Overload("() -> double", fraction),),
        ("RANDOM() < 1.0", "true"),
        area=AREA,
        repeatable=False,
    ),
)
