"""The calendar as arithmetic on days since 1970: proleptic Gregorian, any year, negative ones too.

Python's own dates end at the years 1 and 9999; a BIGINT of milliseconds does not.
"""

from __future__ import annotations

DAY_MS = 86_400_000
CYCLE_DAYS = 146_097
"""Days of 400 years, after which leap years and weekdays repeat."""


def is_leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def month_length(year: int, month: int) -> int:
    if month == 2:
        return 29 if is_leap(year) else 28
    return 30 if month in (4, 6, 9, 11) else 31


def day_of(year: int, month: int, day: int) -> int:
    """Days since 1970.

    >>> day_of(2018, 5, 11)
    17662
    """
    # Years are counted from March, so that the leap day is the last of its year.
    year, month = (year - 1, month + 9) if month <= 2 else (year, month - 3)
    era, year_of_era = divmod(year, 400)
    day_of_year = (153 * month + 2) // 5 + day - 1
    return era * CYCLE_DAYS + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year - 719_468


def date_of(days: int) -> tuple[int, int, int]:
    """Year, month and day of month.

    >>> date_of(-1)
    (1969, 12, 31)
    """
    era, day_of_era = divmod(days + 719_468, CYCLE_DAYS)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * month + 2) // 5 + 1
    year = era * 400 + year_of_era
    return (year + 1, month - 9, day) if month >= 10 else (year, month + 3, day)


def weekday_of(days: int) -> int:
    """1 is Monday, 7 is Sunday."""
    return (days + 3) % 7 + 1


def day_of_year(days: int) -> int:
    year, _, _ = date_of(days)
    return days - day_of(year, 1, 1) + 1


def add_months(days: int, months: int) -> int:
    """Adds months; the day becomes the month's last day if that month does not have it.

    >>> date_of(add_months(day_of(2024, 1, 31), 1))
    (2024, 2, 29)
    """
    year, month, day = date_of(days)
    year, month = divmod(year * 12 + month - 1 + months, 12)
    return day_of(year, month + 1, min(day, month_length(year, month + 1)))
