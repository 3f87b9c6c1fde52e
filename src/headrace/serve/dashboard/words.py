"""Numbers and times as people read them."""

from __future__ import annotations

from datetime import UTC, datetime

_UNITS = ("", "k", "M", "G", "T")


def count(number: float) -> str:
    """
    >>> [count(n) for n in (0, 7, 999, 1_000, 12_345, 2_500_000)]
    ['0', '7', '999', '1 k', '12.3 k', '2.5 M']
    """
    for unit in _UNITS:
        if abs(number) < 1_000 or unit == _UNITS[-1]:
            shown = f"{number:.3g}" if unit or number % 1 else f"{number:.0f}"
            return f"{shown} {unit}".strip()
        number /= 1_000
    raise AssertionError("the last unit takes all")


def rate(a_second: float) -> str:
    """
    >>> rate(0.04), rate(12.6), rate(50_000)
    ('0/s', '13/s', '50 k/s')
    """
    return f"{count(round(a_second) if a_second >= 1 else round(a_second, 1) or 0)}/s"


def moment(ms: int | None) -> str:
    """A time in ms since 1970, in UTC.

    >>> moment(1_500_000_000_123)
    '2017-07-14 02:40:00.123'
    """
    if ms is None:
        return ""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
