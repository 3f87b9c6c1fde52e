"""Dates and times as text, by the patterns of Java's DateTimeFormatter.

`parser` and `formatter` work on moments (ms since 1970) in a zone, their `date_` and `time_` kin on days and on ms of
the day. What a text does not say is the start of 1970; a day past its month's end, up to 31, is the month's last. A
pattern that is wrong raises `BadDatetimePattern` when it is compiled, a text that does not fit raises ValueError.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

from headrace.errors import BadDatetimePattern
from headrace.plan.functions.datetime_letters import part
from headrace.plan.functions.datetime_parts import FAILED, Found, Literal, Number, Part, Section, parse_all
from headrace.plan.functions.days import DAY_MS, day_of, is_leap, month_length, weekday_of
from headrace.plan.functions.moments import Moment
from headrace.plan.functions.zones import zone
from headrace.plan.types import BIGINT_MAX, BIGINT_MIN

UTC = "UTC"
Parts = tuple[Part, ...]


# -- the four ways to use a pattern ---------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def parser(pattern: str) -> Callable[[str, str], int]:
    """A function of text and zone name that gives ms since 1970; a zone or offset in the text goes first."""
    parts = compiled(pattern)

    def parse(text: str, zone_name: str = UTC) -> int:
        found = _read(parts, text, pattern)
        local = _day(found) * DAY_MS + (_time(found) or 0)
        ms = _to_utc(local, found, zone_name)
        if not BIGINT_MIN <= ms <= BIGINT_MAX:
            raise ValueError(f"{text!r} is too far away")
        return ms

    return parse


@lru_cache(maxsize=256)
def formatter(pattern: str) -> Callable[[int, str], str]:
    """A function of ms since 1970 and zone name that gives text."""
    parts = compiled(pattern)

    def write(ms: int, zone_name: str = UTC) -> str:
        place = zone(zone_name)
        days, time = divmod(ms + place.offset(ms), DAY_MS)
        moment = Moment(days, time, place, ms)
        return "".join(part.format(moment) for part in parts)

    return write


@lru_cache(maxsize=256)
def date_parser(pattern: str) -> Callable[[str], int]:
    """A function of text that gives days since 1970."""
    parts = compiled(pattern)
    return lambda text: _day(_read(parts, text, pattern))


@lru_cache(maxsize=256)
def leading_date_parser(pattern: str) -> Callable[[str], int]:
    """The same, but the date may be the beginning of a longer text."""
    parts = compiled(pattern)
    return lambda text: _day(_read(parts, text, pattern, whole=False))


@lru_cache(maxsize=256)
def date_formatter(pattern: str) -> Callable[[int], str]:
    """A function of days since 1970 that gives text; a pattern that asks for a time fails."""
    parts = compiled(pattern)
    return lambda days: "".join(part.format(Moment(days, None)) for part in parts)


@lru_cache(maxsize=256)
def time_parser(pattern: str) -> Callable[[str], int]:
    """A function of text that gives ms of the day; the text must say the hour."""
    parts = compiled(pattern)

    def parse(text: str) -> int:
        time = _time(_read(parts, text, pattern))
        if time is None:
            raise ValueError(f"{text!r} says no hour")
        return time % DAY_MS

    return parse


@lru_cache(maxsize=256)
def time_formatter(pattern: str) -> Callable[[int], str]:
    """A function of ms of the day that gives text; a pattern that asks for a date fails."""
    parts = compiled(pattern)
    return lambda ms: "".join(part.format(Moment(None, ms)) for part in parts)


# -- from a pattern to its parts ------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def compiled(pattern: str) -> Parts:
    """The parts of a pattern."""
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
    found = part(letter, count)
    if found is None:
        raise _bad(pattern, f'"{letter * count}" means nothing', "use the letters of Java's DateTimeFormatter")
    return found


def _quote_end(pattern: str, at: int) -> int:
    """The place after the closing quote; two quotes inside stand for one."""
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
    """The parts, where a number knows how many digits the fixed numbers right after it need."""
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


# -- from fields to a day and a time --------------------------------------------------------------------------------

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


def _read(parts: Parts, text: str, pattern: str, *, whole: bool = True) -> Found:
    found: Found = {}
    end = parse_all(parts, text, 0, found)
    if end == FAILED or (whole and end != len(text)):
        raise ValueError(f"{text!r} does not fit the pattern {pattern!r}")
    for field, (low, high) in _LIMITS.items():
        if field in found and not low <= found[field] <= high:
            raise ValueError(f"{field.replace('_', ' ')} {found[field]} of {text!r} does not exist")
    return found


def _day(found: Found) -> int:
    year = _year(found)
    if "day_of_year" in found and "month" not in found:
        if found["day_of_year"] == 366 and not is_leap(year):
            raise ValueError(f"{year} has no day 366")
        days = day_of(year, 1, 1) + found["day_of_year"] - 1
    else:
        month, day = found.get("month", 1), found.get("day", 1)
        days = day_of(year, month, min(day, month_length(year, month)))
    weekday = found.get("weekday", weekday_of(days))
    if weekday != weekday_of(days) or found.get("us_weekday", weekday % 7 + 1) != weekday % 7 + 1:
        raise ValueError("the day of the week is not that of the date")
    return days


def _year(found: Found) -> int:
    if "year" in found:
        return found["year"]
    if "year_of_era" in found:
        return found["year_of_era"] if found.get("era", 1) else 1 - found["year_of_era"]
    # A leap day without a year needs a year that has one.
    leap = (found.get("month"), found.get("day")) == (2, 29) or found.get("day_of_year") == 366
    return 1972 if leap else 1970


def _time(found: Found) -> int | None:
    """Milliseconds of the day; None if nothing says the hour, or the minute."""
    if "nano_of_day" in found:
        return found["nano_of_day"] // 1_000_000
    if "milli_of_day" in found:
        return found["milli_of_day"]
    hour = _hour(found)
    minute, second, nano = (found.get(field, 0) for field in ("minute", "second", "nano"))
    if hour == 24 and (minute or second or nano):
        raise ValueError("nothing comes after 24:00")
    if hour is None and not minute and not second and not nano:
        return None
    return (((hour or 0) * 60 + minute) * 60 + second) * 1000 + nano // 1_000_000


def _hour(found: Found) -> int | None:
    if "hour" in found:
        return found["hour"]
    if "clock_hour" in found:
        return found["clock_hour"] % 24
    half = found.get("half_hour", found.get("clock_half_hour"))
    if half is None:
        return None
    if "half" not in found:
        raise ValueError("an hour up to 12 needs AM or PM")
    return half % 12 + 12 * found["half"]


def _to_utc(local: int, found: Found, zone_name: str) -> int:
    if "zone" in found:
        return found["zone"].to_utc(local)
    if "offset" in found:
        return local - found["offset"] * 1000
    return zone(zone_name).to_utc(local)
