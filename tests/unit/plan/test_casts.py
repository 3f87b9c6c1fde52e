"""CAST, as ksqlDB documents it."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.plan import types as ty
from headrace.plan.casts import can_cast, caster
from headrace.plan.iso_datetime import format_date, format_timestamp, parse_date, parse_timestamp

D42 = ty.decimal(4, 2)
AB = ty.struct([("A", ty.INT), ("B", ty.STRING)])
BC = ty.struct([("B", ty.INT), ("C", ty.DOUBLE)])

CASES: list[tuple[pa.DataType, pa.DataType, Any, Any]] = [
    (ty.INT, ty.BIGINT, 5, 5),
    (ty.INT, ty.DOUBLE, 5, 5.0),
    (ty.INT, D42, 5, Decimal("5.00")),
    (ty.BIGINT, ty.INT, 2147483648, -2147483648),
    (ty.BIGINT, ty.DOUBLE, 3, 3.0),
    (ty.DOUBLE, ty.INT, -2.9, -2),
    (ty.DOUBLE, ty.INT, 1e20, 2147483647),
    (ty.DOUBLE, ty.INT, math.nan, 0),
    (ty.DOUBLE, ty.BIGINT, -math.inf, -(1 << 63)),
    (ty.DOUBLE, D42, 1.005, Decimal("1.01")),
    (D42, ty.INT, Decimal("-1.99"), -1),
    (D42, ty.BIGINT, Decimal("1.99"), 1),
    (D42, ty.DOUBLE, Decimal("1.50"), 1.5),
    (D42, ty.decimal(5, 3), Decimal("10.12"), Decimal("10.120")),
    (D42, ty.decimal(3, 1), Decimal("10.15"), Decimal("10.2")),
    (ty.BOOLEAN, ty.STRING, True, "true"),
    (ty.DOUBLE, ty.STRING, 1e10, "1.0E10"),
    (D42, ty.STRING, Decimal("0.10"), "0.10"),
    (ty.decimal(10, 9), ty.STRING, Decimal("0.000000001"), "0.000000001"),
    (ty.DATE, ty.STRING, 18262, "2020-01-01"),
    (ty.TIME, ty.STRING, 34_200_000, "09:30"),
    (ty.TIME, ty.STRING, 34_201_000, "09:30:01"),
    (ty.TIME, ty.STRING, 34_200_005, "09:30:00.005"),
    (ty.TIMESTAMP, ty.STRING, 1577836800000, "2020-01-01T00:00:00.000"),
    (ty.STRING, ty.INT, " 12 ", 12),
    (ty.STRING, ty.BIGINT, "-9223372036854775808", -(1 << 63)),
    (ty.STRING, ty.DOUBLE, "1e3", 1000.0),
    (ty.STRING, D42, "1.235", Decimal("1.24")),
    (ty.STRING, ty.BOOLEAN, "YES", True),
    (ty.STRING, ty.BOOLEAN, "tru", True),
    (ty.STRING, ty.BOOLEAN, "no", False),
    (ty.STRING, ty.BOOLEAN, "what", False),
    (ty.STRING, ty.DATE, "2020-01-01", 18262),
    (ty.STRING, ty.TIME, "09:30:00.5", 34_200_500),
    (ty.STRING, ty.TIMESTAMP, "2018", 1514764800000),
    (ty.STRING, ty.TIMESTAMP, "2020-01-01T10", 1577872800000),
    (ty.STRING, ty.TIMESTAMP, "2020-02-10T08:31:44.001+0100", 1581319904001),
    (ty.DATE, ty.TIMESTAMP, -1, -86_400_000),
    (ty.TIMESTAMP, ty.DATE, -1, -1),
    (ty.TIMESTAMP, ty.TIME, -1, 86_399_999),
    (ty.array(ty.INT), ty.STRING, [1, None, 3], "[1, null, 3]"),
    (ty.map_of(ty.STRING, ty.DOUBLE), ty.STRING, {"a": 1.0, "b": None}, "{a=1.0, b=null}"),
    (AB, ty.STRING, {"A": 1, "B": None}, "Struct{A=1}"),
    (ty.array(ty.array(ty.BIGINT)), ty.array(ty.array(ty.STRING)), [[1, None], None], [["1", None], None]),
    (ty.map_of(ty.STRING, ty.BIGINT), ty.map_of(ty.STRING, ty.INT), {"a": 1 << 31}, {"a": -(1 << 31)}),
    (AB, BC, {"A": 1, "B": "7"}, {"B": 7, "C": None}),
]


@pytest.mark.parametrize(("source", "target", "value", "expected"), CASES, ids=lambda v: str(v)[:30])
def test_a_value_is_cast(source: pa.DataType, target: pa.DataType, value: Any, expected: Any) -> None:
    cast = caster(source, target)
    assert cast is not None
    result = cast(value)
    assert result == expected
    assert type(result) is type(expected)
    if isinstance(expected, Decimal):
        assert result.as_tuple().exponent == expected.as_tuple().exponent


@pytest.mark.parametrize(
    ("source", "target", "value"),
    [
        (ty.STRING, ty.INT, "1.5"),
        (ty.STRING, ty.INT, "2147483648"),
        (ty.STRING, ty.INT, "1_0"),
        (ty.STRING, ty.DOUBLE, "NaN"),
        (ty.STRING, ty.DOUBLE, "1e999"),
        (ty.STRING, D42, "x"),
        (ty.STRING, ty.DATE, "2020-02-30"),
        (ty.STRING, ty.TIME, "25:00"),
        (ty.STRING, ty.TIME, "10"),
        (ty.STRING, ty.TIMESTAMP, "yesterday"),
        (ty.INT, D42, 100),
        (ty.DOUBLE, D42, 99.995),
        (ty.DOUBLE, D42, math.inf),
    ],
)
def test_an_invalid_value_is_refused(source: pa.DataType, target: pa.DataType, value: Any) -> None:
    cast = caster(source, target)
    assert cast is not None
    with pytest.raises(ValueError, match=r"."):
        cast(value)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (ty.STRING, ty.array(ty.INT)),
        (ty.STRING, ty.map_of(ty.STRING, ty.INT)),
        (ty.INT, ty.BOOLEAN),
        (ty.BOOLEAN, ty.INT),
        (ty.BYTES, ty.STRING),
        (ty.STRING, ty.BYTES),
        (ty.BIGINT, ty.DATE),
        (ty.DATE, ty.TIME),
        (ty.BOOLEAN, D42),
        (ty.array(ty.BOOLEAN), ty.array(ty.INT)),
        (ty.struct([("A", ty.BOOLEAN)]), ty.struct([("A", ty.INT)])),
    ],
)
def test_unsupported_casts_are_refused(source: pa.DataType, target: pa.DataType) -> None:
    assert not can_cast(source, target)


def test_null_can_be_cast_to_every_type() -> None:
    assert all(can_cast(ty.NULL, kind) for kind in (ty.INT, D42, ty.STRING, ty.array(ty.INT), AB))


@given(st.integers(-700_000, 2_000_000))
def test_formatted_dates_are_parsed_back(days: int) -> None:
    assert parse_date(format_date(days)) == days


@given(st.integers(-62_000_000_000_000, 250_000_000_000_000))
def test_formatted_timestamps_are_parsed_back(at: int) -> None:
    assert parse_timestamp(format_timestamp(at)) == at


@given(st.decimals(allow_nan=False, allow_infinity=False, places=5, min_value=-(10**9), max_value=10**9))
def test_decimals_are_parsed_back_from_text(value: Decimal) -> None:
    kind = ty.decimal(20, 5)
    to_text, from_text = caster(kind, ty.STRING), caster(ty.STRING, kind)
    assert to_text is not None
    assert from_text is not None
    assert from_text(to_text(value)) == value
