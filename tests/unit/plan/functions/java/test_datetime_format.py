from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import BadDatetimePattern
from headrace.plan.functions.java.datetime_format import (
    compile_pattern,
    date_formatter,
    date_parser,
    formatter,
    parser,
    time_formatter,
    time_parser,
)
from headrace.plan.functions.java.epoch_days import DAY_MS, day_of
from headrace.plan.types import BIGINT_MAX, BIGINT_MIN

MOMENT = 1526075913123  # Friday, 2018-05-11 21:58:33.123 UTC
HOUR = 3_600_000


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("yyyy-MM-dd'T'HH:mm:ss.SSSX", "2018-05-11T21:58:33.123Z"),
        ("yy/M/d", "18/5/11"),
        ("u", "2018"),
        ("y", "2018"),
        ("yyyyy", "02018"),
        ("MMM MMMM MMMMM LLL", "May May M May"),
        ("D DDD", "131 131"),
        ("E EEE EEEE EEEEE", "Fri Fri Friday F"),
        ("e ee eee", "6 06 Fri"),
        ("Q QQQ QQQQ", "2 Q2 2nd quarter"),
        ("YYYY w", "2018 19"),
        ("G GGGG", "AD Anno Domini"),
        ("h:mm a", "9:58 PM"),
        ("K k H", "9 21 21"),
        ("S SS SSSSSS", "1 12 123000"),
        ("A n N", "79113123 123000000 79113123000000"),
        ("''yyyy'' 'o''clock'", "'2018' o'clock"),
        ("yyyy[-MM[-dd]]", "2018-05-11"),
        ("z zzzz VV", "UTC Coordinated Universal Time UTC"),
        ("X XXX x xxx Z ZZZZ ZZZZZ O", "Z Z +00 +00:00 +0000 GMT Z GMT"),
    ],
)
def test_format(pattern: str, text: str) -> None:
    assert formatter(pattern)(MOMENT, "UTC") == text


@pytest.mark.parametrize(
    ("zone", "text"),
    [
        ("Europe/London", "BST British Summer Time Europe/London +01 +0100 +01:00 GMT+1 GMT+01:00"),
        ("America/Los_Angeles", "PDT Pacific Daylight Time America/Los_Angeles -07 -0700 -07:00 GMT-7 GMT-07:00"),
        ("Asia/Kolkata", "IST India Standard Time Asia/Kolkata +0530 +0530 +05:30 GMT+5:30 GMT+05:30"),
        ("Asia/Dubai", "GST Gulf Standard Time Asia/Dubai +04 +0400 +04:00 GMT+4 GMT+04:00"),
        ("+01:00", "+01:00 +01:00 +01:00 +01 +0100 +01:00 GMT+1 GMT+01:00"),
    ],
)
def test_format_zone(zone: str, text: str) -> None:
    assert formatter("z zzzz VV X XX XXX O OOOO")(MOMENT, zone) == text


@pytest.mark.parametrize(
    ("pattern", "text", "ms"),
    [
        ("yyyy-MM-dd'T'HH:mm:ssX", "2018-05-11T21:58:33Z", 1526075913000),
        ("yyyy-MM-dd'T'HH:mm:ssX", "2018-05-11T21:58:33z", 1526075913000),
        ("yyyy-MM-dd'T'HH:mm:ssX", "2018-05-11T23:58:33+02", 1526075913000),
        ("yyyy-MM-dd'T'HH:mm:ssX", "2018-05-11T23:28:33+0130", 1526075913000),
        ("yyyy-MM-dd'T'HH:mm:ssXXX", "2018-05-11T23:58:33+02:00", 1526075913000),
        ("yyyy-MM-dd HH:mm:ss Z", "2018-05-11 14:58:33 -0700", 1526075913000),
        ("yyyy-MM-dd HH:mm:ss O", "2018-05-11 14:58:33 gmt-7", 1526075913000),
        ("yyyy-MM-dd HH:mm:ss z", "2018-05-11 14:58:33 PDT", 1526075913000),
        ("yyyy-MM-dd HH:mm:ss zzzz", "2018-05-11 14:58:33 Pacific Daylight Time", 1526075913000),
        ("yyyy-MM-dd HH:mm:ss VV", "2018-05-11 14:58:33 America/Los_Angeles", 1526075913000),
        ("VV'x'yyyy", "UTCx1971", 365 * DAY_MS),
        ("yyyyMMddHHmmssSSS", "20180511215833123", MOMENT),
        ("yy-MM-dd", "18-05-11", 1525996800000),
        ("EEE, d MMM yyyy", "fri, 11 may 2018", 1525996800000),
        ("d/M/yyyy", "1/2/1970", 31 * DAY_MS),
        ("yyyy-DDD", "1972-366", 1095 * DAY_MS),
        ("yyyy-MM-dd", "2021-06-31", day_of(2021, 6, 30) * DAY_MS),
        ("yyyy-MM-dd HH:mm", "1970-01-01 24:00", DAY_MS),
        ("uuuu", "-0001", day_of(-1, 1, 1) * DAY_MS),
        ("yyyy G", "0002 BC", day_of(-1, 1, 1) * DAY_MS),
        ("HH:mm", "01:30", 5_400_000),
        ("mm:ss", "01:30", 90_000),
        ("hh a", "12 am", 0),
        ("kk", "24", 0),
        ("K a", "0 PM", 12 * HOUR),
        ("A", "1234", 1234),
        ("Hmm", "130", 5_400_000),
        ("yMMdd", "19700201", 31 * DAY_MS),
        ("MM-dd", "02-29", day_of(1972, 2, 29) * DAY_MS),
        ("yyyy[-MM[-dd]][ HH:mm]", "1970-02", 31 * DAY_MS),
        ("yyyy[-MM[-dd]][ HH:mm]", "1970 01:00", HOUR),
        ("ss.SSSSSS", "01.234567", 1234),
        ("yyyy", "+10000", day_of(10_000, 1, 1) * DAY_MS),
        ("y-M", "10000-1", day_of(10_000, 1, 1) * DAY_MS),
    ],
)
def test_parse(pattern: str, text: str, ms: int) -> None:
    assert parser(pattern)(text, "UTC") == ms


def test_a_zone_in_the_text_takes_precedence() -> None:
    assert parser("yyyy-MM-dd")("2018-05-11", "Europe/London") == 1525996800000 - HOUR
    assert parser("yyyy-MM-ddX")("2018-05-11Z", "Europe/London") == 1525996800000


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("yyyy-MM-dd", "abcd"),
        ("yyyy-MM-dd", ""),
        ("yyyy-MM-dd", "2018-05-11 "),
        ("yyyy-MM-dd", "2018-5-11"),
        ("yyyy-MM-dd", "2018-13-01"),
        ("yyyy-MM-dd", "2018-01-32"),
        ("yyyy-MM-dd", "2018-00-01"),
        ("yyyy-MM-dd", "12018-01-01"),
        ("yyyy-MM-dd", "+2018-01-01"),
        ("yyyy-MM-dd", "0000-01-01"),
        ("uuuu", "-0000"),
        ("yyyy-DDD", "2018-366"),
        ("dd-MMM-yyyy", "01-Foo-2022"),
        ("EEE yyyy-MM-dd", "Mon 2018-05-11"),
        ("HH:mm", "24:01"),
        ("HH:mm", "12:60"),
        ("hh:mm", "01:00"),
        ("hh a", "13 PM"),
        ("yyyy yyyy", "2018 2019"),
        ("yyyy X", "2018 +19"),
        ("yyyy X", "2018 01"),
        ("yyyy XX", "2018 +01"),
        ("yyyy Z", "2018 +01:30"),
        ("MMM yyyy", "Sept 2018"),
        ("yy", "1"),
        ("yy", "123"),
        ("yyyy z", "2018 Nowhere"),
        ("HH", "-1"),
        ("HH", "٠١"),
        ("y", "999999999"),
        ("y", "1000000000"),
    ],
)
def test_parse_refused(pattern: str, text: str) -> None:
    with pytest.raises(ValueError, match=r"fit|exist|has no|of the week|24:00 cannot|AM or PM|far away"):
        parser(pattern)(text, "UTC")


@pytest.mark.parametrize(
    "pattern", ["yyyy-bb", "yyyy'", "d]", "{", "#", "ddd", "VVV", "aa", "EEEEEE", "SSSSSSSSSS", "XXXXXX"]
)
def test_wrong_pattern(pattern: str) -> None:
    with pytest.raises(BadDatetimePattern) as caught:
        compile_pattern(pattern)
    assert caught.value.fix


def test_dates_and_times_are_formatted_and_parsed() -> None:
    assert date_parser("dd/MM/yyyy HH")("11/05/2019 10") == 18027
    assert date_formatter("EEEE d")(18027) == "Saturday 11"
    assert time_parser("HH/mm/ss")("11/05/19") == 39_919_000
    assert time_parser("HH:mm")("24:00") == 0
    assert time_formatter("HH_mm_ss_SSS")(65_000) == "00_01_05_000"


@pytest.mark.parametrize(
    ("make", "pattern", "value"),
    [
        (date_formatter, "HH", 0),
        (date_formatter, "X", 0),
        (time_formatter, "yyyy", 0),
        (time_formatter, "z", 0),
        (time_parser, "yyyy", "2018"),
    ],
)
def test_fields_that_a_date_or_time_lacks_are_refused(make: Any, pattern: str, value: Any) -> None:
    with pytest.raises(ValueError, match=r"has no|says no"):
        make(pattern)(value)


def test_optional_parts_that_a_value_lacks_are_omitted() -> None:
    assert date_formatter("yyyy-MM-dd[ HH:mm]")(0) == "1970-01-01"


ISO = "uuuu-MM-dd'T'HH:mm:ss.SSSXXX"


@given(st.integers(BIGINT_MIN, BIGINT_MAX), st.sampled_from(["UTC", "+05:30", "-11:00"]))
def test_formatted_timestamps_are_parsed_back(ms: int, zone: str) -> None:
    assert parser(ISO)(formatter(ISO)(ms, zone), "UTC") == ms


@given(st.datetimes())
def test_format_agrees_with_python(value: datetime) -> None:
    ms = (value.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    assert formatter("uuuu-MM-dd'T'HH:mm:ss.SSS")(ms, "UTC") == value.isoformat(timespec="milliseconds")
    assert formatter("DDD E a hh")(ms, "UTC") == value.strftime("%j %a %p %I")


@given(st.text(max_size=12), st.sampled_from(["yyyy-MM-dd", "HH:mm z", "[yy]X", "E MMM"]))
def test_any_text_is_parsed_or_refused(text: str, pattern: str) -> None:
    with suppress(ValueError):
        assert isinstance(parser(pattern)(text, "UTC"), int)
