from datetime import date, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.plan import types
from headrace.plan.functions import SCALARS
from headrace.plan.functions.java.epoch_days import DAY_MS, add_months, date_of, day_of, day_of_year, weekday_of
from headrace.plan.functions.java.zones import zone
from headrace.plan.functions.signature import UnitType
from tests.unit.plan.functions.function_call import run

EPOCH = date(1970, 1, 1)
HOUR = 3_600_000


def at(year: int, month: int, day: int, hour: int = 0) -> int:
    return day_of(year, month, day) * DAY_MS + hour * HOUR


def moved(name: str, unit: str, interval: int | None, value: int | None) -> Any:
    kind = {"D": types.DATE, "T": types.TIME}[name[0]] if not name.startswith("TIMESTAMP") else types.TIMESTAMP
    kinds: list[Any] = [UnitType(), types.INT, kind]
    return run(name, unit, interval, value, kinds=kinds)


@pytest.mark.parametrize(
    ("name", "unit", "interval", "value", "result"),
    [
        ("DATEADD", "DAY", 5, 10, 15),
        ("DATEADD", "HOUR", 25, 10, 11),
        ("DATEADD", "MILLISECOND", 1, 10, 10),
        ("DATEADD", "MONTH", 1, day_of(2024, 1, 31), day_of(2024, 2, 29)),
        ("DATESUB", "DAY", 10, 5, -5),
        ("DATESUB", "YEAR", 1, day_of(2024, 2, 29), day_of(2023, 2, 28)),
        ("DATESUB", "WEEK", 1, 0, -7),
        ("TIMEADD", "MILLISECOND", 10, 86_399_995, 5),
        ("TIMEADD", "DAY", 1, 5, 5),
        ("TIMESUB", "SECOND", 1, 0, DAY_MS - 1000),
        ("TIMESTAMPADD", "MILLISECOND", 10, 20, 30),
        ("TIMESTAMPADD", "MONTH", 13, at(2023, 1, 31, 7), at(2024, 2, 29, 7)),
        ("TIMESTAMPADD", "QUARTER", 1, at(2023, 11, 30), at(2024, 2, 29)),
        ("TIMESTAMPSUB", "MILLISECOND", 10, 20, 10),
        ("TIMESTAMPSUB", "YEAR", 2000, at(1970, 1, 1), at(-30, 1, 1)),
        ("TIMESTAMPSUB", "MINUTE", -1, 0, 60_000),
        ("TIMESTAMPADD", "DAY", None, 0, None),
        ("TIMESTAMPADD", "DAY", 1, None, None),
    ],
)
def test_interval(name: str, unit: str, interval: int | None, value: int | None, result: int | None) -> None:
    assert moved(name, unit, interval, value) == result


@pytest.mark.parametrize(
    ("name", "unit", "value"),
    [("TIMEADD", "MONTH", 0), ("TIMESTAMPADD", "DAY", types.BIGINT_MAX), ("DATEADD", "DAY", types.INT_MAX)],
)
def test_interval_refused(name: str, unit: str, value: int) -> None:
    with pytest.raises(ValueError, match=r"no months|out of the type's range"):
        moved(name, unit, 1, value)


@pytest.mark.parametrize(
    ("name", "arguments", "kinds", "result"),
    [
        ("FORMAT_DATE", (18993, "dd-MMM-yyyy"), [types.DATE], "01-Jan-2022"),
        ("FORMAT_TIME", (1_234_567, "HHmmss'AAAAA'"), [types.TIME], "002034AAAAA"),
        ("FORMAT_TIME", (None, "HH"), [types.TIME], None),
        ("FORMAT_TIMESTAMP", (1526075913000, "yyyy-MM-dd HH:mm:ss"), [types.TIMESTAMP], "2018-05-11 21:58:33"),
        ("PARSE_DATE", ("JAN-2022", "MMM-yyyy"), [types.STRING], 18993),
        ("PARSE_DATE", (None, "yyyy"), [types.STRING], None),
        ("PARSE_DATE", ("2003-12-24-01-01", "yyyy-MM-dd"), [types.STRING], 12410),
        ("PARSE_TIME", ("01:00:00 Pm", "hh:mm:ss a"), [types.STRING], 46_800_000),
        ("PARSE_TIMESTAMP", ("2018-05-11T21:58:33", "yyyy-MM-dd'T'HH:mm:ss"), [types.STRING], 1526075913000),
        ("DATETOSTRING", (-1, "dd-MM-yyyy'Sophia'"), [types.INT], "31-12-1969Sophia"),
        ("STRINGTODATE", ("2018-05-11Lit", "yyyy-MM-dd'Lit'"), [types.STRING], 17662),
        ("TIMESTAMPTOSTRING", (0, "yyyy"), [types.BIGINT], "1970"),
        ("STRINGTOTIMESTAMP", ("2018-05-11T21:58:33z", "yyyy-MM-dd'T'HH:mm:ssX"), [types.STRING], 1526075913000),
    ],
)
def test_text(name: str, arguments: tuple[Any, ...], kinds: list[Any], result: Any) -> None:
    assert run(name, *arguments, kinds=[*kinds, types.STRING]) == result


def test_text_in_a_zone() -> None:
    kinds = [types.TIMESTAMP, types.STRING, types.STRING]
    pattern = "yyyy-MM-dd HH:mm:ss zzz"
    text = run("FORMAT_TIMESTAMP", 1526075913000, pattern, "America/Los_Angeles", kinds=kinds)
    assert text == "2018-05-11 14:58:33 PDT"
    assert run("STRINGTOTIMESTAMP", "2018-05-11 14:58", "yyyy-MM-dd HH:mm", "America/Los_Angeles") == 1526075880000
    assert run("PARSE_TIMESTAMP", "2018-05-11 14:58+00", "yyyy-MM-dd HH:mmx", "America/Los_Angeles") == 1526050680000
    with pytest.raises(ValueError, match="Nowhere"):
        run("PARSE_TIMESTAMP", "2018", "yyyy", "America/Nowhere")


@pytest.mark.parametrize(
    ("value", "source", "target", "result"),
    [
        (100, "America/Los_Angeles", "America/New_York", 10_800_100),
        (1589234313000, "America/Los_Angeles", "America/New_York", 1589245113000),
        (0, "+0200", "-05:00", -7 * HOUR),
        (0, "UTC", "GMT+1", HOUR),
    ],
)
def test_convert_tz(value: int, source: str, target: str, result: int) -> None:
    assert run("CONVERT_TZ", value, source, target, kinds=[types.TIMESTAMP, types.STRING, types.STRING]) == result


def test_dates_and_times_convert_to_numbers() -> None:
    assert run("FROM_DAYS", -3) == -3
    assert run("FROM_UNIXTIME", 5, kinds=[types.BIGINT]) == 5
    assert run("UNIX_DATE", 7, kinds=[types.DATE]) == 7
    assert run("UNIX_TIMESTAMP", 7, kinds=[types.TIMESTAMP]) == 7
    assert run("UNIX_TIMESTAMP") // DAY_MS in (run("UNIX_DATE"), run("UNIX_DATE") - 1)
    assert not SCALARS["UNIX_TIMESTAMP"].repeatable
    assert not SCALARS["UNIX_DATE"].repeatable


# -- the calendar and zones below -----------------------------------------------------------------------------------


@given(st.dates())
def test_days_agree_with_python(value: date) -> None:
    days = (value - EPOCH).days
    assert day_of(value.year, value.month, value.day) == days
    assert date_of(days) == (value.year, value.month, value.day)
    assert weekday_of(days) == value.isoweekday()
    assert day_of_year(days) == value.timetuple().tm_yday


@given(st.integers(-(10**12), 10**12))
def test_days_of_any_year_are_converted(days: int) -> None:
    assert day_of(*date_of(days)) == days


@given(st.dates(), st.integers(-5000, 5000))
def test_adding_and_subtracting_months_gives_the_same_date(value: date, months: int) -> None:
    days = (value.replace(day=1) - EPOCH).days
    assert add_months(add_months(days, months), -months) == days


@pytest.mark.parametrize(
    ("name", "ms", "hours"),
    [
        ("Europe/London", at(2018, 5, 11), 1),
        ("Europe/London", at(2018, 1, 11), 0),
        ("Europe/London", at(12018, 7, 11), 1),
        ("PST", at(2018, 1, 11), -8),
        ("Z", 0, 0),
        ("+05:30", 0, 5.5),
        ("UTC-3", 0, -3),
    ],
)
def test_offset(name: str, ms: int, hours: float) -> None:
    assert zone(name).offset(ms) == hours * HOUR


@pytest.mark.parametrize("name", ["Nowhere", "America", "", "../etc/passwd", "+19", "GMT+x", "+01:60"])
def test_an_unknown_zone_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="does not exist"):
        zone(name)


def test_skipped_and_repeated_hours_are_resolved() -> None:
    berlin = zone("Europe/Berlin")
    assert berlin.to_utc(at(2024, 3, 31, 2)) == at(2024, 3, 31, 1), "02:00 does not exist and is 03:00"
    assert berlin.to_utc(at(2024, 10, 27, 2)) == at(2024, 10, 27, 0), "of two 02:00 the first"


@given(st.integers(types.BIGINT_MIN, types.BIGINT_MAX), st.sampled_from(["America/New_York", "UTC", "+01:00"]))
def test_zones_have_an_offset_at_every_time(ms: int, name: str) -> None:
    assert abs(zone(name).offset(ms)) < timedelta(days=1) // timedelta(milliseconds=1)
    assert zone(name).short_name(ms)
