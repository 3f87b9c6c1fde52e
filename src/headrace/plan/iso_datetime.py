"""Parses and formats dates, times of day and timestamps in ISO form, for CAST and literals."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta

DAY_MS = 86_400_000
_FIRST = date(1970, 1, 1).toordinal()
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)

_DATE = re.compile(r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2}))?)?", re.ASCII)
_TIME = re.compile(r"(\d{2})(?::(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?)?", re.ASCII)
_ZONE = re.compile(r"(?:Z|UTC|GMT)|([+-])(\d{2}):?(\d{2})?", re.ASCII)


def format_date(days: int) -> str:
    """`2020-01-31`."""
    return date.fromordinal(days + _FIRST).isoformat()


def format_time(at: int) -> str:
    """`09:30`, with seconds and milliseconds if they are not zero: as Java's LocalTime."""
    seconds, millis = divmod(at, 1000)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}"
    if millis:
        return f"{text}:{seconds % 60:02}.{millis:03}"
    return f"{text}:{seconds % 60:02}" if seconds % 60 else text


def format_timestamp(at: int) -> str:
    """`2020-01-31T09:30:00.000`."""
    return (_EPOCH + at * _MILLISECOND).replace(tzinfo=None).isoformat(timespec="milliseconds")


def parse_date(text: str) -> int:
    """Returns days since 1970; a missing month or day defaults to the first."""
    match = _DATE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a date such as 2020-01-31")
    year, month, day = (int(part or 1) for part in match.groups())
    return date(year, month, day).toordinal() - _FIRST


def parse_time(text: str) -> int:
    """Returns milliseconds of the day; seconds are optional."""
    if ":" not in text:
        raise ValueError(f"{text!r} is not a time such as 09:30:00")
    return _clock(text.strip())


def _clock(text: str) -> int:
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a time such as 09:30:00")
    hour, minute, second = (int(part or 0) for part in match.groups()[:3])
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError(f"{text!r} is not a time of a day")
    return ((hour * 60 + minute) * 60 + second) * 1000 + int((match[4] or "").ljust(3, "0")[:3])


def parse_timestamp(text: str) -> int:
    """Returns milliseconds since 1970, from any prefix of `2020-01-31T09:30:00.000+0100`; the default zone is UTC."""
    day, _, rest = text.strip().partition("T")
    match = re.search(r"(Z|UTC|GMT|[+-]\d{2}:?(?:\d{2})?)$", rest)
    clock = rest[: match.start()] if match else rest
    at = parse_date(day) * DAY_MS + (_clock(clock) if clock else 0)
    return at - (_offset(match[1]) if match else 0)


def _offset(zone: str) -> int:
    match = _ZONE.fullmatch(zone)
    if match is None or match[1] is None:
        return 0
    minutes = int(match[2]) * 60 + int(match[3] or 0)
    return minutes * 60_000 * (-1 if match[1] == "-" else 1)
