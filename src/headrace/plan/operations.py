"""What operators do that Python's own do not: Java's number ranges and division, exact decimals, LIKE, subscripts.

None of these sees a null: the code around them has looked already.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import lru_cache
from typing import Any, NoReturn

EXACT = Context(prec=400, rounding=ROUND_HALF_UP, Emin=-999999, Emax=999999)
"""Wide enough that sums and products of the widest decimals lose nothing; Python's default keeps 28 digits."""


def fail_on_null() -> NoReturn:
    raise ValueError("a null has no place in the arithmetic or logic of a lambda")


def wrap_int(value: int) -> int:
    """What Java's `int` makes of a number outside its range."""
    return ((value + 0x80000000) & 0xFFFFFFFF) - 0x80000000


def wrap_bigint(value: int) -> int:
    """What Java's `long` makes of a number outside its range."""
    return ((value + 0x8000000000000000) & 0xFFFFFFFFFFFFFFFF) - 0x8000000000000000


def divide_int(left: int, right: int) -> int:
    """Toward zero; division by zero raises."""
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def remainder_int(left: int, right: int) -> int:
    """With the dividend's sign; division by zero raises."""
    rest = abs(left) % abs(right)
    return -rest if left < 0 else rest


def divide_double(left: float, right: float) -> float:
    if right:
        return left / right
    if not left or math.isnan(left) or math.isnan(right):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1.0, right)


def remainder_double(left: float, right: float) -> float:
    return math.fmod(left, right) if right and math.isfinite(left) else math.nan


@lru_cache(256)
def scaler(scale: int) -> Callable[[Decimal], Decimal]:
    """Rounds half up to that many digits after the point."""
    unit = Decimal((0, (1,), -scale))
    quantize = EXACT.quantize
    return lambda value: quantize(value, unit)


def double_as_decimal(value: float) -> Decimal:
    """The shortest decimal that reads back as this double, which is how ksqlDB compares the two kinds of number."""
    if not math.isfinite(value):
        raise ValueError(f"{value} has no decimal form")
    return Decimal(repr(value))


def item(items: Sequence[Any], index: int) -> Any:
    """Counted from 1, or from the end when negative; null where there is none."""
    if 0 < index <= len(items):
        return items[index - 1]
    return items[index] if -len(items) <= index < 0 else None


@lru_cache(1024)
def matcher(pattern: str, escape: str | None) -> Callable[[str], Any]:
    """LIKE's pattern as a matching function; `%` is any text, `_` one character."""
    parts: list[str] = []
    letters = iter(pattern)
    for letter in letters:
        if letter == escape:
            parts.append(re.escape(next(letters, letter)))
        else:
            parts.append({"%": ".*", "_": "."}.get(letter) or re.escape(letter))
    return re.compile("".join(parts), re.DOTALL).fullmatch


def like(value: str, pattern: str, escape: str | None) -> bool:
    return matcher(pattern, escape)(value) is not None
