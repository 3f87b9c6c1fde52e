"""Parses and formats dates and times by the patterns of Java's DateTimeFormatter.

`parser` and `formatter` work on timestamps (ms since 1970) in a zone, their `date_` and `time_` variants on days and on
ms of the day. Missing fields default to the start of 1970; a day past its month's end, up to 31, is the month's last.
An invalid pattern raises `BadDatetimePattern` when it is compiled, a text that does not match raises ValueError.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

from headrace.errors import BadDatetimePattern
from headrace.plan.functions.java.datetime_fields import DateTimeValue
from headrace.plan.functions.java.datetime_parts import (
    NO_MATCH,
    Literal,
    Number,
    ParsedFields,
    Part,
    Section,
    parse_all,
)
from headrace.plan.functions.java.datetime_symbols import part
from headrace.plan.functions.java.epoch_days import DAY_MS, day_of, is_leap, month_length, weekday_of
from headrace.plan.functions.java.zones import zone
from headrace.plan.types import BIGINT_MAX, BIGINT_MIN

UTC = "UTC"
MAX_PATTERN = 1000
"""Maximum characters of a pattern."""
Parts = tuple[Part, ...]


# -- parsers and formatters -----------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def parser(pattern: str) -> Callable[[str, str], int]:
    """Returns a function from text and zone name to ms since 1970; a zone or offset in the text has priority."""
    parts = compile_pattern(pattern)

    def parse(text: str, zone_name: str = UTC) -> int:
        fields = _read(parts, text, pattern)
        local = _day(fields) * DAY_MS + (_time(fields) or 0)
        ms = _to_utc(local, fields, zone_name)
        if not BIGINT_MIN <= ms <= BIGINT_MAX:
            raise ValueError(f"{text!r} is too far away")
        return ms

    return parse


@lru_cache(maxsize=256)
def formatter(pattern: str) -> Callable[[int, str], str]:
    """Returns a function from ms since 1970 and zone name to text."""
    parts = compile_pattern(pattern)

    def write(ms: int, zone_name: str = UTC) -> str:
        place = zone(zone_name)
        days, time = divmod(ms + place.offset(ms), DAY_MS)
        moment = DateTimeValue(days, time, place, ms)
        return "".join(part.format(moment) for part in parts)

    return write


@lru_cache(maxsize=256)
def date_parser(pattern: str) -> Callable[[str], int]:
    """Returns a function from text to days since 1970."""
    parts = compile_pattern(pattern)
    return lambda text: _day(_read(parts, text, pattern))


@lru_cache(maxsize=256)
def leading_date_parser(pattern: str) -> Callable[[str], int]:
    """The same, but the date may be a prefix of a longer text."""
    parts = compile_pattern(pattern)
    return lambda text: _day(_read(parts, text, pattern, whole=False))


@lru_cache(maxsize=256)
def date_formatter(pattern: str) -> Callable[[int], str]:
    """Returns a function from days since 1970 to text; it fails if the pattern has time fields."""
    parts = compile_pattern(pattern)
    return lambda days: "".join(part.format(DateTimeValue(days, None)) for part in parts)


@lru_cache(maxsize=256)
def time_parser(pattern: str) -> Callable[[str], int]:
    """Returns a function from text to ms of the day; the text must contain the hour."""
    parts = compile_pattern(pattern)

    def parse(text: str) -> int:
        time = _time(_read(parts, text, pattern))
        if time is None:
            raise ValueError(f"{text!r} has no hour")
        return time % DAY_MS

    return parse


@lru_cache(maxsize=256)
def time_formatter(pattern: str) -> Callable[[int], str]:
    """Returns a function from ms of the day to text; it fails if the pattern has date fields."""
    parts = compile_pattern(pattern)
    return lambda ms: "".join(part.format(DateTimeValue(None, ms)) for part in parts)


# -- compiling a pattern --------------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def compile_pattern(pattern: str) -> Parts:
    """Returns the parts of a pattern."""
    if len(pattern) > MAX_PATTERN:
        raise ValueError(f"a date pattern has at most {MAX_PATTERN} characters")
    levels: list[list[Part]] = [[]]
    at = 0
    while at < len(pattern):
        letter = pattern[at]
        end = at + 1
        if letter.isascii() and letter.isalpha():
            while pattern[end : end + 1] == letter:
                end += 1
            levels[-1].append(_lettered(pattern, letter, end - at))
        elif letter == "'":
            end = _quote_end(pattern, at)
            levels[-1].append(Literal(pattern[at + 1 : end - 1].replace("''", "'") or "'"))
        elif letter == "[":
            levels.append([])
        elif letter == "]":
            _close(pattern, levels)
        elif letter in "{}#":
            raise _bad(pattern, f'"{letter}" is reserved', f"put it in quotes: '{letter}'")
        else:
            levels[-1].append(Literal(letter))
        at = end
    while len(levels) > 1:
        _close(pattern, levels)
    return _reserved(levels[0])


def _lettered(pattern: str, letter: str, count: int) -> Part:
    letter_part = part(letter, count)
    if letter_part is None:
        raise _bad(
            pattern, f'"{letter * count}" is not a pattern letter', "use the letters of Java's DateTimeFormatter"
        )
    return letter_part


def _quote_end(pattern: str, at: int) -> int:
    """Returns the position after the closing quote; two quotes inside stand for one."""
    at += 1
    while (end := pattern.find("'", at)) != -1:
        if pattern[end : end + 2] != "''":
            return end + 1
        at = end + 2
    raise _bad(pattern, "a quote is not closed", "close it, or write two quotes for one")


def _close(pattern: str, levels: list[list[Part]]) -> None:
    if len(levels) == 1:
        raise _bad(pattern, '"]" has no "["', "put it in quotes, or open the optional section")
    section = Section(_reserved(levels.pop()))
    levels[-1].append(section)


def _reserved(parts: list[Part]) -> Parts:
    """Returns the parts; each number knows how many digits the fixed-width numbers right after it need."""
    parts = list(parts)
    first: int | None = None
    for place, item in enumerate(parts):
        if not isinstance(item, Number):
            first = None
        elif first is not None and item.is_fixed:
            leader = parts[first]
            assert isinstance(leader, Number)
            parts[first] = replace(leader, reserve=leader.reserve + item.high)
        else:
            first = place
    return tuple(parts)


def _bad(pattern: str, what: str, fix: str) -> BadDatetimePattern:
    return BadDatetimePattern(f'{what} in the date-time pattern "{pattern}"', fix=fix)


# -- resolving fields -----------------------------------------------------------------------------------------------

_LIMITS: dict[str, tuple[int, int]] = {
    "year": (-999_999_999, 999_999_999),
    "year_of_era": (1, 999_999_999),
    "quarter": (1, 4),
    "month": (1, 12),
    "day": (1, 31),
    "day_of_year": (1, 366),
    "us_weekday": (1, 7),
    "hour": (0, 24),
    "clock_hour": (1, 24),
    "half_hour": (0, 11),
    "clock_half_hour": (1, 12),
    "minute": (0, 59),
    "second": (0, 59),
    "milli_of_day": (0, DAY_MS - 1),
    "nano_of_day": (0, DAY_MS * 1_000_000 - 1),
    "nano": (0, 999_999_999),
}


def _read(parts: Parts, text: str, pattern: str, *, whole: bool = True) -> ParsedFields:
    fields: ParsedFields = {}
    end = parse_all(parts, text, 0, fields)
    if end == NO_MATCH or (whole and end != len(text)):
        raise ValueError(f"{text!r} does not fit the pattern {pattern!r}")
    for field, (low, high) in _LIMITS.items():
        if field in fields and not low <= fields[field] <= high:
            raise ValueError(f"{field.replace('_', ' ')} {fields[field]} of {text!r} does not exist")
    return fields


def _day(fields: ParsedFields) -> int:
    year = _year(fields)
    if "day_of_year" in fields and "month" not in fields:
        if fields["day_of_year"] == 366 and not is_leap(year):
            raise ValueError(f"{year} has no day 366")
        days = day_of(year, 1, 1) + fields["day_of_year"] - 1
    else:
        month, day = fields.get("month", 1), fields.get("day", 1)
        days = day_of(year, month, min(day, month_length(year, month)))
    weekday = fields.get("weekday", weekday_of(days))
    if weekday != weekday_of(days) or fields.get("us_weekday", weekday % 7 + 1) != weekday % 7 + 1:
        raise ValueError("the day of the week is not that of the date")
    return days


def _year(fields: ParsedFields) -> int:
    if "year" in fields:
        return fields["year"]
    if "year_of_era" in fields:
        return fields["year_of_era"] if fields.get("era", 1) else 1 - fields["year_of_era"]
    # A leap day without a year needs a year that has one.
    leap = (fields.get("month"), fields.get("day")) == (2, 29) or fields.get("day_of_year") == 366
    return 1972 if leap else 1970


def _time(fields: ParsedFields) -> int | None:
    """Returns the milliseconds of the day; None without an hour, or without a minute."""
    if "nano_of_day" in fields:
        return fields["nano_of_day"] // 1_000_000
    if "milli_of_day" in fields:
        return fields["milli_of_day"]
    hour = _hour(fields)
    minute, second, nano = (fields.get(field, 0) for field in ("minute", "second", "nano"))
    if hour == 24 and (minute or second or nano):
        raise ValueError("24:00 cannot be followed by other parts")
    if hour is None and not minute and not second and not nano:
        return None
    return (((hour or 0) * 60 + minute) * 60 + second) * 1000 + nano // 1_000_000


def _hour(fields: ParsedFields) -> int | None:
    if "hour" in fields:
        return fields["hour"]
    if "clock_hour" in fields:
        return fields["clock_hour"] % 24
    half = fields.get("half_hour", fields.get("clock_half_hour"))
    if half is None:
        return None
    if "half" not in fields:
        raise ValueError("an hour up to 12 needs AM or PM")
    return half % 12 + 12 * fields["half"]


def _to_utc(local: int, fields: ParsedFields, zone_name: str) -> int:
    if "zone" in fields:
        return fields["zone"].to_utc(local)
    if "offset" in fields:
        return local - fields["offset"] * 1000
    return zone(zone_name).to_utc(local)
