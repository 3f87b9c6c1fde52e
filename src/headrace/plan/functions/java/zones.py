"""Time zones by their Java names, and their offsets at any BIGINT timestamp."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo

from headrace.plan.functions.java.epoch_days import CYCLE_DAYS, DAY_MS
from headrace.plan.functions.java.zone_names import LETTERS, LONG, SHORT

_OFFSET = re.compile(r"([+-])(\d{1,2})(?::?(\d{2})(?::?(\d{2}))?)?")
_PREFIXED = re.compile(r"(UTC|GMT|UT)(.+)")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CYCLE_MS = CYCLE_DAYS * DAY_MS
# A day's margin on both sides, so that no offset leaves Python's range.
_FIRST_MS, _LAST_MS = -719_161 * DAY_MS, 2_932_895 * DAY_MS


@dataclass(frozen=True)
class Zone:
    """A zone by its name; its offset depends on the time."""

    name: str
    rules: tzinfo

    def offset(self, ms: int) -> int:
        """Returns the milliseconds east of UTC at a time."""
        return _ms(self._at(ms).utcoffset())

    def to_utc(self, local_ms: int) -> int:
        """Converts a local time; one in a daylight-saving gap moves forward, one in an overlap is the earlier."""
        local = (_EPOCH + timedelta(milliseconds=_within(local_ms))).replace(tzinfo=self.rules)
        return local_ms - _ms(local.utcoffset())

    def short_name(self, ms: int) -> str:
        """Such as PDT; the offset where the zone has no abbreviation."""
        if isinstance(self.rules, timezone):
            return self.name
        local = self._at(ms)
        name = local.tzname() or ""
        if name[:1] not in "+-":
            return name
        if self.name in LETTERS:
            return LETTERS[self.name][bool(local.dst())]
        return "GMT" + offset_text(self.offset(ms) // 1000, ":")

    def long_name(self, ms: int) -> str:
        short = self.short_name(ms)
        return LONG.get(short, short)

    def _at(self, ms: int) -> datetime:
        return (_EPOCH + timedelta(milliseconds=_within(ms))).astimezone(self.rules)


def _within(ms: int) -> int:
    """Returns a time inside Python's range with the same rules: the calendar repeats after 400 years."""
    if ms > _LAST_MS:
        return ms - ((ms - _LAST_MS) // _CYCLE_MS + 1) * _CYCLE_MS
    return max(ms, _FIRST_MS)


def _ms(offset: timedelta | None) -> int:
    return 0 if offset is None else offset // timedelta(milliseconds=1)


@lru_cache(maxsize=1024)
def zone(name: str) -> Zone:
    """Returns a zone by name: a region, UTC, an offset such as +0100 or GMT+1, or a well-known abbreviation."""
    if name in ("Z", "UTC", "GMT", "UT"):
        return Zone(name, UTC)
    prefixed = _PREFIXED.fullmatch(name)
    seconds = offset_seconds(prefixed[2] if prefixed else name)
    if seconds is not None:
        offset_name = offset_text(seconds, ":") if seconds else "Z"
        return Zone(
            prefixed[1] + (offset_name if seconds else "") if prefixed else offset_name,
            timezone(timedelta(seconds=seconds)),
        )
    return Zone(name, _region(name))


def _region(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(SHORT.get(name, name))
    except (KeyError, ValueError, OSError) as error:
        raise ValueError(f'time zone "{name}" does not exist') from error


def offset_seconds(text: str) -> int | None:
    """Returns the seconds east of UTC of an offset; None if the text is no offset.

    >>> offset_seconds("+01:30"), offset_seconds("-8"), offset_seconds("+19")
    (5400, -28800, None)
    """
    match = _OFFSET.fullmatch(text)
    if match is None:
        return None
    hours, minutes, seconds = (int(group or 0) for group in match.groups()[1:])
    total = hours * 3600 + minutes * 60 + seconds
    if minutes > 59 or seconds > 59 or total > 18 * 3600:
        return None
    return -total if match[1] == "-" else total


def offset_text(seconds: int, colon: str) -> str:
    """Such as +01:00, with seconds only where there are some."""
    hours, rest = divmod(abs(seconds), 3600)
    minutes, rest = divmod(rest, 60)
    text = f"{'-' if seconds < 0 else '+'}{hours:02}{colon}{minutes:02}"
    return f"{text}{colon}{rest:02}" if rest else text
