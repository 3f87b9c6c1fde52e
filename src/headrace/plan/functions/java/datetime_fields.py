"""A date, a time of day, or both in a zone, and their fields."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from headrace.plan.functions.java.epoch_days import date_of, day_of_year, weekday_of
from headrace.plan.functions.java.zones import Zone


@dataclass(frozen=True)
class DateTimeValue:
    """The value to format: a date, a time of day in ms, or both in a zone."""

    days: int | None
    time: int | None
    zone: Zone | None = None
    ms: int = 0

    def value(self, field: str) -> int:
        in_date = field in DATE_FIELDS
        source = self.days if in_date else self.time
        if source is None:
            raise ValueError(f"a {'time' if in_date else 'date'} has no {field.replace('_', ' ')}")
        return (DATE_FIELDS[field] if in_date else TIME_FIELDS[field])(source)

    def placed(self) -> tuple[Zone, int]:
        if self.zone is None:
            raise ValueError("a date or a time has no time zone")
        return self.zone, self.ms


def _week_year(days: int) -> int:
    return date_of(_saturday(days))[0]


def _saturday(days: int) -> int:
    """Returns the last day of the week: in the US a week begins on Sunday, and the first week contains 1 January."""
    return days + 6 - weekday_of(days) % 7


DATE_FIELDS: dict[str, Callable[[int], int]] = {
    "year": lambda days: date_of(days)[0],
    "year_of_era": lambda days: y if (y := date_of(days)[0]) > 0 else 1 - y,
    "era": lambda days: int(date_of(days)[0] > 0),
    "quarter": lambda days: (date_of(days)[1] + 2) // 3,
    "month": lambda days: date_of(days)[1],
    "day": lambda days: date_of(days)[2],
    "day_of_year": day_of_year,
    "weekday": weekday_of,
    "us_weekday": lambda days: weekday_of(days) % 7 + 1,
    "week_year": _week_year,
    "week": lambda days: (day_of_year(_saturday(days)) - 1) // 7 + 1,
}
TIME_FIELDS: dict[str, Callable[[int], int]] = {
    "half": lambda ms: ms // 43_200_000,
    "hour": lambda ms: ms // 3_600_000,
    "clock_hour": lambda ms: ms // 3_600_000 or 24,
    "half_hour": lambda ms: ms // 3_600_000 % 12,
    "clock_half_hour": lambda ms: ms // 3_600_000 % 12 or 12,
    "minute": lambda ms: ms // 60_000 % 60,
    "second": lambda ms: ms // 1000 % 60,
    "nano": lambda ms: ms % 1000 * 1_000_000,
    "milli_of_day": lambda ms: ms,
    "nano_of_day": lambda ms: ms * 1_000_000,
}
