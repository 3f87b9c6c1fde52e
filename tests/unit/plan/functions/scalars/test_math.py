from decimal import Decimal
from math import copysign, inf, isnan, nan, pi
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import AmbiguousCall
from headrace.plan import types
from headrace.plan.functions import SCALARS
from headrace.plan.functions.signature import resolve
from headrace.plan.types import BIGINT, BIGINT_MAX, BIGINT_MIN, INT_MAX, INT_MIN
from tests.unit.plan.functions.function_call import run

CASES: list[tuple[str, tuple[Any, ...], Any]] = [
    ("ABS", (-3,), 3),
    ("ABS", (INT_MIN,), INT_MIN),
    ("ABS", (-0.5,), 0.5),
    ("ABS", (-inf,), inf),
    ("ABS", (nan,), nan),
    ("ABS", (Decimal("-1.50"),), Decimal("1.50")),
    ("ABS", (Decimal("-1." + "9" * 60),), Decimal("1." + "9" * 60)),
    ("SIGN", (-3.0,), -1),
    ("SIGN", (0.0,), 0),
    ("SIGN", (5e-324,), 1),
    ("SIGN", (nan,), 0),
    ("CEIL", (7,), 7),
    ("CEIL", (1.2,), 2.0),
    ("CEIL", (-0.5,), -0.0),
    ("CEIL", (1e300,), 1e300),
    ("CEIL", (inf,), inf),
    ("CEIL", (nan,), nan),
    ("CEIL", (Decimal("1.20"),), Decimal("2.00")),
    ("CEIL", (Decimal("-0.20"),), Decimal("0.00")),
    ("FLOOR", (1.8,), 1.0),
    ("FLOOR", (-1.2,), -2.0),
    ("FLOOR", (-0.0,), -0.0),
    ("FLOOR", (Decimal("-1.20"),), Decimal("-2.00")),
    ("ROUND", (7,), 7),
    ("ROUND", (2.5,), 3),
    ("ROUND", (-2.5,), -2),
    ("ROUND", (-2.6,), -3),
    ("ROUND", (0.49999999999999994,), 0),
    ("ROUND", (1e300,), BIGINT_MAX),
    ("ROUND", (-inf,), BIGINT_MIN),
    ("ROUND", (nan,), 0),
    ("ROUND", (12345.678, 2), 12345.68),
    ("ROUND", (1.005, 2), 1.01),
    ("ROUND", (-12345.5, 0), -12345.0),
    ("ROUND", (12345.678, -2), 12300.0),
    ("ROUND", (1.5, 20), 1.5),
    ("ROUND", (-0.04, 1), 0.0),
    ("ROUND", (Decimal("2.5"),), Decimal("3")),
    ("ROUND", (Decimal("-2.5"),), Decimal("-2")),
    ("ROUND", (Decimal("1.2345"), 2), Decimal("1.2300")),
    ("ROUND", (Decimal("-1.25"), 1), Decimal("-1.20")),
    ("ROUND", (Decimal("1250.00"), -2), Decimal("1300.00")),
    ("ROUND", (Decimal("1.25"), 5), Decimal("1.25")),
    ("ROUND", (Decimal("12345678987654321.2345678987654321"),), Decimal("12345678987654321")),
    ("TRUNC", (7,), 7),
    ("TRUNC", (-1.7,), -1),
    ("TRUNC", (inf,), BIGINT_MAX),
    ("TRUNC", (nan,), 0),
    ("TRUNC", (-12345.678, -2), -12300.0),
    ("TRUNC", (1.7, 0), 1.0),
    ("TRUNC", (Decimal("-1.79"),), Decimal("-1")),
    ("TRUNC", (Decimal("-1.79"), 1), Decimal("-1.70")),
    ("TRUNC", (Decimal("-0.79"), 0), Decimal("0.00")),
    ("SQRT", (9.0,), 3.0),
    ("SQRT", (-1.0,), nan),
    ("CBRT", (-27.0,), -3.0),
    ("EXP", (1.0,), 2.718281828459045),
    ("EXP", (1000.0,), inf),
    ("EXP", (-inf,), 0.0),
    ("LN", (0.0,), -inf),
    ("LN", (-0.0,), -inf),
    ("LN", (-1.0,), nan),
    ("LN", (inf,), inf),
    ("LN", (nan,), nan),
    ("LOG", (13.0,), 2.5649493574615367),
    ("LOG", (15.0, 13.0), 0.9471572411831843),
    ("LOG", (15.0, 0.0), -inf),
    ("LOG", (15.0, -13.0), nan),
    ("LOG", (1.0, 13.0), nan),
    ("LOG", (0.0, 13.0), nan),
    ("LOG", (-15.0, 13.0), nan),
    ("LOG", (inf, inf), nan),
    ("LOG", (None, 13.0), None),
    ("POWER", (15.0, -1.0), 0.06666666666666667),
    ("POWER", (0.0, 0.0), 1.0),
    ("POWER", (nan, 0.0), 1.0),
    ("POWER", (1.0, nan), nan),
    ("POWER", (1.0, inf), nan),
    ("POWER", (-1.0, 0.5), nan),
    ("POWER", (0.0, -1.0), inf),
    ("POWER", (-0.0, -1.0), -inf),
    ("POWER", (-10.0, 999.0), -inf),
    ("POWER", (10.0, 999.0), inf),
    ("PI", (), pi),
    ("RADIANS", (180.0,), pi),
    ("DEGREES", (pi,), 180.0),
    ("SIN", (inf,), nan),
    ("COS", (0.0,), 1.0),
    ("TAN", (-inf,), nan),
    ("COT", (0.0,), inf),
    ("COT", (-0.0,), -inf),
    ("COT", (nan,), nan),
    ("ASIN", (1.1,), nan),
    ("ACOS", (-1.0,), pi),
    ("ACOS", (2.0,), nan),
    ("ATAN", (inf,), pi / 2),
    ("ATAN2", (0.0, -1.0), pi),
    ("SINH", (-1000.0,), -inf),
    ("COSH", (-1000.0,), inf),
    ("TANH", (inf,), 1.0),
    ("GENERATE_SERIES", (0, 3), [0, 1, 2, 3]),
    ("GENERATE_SERIES", (4, 0), [4, 3, 2, 1, 0]),
    ("GENERATE_SERIES", (5, 5), [5]),
    ("GENERATE_SERIES", (-2, 1, 2), [-2, 0]),
    ("GENERATE_SERIES", (9, 0, -3), [9, 6, 3, 0]),
    ("GENERATE_SERIES", (INT_MAX - 1, INT_MAX), [INT_MAX - 1, INT_MAX]),
    ("GEO_DISTANCE", (37.4439, -122.1663, 51.5257, -0.1122), 8634.659796579544),
    ("GEO_DISTANCE", (37.4439, -122.1663, 51.5257, -0.1122, "mi"), 5365.659729188262),
    ("GEO_DISTANCE", (37.4439, -122.1663, 51.5257, -0.1122, None), 8634.659796579544),
    ("GEO_DISTANCE", (37.4439, None, 51.5257, -0.1122, "KM"), None),
    ("GEO_DISTANCE", (0.0, 0.0, 0.0, 180.0), pi * 6371),
]


def same(left: Any, right: Any) -> bool:
    """Equal, of one type, with the same scale or sign of zero; NaN is the same as NaN."""
    if isinstance(left, float) and isinstance(right, float):
        return (isnan(left) and isnan(right)) or (left == right and copysign(1, left) == copysign(1, right))
    return type(left) is type(right) and str(left) == str(right)


@pytest.mark.parametrize(("name", "arguments", "result"), CASES, ids=[f"{n}{a}" for n, a, _ in CASES])
def test_result(name: str, arguments: tuple[Any, ...], result: Any) -> None:
    assert same(run(name, *arguments), result)


ONE_DOUBLE = [n for n, f in SCALARS.items() if f.overloads[0].signature == "(value: double) -> double"]


@pytest.mark.parametrize("name", ONE_DOUBLE)
def test_null_gives_null(name: str) -> None:
    assert run(name, None, kinds=[types.DOUBLE]) is None


@pytest.mark.parametrize("name", ONE_DOUBLE)
@given(value=st.floats())
def test_math_never_fails(name: str, value: float) -> None:
    assert isinstance(run(name, value), float)


@given(st.floats(), st.floats())
def test_power_and_log_never_fail(left: float, right: float) -> None:
    assert isinstance(run("POWER", left, right), float)
    assert isinstance(run("LOG", left, right), float)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("ROUND", (nan, 2)),
        ("TRUNC", (inf, 2)),
        ("GENERATE_SERIES", (0, 3, 0)),
        ("GENERATE_SERIES", (0, 3, -1)),
        ("GEO_DISTANCE", (91.0, 0.0, 0.0, 0.0)),
        ("GEO_DISTANCE", (0.0, 0.0, 0.0, 181.0)),
        ("GEO_DISTANCE", (0.0, 0.0, 0.0, 0.0, "parsec")),
    ],
)
def test_refused(name: str, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(ValueError, match=r"decimal places|step|not between|unit"):
        run(name, *arguments)


def test_bigint_stays_in_range() -> None:
    assert run("ABS", BIGINT_MIN, kinds=[BIGINT]) == BIGINT_MIN
    assert run("ABS", -5, kinds=[BIGINT]) == 5


@pytest.mark.parametrize(
    ("name", "kinds", "result"),
    [
        ("ROUND", [types.INT], types.BIGINT),
        ("ROUND", [types.DOUBLE], types.BIGINT),
        ("ROUND", [types.decimal(33, 16)], types.decimal(17, 0)),
        ("TRUNC", [types.decimal(2, 2)], types.decimal(1, 0)),
        ("ROUND", [types.decimal(33, 16), types.INT], types.decimal(33, 16)),
        ("CEIL", [types.decimal(5, 2)], types.decimal(5, 2)),
        ("ABS", [types.decimal(5, 2)], types.decimal(5, 2)),
        ("SIGN", [types.BIGINT], types.INT),
        ("SQRT", [types.INT], types.DOUBLE),
        ("GENERATE_SERIES", [types.BIGINT, types.BIGINT, types.INT], types.array(types.BIGINT)),
    ],
)
def test_type_of_result(name: str, kinds: list[Any], result: Any) -> None:
    assert resolve(SCALARS[name], kinds).result == result


def test_random_is_not_repeatable() -> None:
    assert not SCALARS["RANDOM"].repeatable
    assert 0.0 <= run("RANDOM") < 1.0


def test_abs_of_null_is_ambiguous() -> None:
    with pytest.raises(AmbiguousCall):
        run("ABS", None)
