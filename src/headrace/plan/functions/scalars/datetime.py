"""Date, time and timestamp functions: intervals, text, zones, and conversions from and to numbers.

The default zone is UTC. A failing parse, an invalid pattern or an unknown zone is reported and gives null.
"""

from __future__ import annotations

from collections.abc import Callable

from headrace.plan.functions.declaration import Function, Overload, never_growing
from headrace.plan.functions.java import datetime_format as text
from headrace.plan.functions.java.epoch_days import DAY_MS, add_months
from headrace.plan.functions.java.zones import zone
from headrace.plan.functions.replay_context import now
from headrace.plan.types import BIGINT_MAX, BIGINT_MIN, INT_MAX, INT_MIN

AREA = "time"

UNIT_MS: dict[str, int] = {
    "MILLISECOND": 1,
    "SECOND": 1000,
    "MINUTE": 60_000,
    "HOUR": 3_600_000,
    "DAY": DAY_MS,
    "WEEK": 7 * DAY_MS,
}
UNIT_MONTHS: dict[str, int] = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}


# -- intervals ------------------------------------------------------------------------------------------------------


def _inside(value: int, low: int, high: int) -> int:
    if not low <= value <= high:
        raise ValueError("the interval leads out of the type's range")
    return value


def add_to_timestamp(unit: str, interval: int, ms: int) -> int:
    """Months and years follow the calendar: a day that the month does not have becomes its last."""
    if unit in UNIT_MONTHS:
        days, rest = divmod(ms, DAY_MS)
        moved = add_months(days, interval * UNIT_MONTHS[unit]) * DAY_MS + rest
    else:
        moved = ms + interval * UNIT_MS[unit]
    return _inside(moved, BIGINT_MIN, BIGINT_MAX)


def add_to_date(unit: str, interval: int, days: int) -> int:
    """The result is rounded down to a date: shorter units count only as far as they reach another day."""
    return _inside(add_to_timestamp(unit, interval, days * DAY_MS) // DAY_MS, INT_MIN, INT_MAX)


def add_to_time(unit: str, interval: int, ms: int) -> int:
    """Wraps around at midnight."""
    if unit not in UNIT_MS:
        raise ValueError(f"a time of day has no {unit.lower()}s")
    return (ms + interval * UNIT_MS[unit]) % DAY_MS


def _subtracting(add: Callable[[str, int, int], int]) -> Callable[[str, int, int], int]:
    return lambda unit, interval, value: add(unit, -interval, value)


# -- text, zones, numbers -------------------------------------------------------------------------------------------


def format_timestamp(ms: int, pattern: str, zone_name: str = text.UTC) -> str:
    return text.formatter(pattern)(ms, zone_name)


def parse_timestamp(value: str, pattern: str, zone_name: str = text.UTC) -> int:
    return text.parser(pattern)(value, zone_name)


def format_date(days: int, pattern: str) -> str:
    return text.date_formatter(pattern)(days)


def parse_date(value: str, pattern: str) -> int:
    """Text after the date is ignored, as in ksqlDB."""
    return _inside(text.leading_date_parser(pattern)(value), INT_MIN, INT_MAX)


def parse_days(value: str, pattern: str) -> int:
    return _inside(text.date_parser(pattern)(value), INT_MIN, INT_MAX)


def format_time(ms: int, pattern: str) -> str:
    return text.time_formatter(pattern)(ms)


def parse_time(value: str, pattern: str) -> int:
    return text.time_parser(pattern)(value)


def convert_zone(ms: int, from_zone: str, to_zone: str) -> int:
    """Shifts the local time by the difference between the two zones at that time."""
    return _inside(ms - zone(from_zone).offset(ms) + zone(to_zone).offset(ms), BIGINT_MIN, BIGINT_MAX)


def today() -> int:
    return now() // DAY_MS


def _as_is(value: int) -> int:
    return value


def _interval(name: str, doc: str, kind: str, python: Callable[..., int], example: tuple[str, str]) -> Function:
    """Declares a function that adds an interval to a value."""
    overload = Overload(f"(unit: unit, interval: int, value: {kind}) -> {kind}", python)
    return Function(name, doc, (overload,), example, area=AREA)


def _text(
    name: str, doc: str, kinds: tuple[str, str], python: Callable[..., object], example: tuple[str, str], zoned: bool
) -> Function:
    """Declares a function between a value and its text by a pattern, optionally in a zone."""
    input_type, output_type = kinds
    overloads = [Overload(f"(value: {input_type}, pattern: string) -> {output_type}", python)]
    if zoned:
        overloads.append(Overload(f"(value: {input_type}, pattern: string, zone: string) -> {output_type}", python))
    return Function(name, doc, never_growing(*overloads), example, area=AREA)


FUNCTIONS = (
    _interval(
        "DATEADD",
        "Adds an interval to a date.",
        "date",
        add_to_date,
        ("UNIX_DATE(DATEADD(DAYS, 5, FROM_DAYS(10)))", "15"),
    ),
    _interval(
        "DATESUB",
        "Subtracts an interval from a date.",
        "date",
        _subtracting(add_to_date),
        ("UNIX_DATE(DATESUB(DAYS, 5, FROM_DAYS(10)))", "5"),
    ),
    _interval(
        "TIMEADD",
        "Adds an interval to a time of day; the result wraps at midnight.",
        "time",
        add_to_time,
        ("FORMAT_TIME(TIMEADD(HOURS, 2, PARSE_TIME('23:00', 'HH:mm')), 'HH:mm')", "'01:00'"),
    ),
    _interval(
        "TIMESUB",
        "Subtracts an interval from a time of day; the result wraps at midnight.",
        "time",
        _subtracting(add_to_time),
        ("FORMAT_TIME(TIMESUB(HOURS, 2, PARSE_TIME('01:00', 'HH:mm')), 'HH:mm')", "'23:00'"),
    ),
    _interval(
        "TIMESTAMPADD",
        "Adds an interval to a timestamp.",
        "timestamp",
        add_to_timestamp,
        ("UNIX_TIMESTAMP(TIMESTAMPADD(SECONDS, 2, FROM_UNIXTIME(1000)))", "3000"),
    ),
    _interval(
        "TIMESTAMPSUB",
        "Subtracts an interval from a timestamp.",
        "timestamp",
        _subtracting(add_to_timestamp),
        ("UNIX_TIMESTAMP(TIMESTAMPSUB(SECONDS, 1, FROM_UNIXTIME(1000)))", "0"),
    ),
    _text(
        "FORMAT_DATE",
        "Formats a date.",
        ("date", "string"),
        format_date,
        ("FORMAT_DATE(FROM_DAYS(17662), 'dd/MM/yyyy')", "'11/05/2018'"),
        zoned=False,
    ),
    _text(
        "FORMAT_TIME",
        "Formats a time of day.",
        ("time", "string"),
        format_time,
        ("FORMAT_TIME(PARSE_TIME('23:05', 'HH:mm'), 'hh:mm a')", "'11:05 PM'"),
        zoned=False,
    ),
    _text(
        "FORMAT_TIMESTAMP",
        "Formats a timestamp, in UTC or in a time zone.",
        ("timestamp", "string"),
        format_timestamp,
        ("FORMAT_TIMESTAMP(FROM_UNIXTIME(0), 'yyyy-MM-dd HH:mm', 'Asia/Tokyo')", "'1970-01-01 09:00'"),
        zoned=True,
    ),
    _text(
        "PARSE_DATE",
        "Parses a date; text after the date is ignored.",
        ("string", "date"),
        parse_date,
        ("UNIX_DATE(PARSE_DATE('11/05/2018', 'dd/MM/yyyy'))", "17662"),
        zoned=False,
    ),
    _text(
        "PARSE_TIME",
        "Parses a time of day.",
        ("string", "time"),
        parse_time,
        ("FORMAT_TIME(PARSE_TIME('01:00 PM', 'hh:mm a'), 'HH:mm')", "'13:00'"),
        zoned=False,
    ),
    _text(
        "PARSE_TIMESTAMP",
        "Parses a timestamp, in UTC or in a time zone unless the string names one.",
        ("string", "timestamp"),
        parse_timestamp,
        ("UNIX_TIMESTAMP(PARSE_TIMESTAMP('1970-01-01 00:00:01', 'yyyy-MM-dd HH:mm:ss'))", "1000"),
        zoned=True,
    ),
    _text(
        "DATETOSTRING",
        "Formats days since 1970 as a date.",
        ("int", "string"),
        format_date,
        ("DATETOSTRING(17662, 'yyyy-MM-dd')", "'2018-05-11'"),
        zoned=False,
    ),
    _text(
        "STRINGTODATE",
        "Parses a date to days since 1970.",
        ("string", "int"),
        parse_days,
        ("STRINGTODATE('2018-05-11', 'yyyy-MM-dd')", "17662"),
        zoned=False,
    ),
    _text(
        "TIMESTAMPTOSTRING",
        "Formats milliseconds since 1970 as a timestamp, in UTC or in a time zone.",
        ("bigint", "string"),
        format_timestamp,
        ("TIMESTAMPTOSTRING(1526075913000, 'yyyy-MM-dd HH:mm:ss')", "'2018-05-11 21:58:33'"),
        zoned=True,
    ),
    _text(
        "STRINGTOTIMESTAMP",
        "Parses a timestamp to milliseconds since 1970, in UTC or in a time zone unless the string names one.",
        ("string", "bigint"),
        parse_timestamp,
        ("STRINGTOTIMESTAMP('2018-05-11T21:58:33Z', 'yyyy-MM-dd''T''HH:mm:ssX')", "1526075913000"),
        zoned=True,
    ),
    Function(
        "CONVERT_TZ",
        "Converts a timestamp from the wall clock of one time zone to that of another.",
        (Overload("(value: timestamp, from_zone: string, to_zone: string) -> timestamp", convert_zone),),
        ("UNIX_TIMESTAMP(CONVERT_TZ(FROM_UNIXTIME(0), 'UTC', '+01:00'))", "3600000"),
        area=AREA,
    ),
    Function(
        "FROM_DAYS",
        "A date from days since 1970.",
        (Overload("(days: int) -> date", _as_is, spark="date_from_unix_date({0})"),),
        ("FORMAT_DATE(FROM_DAYS(1), 'yyyy-MM-dd')", "'1970-01-02'"),
        area=AREA,
    ),
    Function(
        "FROM_UNIXTIME",
        "A timestamp from milliseconds since 1970.",
        (Overload("(milliseconds: bigint) -> timestamp", _as_is),),
        ("FORMAT_TIMESTAMP(FROM_UNIXTIME(1000), 'HH:mm:ss')", "'00:00:01'"),
        area=AREA,
    ),
    Function(
        "UNIX_DATE",
        "Days since 1970 of a date, or of today in UTC.",
        (Overload("(value: date) -> int", _as_is, spark="unix_date({0})"), Overload("() -> int", today)),
        ("UNIX_DATE(FROM_DAYS(10))", "10"),
        area=AREA,
        repeatable=False,
    ),
    Function(
        "UNIX_TIMESTAMP",
        "Milliseconds since 1970 of a timestamp, or of now.",
        (Overload("(value: timestamp) -> bigint", _as_is, spark="unix_millis({0})"), Overload("() -> bigint", now)),
        ("UNIX_TIMESTAMP(FROM_UNIXTIME(1000))", "1000"),
        area=AREA,
        repeatable=False,
    ),
)
