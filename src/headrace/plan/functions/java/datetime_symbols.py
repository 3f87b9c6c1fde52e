"""The letters of a date-time pattern: a letter and its number of repetitions define a part."""

from __future__ import annotations

from collections.abc import Callable

from headrace.plan.functions.java.datetime_parts import (
    Fraction,
    Number,
    Offset,
    Part,
    ShortYear,
    Sign,
    Words,
    ZoneName,
    ZoneStyle,
)

MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
QUARTERS = ("1st quarter", "2nd quarter", "3rd quarter", "4th quarter")
ANY = 19
"""The maximum number of digits of a number without a width."""

Maker = Callable[[int], Part | None]


def part(letter: str, count: int) -> Part | None:
    """Returns the part of a run of letters; None if it is undefined."""
    maker = _MAKERS.get(letter)
    return maker(count) if maker else None


def _year(field: str) -> Maker:
    def make(count: int) -> Part:
        if count == 2:
            return ShortYear(field, 2, 2)
        return Number(field, count, ANY, Sign.MINUS if count < 4 else Sign.BOTH)

    return make


def _number(field: str, most: int = 2) -> Maker:
    """One letter: any number of digits; more: a fixed width."""

    def make(count: int) -> Part | None:
        if count > most:
            return None
        return Number(field, 1, ANY, Sign.MINUS) if count == 1 else Number(field, count, max(count, most))

    return make


def _at_least(field: str) -> Maker:
    return lambda count: Number(field, count, ANY) if count <= ANY else None


def _words(field: str, short: tuple[str, ...], full: tuple[str, ...], first: int = 1) -> Callable[[int], Part | None]:
    narrow = tuple(word[0] for word in full)
    styles = {3: short, 4: full, 5: narrow}
    return lambda count: Words(field, styles[count], first) if count in styles else None


_month_words = _words("month", tuple(name[:3] for name in MONTHS), MONTHS)
_weekday_words = _words("weekday", tuple(name[:3] for name in WEEKDAYS), WEEKDAYS)
_quarter_words = _words("quarter", ("Q1", "Q2", "Q3", "Q4"), QUARTERS)
_era_words = _words("era", ("BC", "AD"), ("Before Christ", "Anno Domini"), first=0)
_month, _quarter, _us_weekday = _number("month"), _number("quarter"), _number("us_weekday")


def _either(number: Maker, words: Maker) -> Maker:
    return lambda count: number(count) if count <= 2 else words(count)


def _fraction(count: int) -> Part | None:
    return Fraction("nano", count, count) if count <= 9 else None


def _half(count: int) -> Part | None:
    return Words("half", ("AM", "PM"), 0) if count == 1 else None


def _offsets(zeros: tuple[str, ...]) -> Maker:
    styles = ("+HHmm", "+HHMM", "+HH:MM", "+HHMMss", "+HH:MM:ss")
    return lambda count: Offset(styles[count - 1], zeros[count - 1]) if count <= 5 else None


def _rfc_offset(count: int) -> Part | None:
    if count <= 3:
        return Offset("+HHMM", "+0000")
    return {4: Offset("GMT+HH:MM", "GMT"), 5: Offset("+HH:MM:ss", "Z")}.get(count)


def _zone_text(count: int) -> Part | None:
    return ZoneName(ZoneStyle.LONG if count == 4 else ZoneStyle.SHORT) if count <= 4 else None


_MAKERS: dict[str, Maker] = {
    "G": lambda count: _era_words(max(count, 3)),
    "y": _year("year_of_era"),
    "u": _year("year"),
    "Y": _year("week_year"),
    "Q": _either(_quarter, _quarter_words),
    "q": _either(_quarter, _quarter_words),
    "M": _either(_month, _month_words),
    "L": _either(_month, _month_words),
    "w": _number("week"),
    "d": _number("day"),
    "D": _number("day_of_year", most=3),
    "E": lambda count: _weekday_words(max(count, 3)),
    "e": _either(_us_weekday, _weekday_words),
    "c": _either(_us_weekday, _weekday_words),
    "a": _half,
    "H": _number("hour"),
    "k": _number("clock_hour"),
    "K": _number("half_hour"),
    "h": _number("clock_half_hour"),
    "m": _number("minute"),
    "s": _number("second"),
    "S": _fraction,
    "A": _at_least("milli_of_day"),
    "n": _at_least("nano"),
    "N": _at_least("nano_of_day"),
    "V": lambda count: ZoneName(ZoneStyle.ID) if count == 2 else None,
    "z": _zone_text,
    "O": {1: Offset("GMT+H", "GMT"), 4: Offset("GMT+HH:MM", "GMT")}.get,
    "X": _offsets(("Z",) * 5),
    "x": _offsets(("+00", "+0000", "+00:00", "+0000", "+00:00")),
    "Z": _rfc_offset,
}
