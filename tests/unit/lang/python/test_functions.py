"""Python functions in expressions and in KSQL: types, nulls, and errors."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import headrace as hr
from headrace.errors import BadPython, FunctionExists
from headrace.plan import functions


@dataclass(frozen=True)
class Point:
    x: int
    label: str | None


@pytest.fixture(autouse=True)
def restore_functions() -> Iterator[None]:
    kept = dict(functions._SCALARS)
    yield
    functions._SCALARS.clear()
    functions._SCALARS.update(kept)


def applied(function: Callable[..., Any], kind: str, *values: Any) -> list[Any]:
    """The function over a column of that type, row by row, called in KSQL."""
    app = hr.App()
    app.function(name="tried")(function)
    app.stream("s", f"k STRING KEY, v {kind}")
    app.ksql("CREATE STREAM r AS SELECT k, TRIED(v) AS v FROM s;")
    with hr.testing.run(app) as trial:
        trial.send("s", [{"k": "a", "v": value} for value in values])
        return [row["v"] for row in trial.rows("r")]


def _int(v: int) -> int:
    return v + 1


def _small(v: Annotated[int, "INT"]) -> Annotated[int, "INT"]:
    return v + 1


def _text(v: str) -> str:
    return v[::-1]


def _float(v: float) -> float:
    return v / 2


def _bool(v: bool) -> bool:
    return not v


def _bytes(v: bytes) -> bytes:
    return v + b"!"


def _decimal(v: Annotated[Decimal, "DECIMAL(6, 2)"]) -> Annotated[Decimal, "DECIMAL(6, 1)"]:
    return v / 2


def _moment(v: dt.datetime) -> dt.datetime:
    return v + dt.timedelta(hours=1)


def _day(v: dt.date) -> dt.date:
    return v + dt.timedelta(days=1)


def _time(v: dt.time) -> dt.time:
    return v.replace(minute=30)


def _list(v: list[int]) -> list[str]:
    return [str(item) for item in v]


def _dict(v: dict[str, dt.date]) -> dict[str, int]:
    return {key: day.year for key, day in v.items()}


def _point(v: Point) -> Point:
    return Point(v.x * 2, v.label and v.label.upper())


NOON = dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("function", "kind", "value", "expected"),
    [
        (_int, "BIGINT", 41, 42),
        (_int, "INT", 41, 42),
        (_small, "INT", 41, 42),
        (_text, "STRING", "abc", "cba"),
        (_float, "DOUBLE", 3.0, 1.5),
        (_float, "INT", 3, 1.5),
        (_bool, "BOOLEAN", True, False),
        (_bytes, "BYTES", b"a", b"a!"),
        (_decimal, "DECIMAL(6, 2)", Decimal("3.00"), Decimal("1.5")),
        (_moment, "TIMESTAMP", NOON, NOON.replace(hour=13)),
        (_day, "DATE", NOON.date(), dt.date(2026, 2, 1)),
        (_time, "TIME", dt.time(12), dt.time(12, 30)),
        (_list, "ARRAY<BIGINT>", [1, None], ["1", "None"]),
        (_dict, "MAP<STRING, DATE>", {"a": NOON.date()}, {"a": 2026}),
        (_point, "STRUCT<x BIGINT, label STRING>", {"X": 2, "LABEL": "p"}, {"X": 4, "LABEL": "P"}),
        (_point, "STRUCT<x BIGINT, label STRING>", {"X": 2, "LABEL": None}, {"X": 4, "LABEL": None}),
    ],
)
def test_annotations_determine_the_types(function: Callable[..., Any], kind: str, value: Any, expected: Any) -> None:
    assert applied(function, kind, value, None) == [expected, None]


def test_null_is_passed_only_to_optional_parameters() -> None:
    def joined(left: str, right: str | None) -> str:
        return left + (right or "-")

    app = hr.App()
    function = app.function(joined)
    app.stream("s", "k STRING KEY, a STRING, b STRING").select("k", v=function(hr.col.a, hr.col.b)).to_stream("r")
    with hr.testing.run(app) as trial:
        trial.send("s", [{"a": "x", "b": "y"}, {"a": "x"}, {"b": "y"}])
        assert [row["v"] for row in trial.rows("r")] == ["xy", "x-", None]
        assert trial.problems == []


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda v: 1 // v, "integer division or modulo by zero"),
        (lambda v: "text", "'text' is not a valid BIGINT"),
        (lambda v: 1 << 63, f"{1 << 63} is out of range for BIGINT"),
        (lambda v: True, "True is not a valid BIGINT"),
    ],
)
def test_a_function_that_fails_gives_null_and_is_reported(function: Callable[..., Any], reason: str) -> None:
    function.__annotations__ = {"v": int, "return": int}
    app = hr.App()
    app.function(name="tried")(function)
    app.stream("s", "k STRING KEY, v BIGINT").select("k", v=hr.F.tried(hr.col.v)).to_stream("r")
    with hr.testing.run(app) as trial:
        trial.send("s", [{"k": "a", "v": 0}])
        assert trial.rows("r") == [{"k": "a", "v": None}]
        assert [(p.code, p.reason) for p in trial.problems] == [("expression-failed", reason)]


def test_batch_functions_get_arrow_arrays() -> None:
    app = hr.App()

    @app.batch_function(["BIGINT", "BIGINT"], "BIGINT")
    def total(left: pa.Array, right: pa.Array) -> pa.Array:
        return pc.add(left, right)

    @app.batch_function(["BIGINT"], "BIGINT")
    def too_long(value: pa.Array) -> pa.Array:
        return pa.concat_arrays([value, value])

    source = app.stream("s", "k STRING KEY, v BIGINT")
    source.select("k", a=total(hr.col.v, 1), b=too_long(hr.col.v)).to_stream("r")
    with hr.testing.run(app) as trial:
        trial.send("s", [{"k": "a", "v": 41}, {"k": "b"}])
        assert [row["a"] for row in trial.rows("r")] == [42, None]
        assert [(p.code, p.reason) for p in trial.problems] == [
            ("expression-failed", "2 values were returned for 1 row")
        ]


def test_invalid_functions_are_refused() -> None:
    app = hr.App()
    with pytest.raises(FunctionExists):
        app.function(name="ucase")(_text)
    with pytest.raises(BadPython) as raised:
        app.function(lambda v: v)
    assert "does not declare the type of v, return" in raised.value.what

    def odd(v: complex) -> int:
        return 1

    with pytest.raises(BadPython) as raised:
        app.function(odd)
    assert '"complex" has no corresponding KSQL type' in raised.value.what
    assert "test_functions.py:" in (raised.value.where or "")
