"""Formats numbers, times and other values for people."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime, timedelta
from typing import Any

from headrace.settings import Size, duration_text, size_text

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS = ("", "k", "M", "G", "T")


def format_count(number: float) -> str:
    """
    >>> [format_count(n) for n in (0, 7, 999, 1_000, 12_345, 2_500_000)]
    ['0', '7', '999', '1 k', '12.3 k', '2.5 M']
    """
    for unit in _UNITS:
        if abs(number) < 1_000 or unit == _UNITS[-1]:
            text = f"{number:.3g}" if unit or number % 1 else f"{number:.0f}"
            return f"{text} {unit}".strip()
        number /= 1_000
    raise AssertionError("the last unit takes all")


def format_rate(a_second: float) -> str:
    """
    >>> format_rate(0.04), format_rate(12.6), format_rate(50_000)
    ('0/s', '13/s', '50 k/s')
    """
    return f"{format_count(round(a_second) if a_second >= 1 else round(a_second, 1) or 0)}/s"


def format_time(ms: int | None) -> str:
    """A time in ms since 1970, in UTC.

    >>> format_time(1_500_000_000_123)
    '2017-07-14 02:40:00.123'
    >>> format_time(10**17), format_time(-(10**17))  # outside the calendar
    ('100000000000000000 ms', '-100000000000000000 ms')
    """
    if ms is None:
        return ""
    try:
        at = _EPOCH + timedelta(milliseconds=ms)
    except OverflowError:
        return f"{ms} ms"
    return f"{at:%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03}"


def format_number(number: float) -> str:
    """A number by itself: in full as long as that can be read.

    >>> [format_number(n) for n in (1_234_567, 1_234_567.891, 0.25, -3.0, 1e-9, 2.5e300)]
    ['1,234,567', '1,234,567.89', '0.25', '-3', '1e-09', '2.5e+300']
    """
    if isinstance(number, int):
        return f"{number:,}"
    size = abs(number)
    if not math.isfinite(number) or size >= 1e15 or 0 < size < 1e-4:
        return f"{number:.6g}"
    text = f"{number:,.2f}" if size >= 100 else f"{number:.6f}"
    return text.rstrip("0").rstrip(".")


def plural(number: int, noun: str, nouns: str = "") -> str:
    """
    >>> plural(1, "row"), plural(1_200, "match", "matches")
    ('1 row', '1,200 matches')
    """
    return f"{number:,} {noun if number == 1 else nouns or f'{noun}s'}"


def plain_text(value: Any) -> str:
    """Any value as text, never as Python code.

    >>> [plain_text(one) for one in (None, True, 1_048_576, "a", timedelta(minutes=1), ["a", 2], {"a": [1]})]
    ['–', 'yes', '1,048,576', 'a', '1m', 'a, 2', '{"a": [1]}']
    """
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return size_text(value) if isinstance(value, Size) else f"{value:,}"
    if isinstance(value, timedelta):
        return duration_text(value)
    if isinstance(value, list | tuple | set | frozenset):
        return ", ".join(map(plain_text, value))
    return json.dumps(value, default=str) if isinstance(value, dict) else str(value)
