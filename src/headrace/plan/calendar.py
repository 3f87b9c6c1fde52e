"""Dates, times of day and timestamps as text, in ISO's form: how CAST reads and writes them, and literals are read."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta

DAY = 86_400_000
_FIRST = date(1970, 1, 1).toordinal()
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)

_DATE = re.compile(r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2}))?)?", re.ASCII)
_TIME = re.compile(r"(\d{2})(?::(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?)?", re.ASCII)
_ZONE = re.compile(r"(?:Z|UTC|GMT)|([+-])(\d{2}):?(\d{2})?", re.ASCII)


def date_text(days: int) -> str:
    """`2020-01-31`."""
    return date.fromordinal(days + _FIRST).isoformat()


def time_text(at: int) -> str:
    """`09:30`, with seconds and milliseconds where there are some: as Java's LocalTime."""
    seconds, millis = divmod(at, 1000)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}"
    if millis:
        return f"{text}:{seconds % 60:02}.{millis:03}"
    return f"{text}:{seconds % 60:02}" if seconds % 60 else text


def timestamp_text(at: int) -> str:
    """`2020-01-31T09:30:00.000`."""
    return (_EPOCH + at * _MILLISECOND).replace(tzinfo=None).isoformat(timespec="milliseconds")


def date_in(text: str) -> int:
    """Days since 1970; a month or day that is missing is the first."""
    match = _DATE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a date such as 2020-01-31")
    year, month, day = (int(part or 1) for part in match.groups())
    return date(year, month, day).toordinal() - _FIRST


def time_in(text: str) -> int:
    """Milliseconds of the day; seconds may be missing."""
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


def timestamp_in(text: str) -> int:
    """Milliseconds since 1970, from as much of `2020-01-31T09:30:00.000+0100` as is there; without a zone it is UTC."""
    day, _, rest = text.strip().partition("T")
    match = re.search(r"(Z|UTC|GMT|[+-]\d{2}:?(?:\d{2})?)$", rest)
    clock = rest[: match.start()] if match else rest
    at = date_in(day) * DAY + (_clock(clock) if clock else 0)
    return at - (_offset(match[1]) if match else 0)


def _offset(zone: str) -> int:
    match = _ZONE.fullmatch(zone)
    if match is None or match[1] is None:
        return 0
    minutes = int(match[2]) * 60 + int(match[3] or 0)
    return minutes * 60_000 * (-1 if match[1] == "-" else 1)
