from decimal import Decimal
from math import nan
from typing import Any

import pyarrow as pa
import pytest

from headrace.errors import AmbiguousCall, WrongArguments
from headrace.plan import types
from headrace.plan.functions import SCALARS
from headrace.plan.functions.signature import resolve
from tests.unit.plan.functions.function_call import run

INTS = types.array(types.INT)
MAP = types.map_of(types.STRING, types.DOUBLE)


@pytest.mark.parametrize(
    ("name", "arguments", "kinds", "result"),
    [
        ("COALESCE", (None, None, 3), [types.INT] * 3, 3),
        ("COALESCE", (False, True), [types.BOOLEAN] * 2, False),
        ("COALESCE", (None,), [types.INT], None),
        ("COALESCE", (None, [None]), [INTS] * 2, [None]),
        ("IFNULL", (None, "x"), [types.STRING] * 2, "x"),
        ("IFNULL", ("", "x"), [types.STRING] * 2, ""),
        ("NULLIF", ("a", "a"), [types.STRING] * 2, None),
        ("NULLIF", ("a", None), [types.STRING] * 2, "a"),
        ("NULLIF", (None, "a"), [types.STRING] * 2, None),
        ("NULLIF", (nan, nan), [types.DOUBLE] * 2, None),
        ("NULLIF", ([1, None], [1, None]), [INTS] * 2, None),
        ("NULLIF", ({"a": 0.0}, {"a": 1.0}), [MAP] * 2, {"a": 0.0}),
        ("AS_VALUE", (5,), [types.INT], 5),
        ("AS_VALUE", (None,), [types.INT], None),
        ("GREATEST", (3, None, 7), [types.INT] * 3, 7),
        ("LEAST", (3, None, 7), [types.BIGINT] * 3, 3),
        ("LEAST", (None, None), [types.BIGINT] * 2, None),
        ("GREATEST", (1.0, None), [types.DOUBLE] * 2, 1.0),
        ("LEAST", (nan, 1.0), [types.DOUBLE] * 2, 1.0),
        ("GREATEST", ("a", "B", "ab"), [types.STRING] * 3, "ab"),
        # Java compares UTF-16 units, in which U+10000 comes before U+FFFF.
        ("GREATEST", ("\U00010000", "\uffff"), [types.STRING] * 2, "\uffff"),
        # and signed bytes
        ("GREATEST", (b"\x80", b"\x01"), [types.BYTES] * 2, b"\x01"),
        ("LEAST", (b"banana", b"apple", b"app"), [types.BYTES] * 3, b"app"),
        ("GREATEST", (19071, -5883), [types.DATE] * 2, 19071),
        ("LEAST", (33_360_000, 10), [types.TIME] * 2, 10),
        ("LEAST", (5,), [types.TIMESTAMP], 5),
    ],
)
def test_result(name: str, arguments: tuple[Any, ...], kinds: list[pa.DataType], result: Any) -> None:
    assert run(name, *arguments, kinds=kinds) == result


def test_minus_zero_is_less_than_zero() -> None:
    assert str(run("LEAST", 0.0, -0.0)) == "-0.0"
    assert str(run("GREATEST", -0.0, 0.0)) == "0.0"
    assert str(run("GREATEST", nan, 1.0)) == "nan"


def test_decimals_are_widened() -> None:
    kinds = [types.decimal(9, 2), types.decimal(7, 6)]
    assert resolve(SCALARS["LEAST"], kinds).result == types.decimal(13, 6)
    assert str(run("GREATEST", Decimal("1234567.89"), Decimal("0.123456"), kinds=kinds)) == "1234567.890000"
    assert str(run("LEAST", Decimal("1234567.89"), None, kinds=[*kinds, types.NULL][::2])) == "1234567.89"


@pytest.mark.parametrize(
    ("kinds", "error"),
    [
        ([], WrongArguments),
        ([types.STRING, types.INT], WrongArguments),
        ([types.INT, types.BIGINT], AmbiguousCall),
        ([types.NULL, types.NULL], AmbiguousCall),
    ],
)
def test_refused_types(kinds: list[pa.DataType], error: type[Exception]) -> None:
    with pytest.raises(error):
        resolve(SCALARS["GREATEST"], kinds)
