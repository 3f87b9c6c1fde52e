"""Scalar operations that differ from Python's: Java's number ranges and division, exact decimals, LIKE, subscripts.

None of them is called with null: the generated code has checked before.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import lru_cache, partial
from typing import Any, AnyStr, NoReturn

import regex

from headrace.plan.limits import REGEX_TIMEOUT_SECONDS, check_length, report_regex_timeout

EXACT = Context(prec=400, rounding=ROUND_HALF_UP, Emin=-999999, Emax=999999)
"""Wide enough that sums and products of the widest decimals are exact; Python's default has 28 digits."""


def fail_on_null() -> NoReturn:
    raise ValueError("a lambda does not support null in arithmetic or logic")


def wrap_int(value: int) -> int:
    """Wraps a number to the range of Java's `int`."""
    return ((value + 0x80000000) & 0xFFFFFFFF) - 0x80000000


def wrap_bigint(value: int) -> int:
    """Wraps a number to the range of Java's `long`."""
    return ((value + 0x8000000000000000) & 0xFFFFFFFFFFFFFFFF) - 0x8000000000000000


def divide_int(left: int, right: int) -> int:
    """Truncates toward zero; division by zero raises."""
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def remainder_int(left: int, right: int) -> int:
    """Has the dividend's sign; division by zero raises."""
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
    """Returns a function that rounds half up to that many digits after the point."""
    unit = Decimal((0, (1,), -scale))
    quantize = EXACT.quantize
    return lambda value: quantize(value, unit)


def double_as_decimal(value: float) -> Decimal:
    """Returns the shortest decimal that parses to this double, which is how ksqlDB compares the two kinds of number."""
    if not math.isfinite(value):
        raise ValueError(f"{value} cannot be converted to a DECIMAL")
    return Decimal(repr(value))


def array_item(items: Sequence[Any], index: int) -> Any:
    """Counts from 1, or from the end when negative; null if it does not exist."""
    if 0 < index <= len(items):
        return items[index - 1]
    return items[index] if -len(items) <= index < 0 else None


_LONG = 4096  # characters of a pattern that is not cached


def like_matcher(pattern: str, escape: str | None) -> Callable[[str], bool]:
    """Compiles LIKE's pattern to a matching function; `%` is any text, `_` one character."""
    return (_kept_matcher if len(pattern) <= _LONG else _matcher)(pattern, escape)


def _matcher(pattern: str, escape: str | None) -> Callable[[str], bool]:
    parts = _parts(pattern, escape)
    if not any(None in part for part in parts):
        return partial(_has_parts, ["".join(filter(None, part)) for part in parts])
    compiled = regex.compile(like_pattern(pattern, escape), regex.DOTALL)
    return report_regex_timeout(lambda text: compiled.fullmatch(text, timeout=REGEX_TIMEOUT_SECONDS) is not None)


_kept_matcher = lru_cache(1024)(_matcher)


def _parts(pattern: str, escape: str | None) -> list[list[str | None]]:
    """Returns the characters between the `%`; None is any character."""
    parts: list[list[str | None]] = [[]]
    letters = iter(pattern)
    for letter in letters:
        if letter == escape:
            parts[-1].append(next(letters, letter))
        elif letter == "%":
            parts.append([])
        else:
            parts[-1].append(None if letter == "_" else letter)
    return parts


def _has_parts(parts: Sequence[str], text: str) -> bool:
    """Whether the parts occur in order, each at its first match: linear in the text, however long they are."""
    first, *others = parts
    if not others:
        return text == first
    *middle, last = others
    at, end = len(first), len(text) - len(last)
    if end < at or not (text.startswith(first) and text.endswith(last)):
        return False
    for part in middle:
        index = text.find(part, at, end)
        if index < 0:
            return False
        at = index + len(part)
    return True


def like_pattern(pattern: str, escape: str | None) -> str:
    """Returns a regular expression, for Python and Java, that matches the whole text if a dot is any character.

    Each part between two `%` is matched where it is found first, by an atomic group (`?>`): backtracking to the other
    positions would take time quadratic in the text's length for two parts, cubic for three.
    """
    parts = _parts(pattern, escape)
    first, *middle = ("".join("." if letter is None else re.escape(letter) for letter in part) for part in parts)
    if not middle:
        return first
    *middle, last = middle
    return "".join([first, *(f"(?>.*?{part})" for part in middle if part), ".*", last])


def like(value: str, pattern: str, escape: str | None) -> bool:
    return like_matcher(pattern, escape)(value)


def concat_text(left: AnyStr, right: AnyStr) -> AnyStr:
    check_length(len(left) + len(right))
    return left + right
