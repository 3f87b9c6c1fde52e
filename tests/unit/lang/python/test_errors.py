"""Errors are raised at the call, with the Python line underlined."""

from __future__ import annotations

import doctest
import inspect
from importlib import import_module

import pytest

import headrace as hr
from headrace import col
from headrace.errors import BadPython, ColumnNotFound, HeadraceError, StatementError, UnknownFunction, WrongKind
from headrace.lang.python.app_code import AppCode

MODULES = ("app", "user_functions", "expressions", "functions", "operators", "relations", "windows")


def clicks() -> hr.NamedRelation:
    return hr.App().stream("clicks", "user STRING KEY, page STRING, amount BIGINT")


def line(words: str) -> int:
    """Where these words stand in this file; they stand here too, last."""
    source = inspect.getsource(inspect.getmodule(line)).splitlines()  # type: ignore[arg-type]
    return next(number for number, text in enumerate(source, 1) if words in text)


def test_an_unknown_column_is_underlined() -> None:
    with pytest.raises(ColumnNotFound) as raised:
        clicks().where(col.amuont > 3).to_stream("x")
    error = raised.value
    assert error.where == f"tests/unit/lang/python/test_errors.py:{line('col.amuont')}:24"
    assert (error.excerpt or "").splitlines()[1].strip() == "^" * len("col.amuont")
    assert error.fix == 'did you mean "AMOUNT"?'


def test_each_error_of_a_statement_has_its_line() -> None:
    with pytest.raises(StatementError) as raised:
        clicks().select(
            "user",
            a=col.first_wrong,
            b=col.second_wrong,
        ).to_stream("x")
    wheres = [error.where or "" for error in (raised.value, *raised.value.others)]
    assert [int(where.split(":")[1]) for where in wheres] == [line("col.first_wrong"), line("col.second_wrong")]


def test_a_wrong_kind_of_result_is_reported_at_the_statement() -> None:
    with pytest.raises(WrongKind) as raised:
        clicks().group_by("page").count().to_stream("counts")
    assert f":{line('count().to_stream')}:" in (raised.value.where or "")


def test_an_error_in_ksql_names_the_ksql_and_the_python_line() -> None:
    app = hr.App()
    with pytest.raises(StatementError) as raised:
        app.ksql("CREATE STREAM x AS\nSELECT * FROM nowhere;")
    assert raised.value.where.endswith(f"test_errors.py:{line('FROM nowhere')}, in KSQL: line 2:15")  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("act", "code"),
    [
        (lambda: bool(col.a > 1), "bad-python"),
        (lambda: (col.a > 1) and (col.b > 1), "bad-python"),
        (lambda: col.a == object(), "bad-python"),
        (lambda: col.a + (1 << 63), "bad-python"),
        (lambda: col.a + float("nan"), "bad-python"),
        (lambda: col.a.cast("DECIMAL("), "syntax-error"),
        (lambda: clicks().join(clicks(), on="user", how="sideways"), "bad-python"),
        (hr.tumbling, "bad-python"),
        (lambda: hr.tumbling(fortnights=1), "bad-python"),
        (lambda: hr.App().stream("s", "user STRING KEY,"), "syntax-error"),
        (lambda: clicks().select("user", a=hr.F.nothing(col.page)).to_stream("x"), "unknown-function"),
        (lambda: clicks().operate("nothing").to_stream("x"), "unknown-function"),
    ],
)
def test_refusals_have_a_code_a_place_and_a_fix(act: object, code: str) -> None:
    with pytest.raises(HeadraceError) as raised:
        act()  # type: ignore[operator]
    assert raised.value.code == code
    assert "test_errors.py" in (raised.value.where or "")
    assert raised.value.fix


def test_a_refused_call_changes_nothing() -> None:
    source = clicks()
    before = source.app.text
    with pytest.raises(UnknownFunction):
        source.select("user", a=hr.F.nothing(col.page)).to_stream("x")
    assert source.app.text == before
    assert source.select("user", "page").to_stream("x").name == "X"


def test_strings_are_not_changed_by_variables() -> None:
    source = clicks()
    source.where(col.page == "${a}").to_stream("x")
    source.app.ksql("DEFINE a = 'b';")
    with pytest.raises(BadPython, match="which DEFINE would replace"):
        source.where(col.page == "${a}").to_stream("y")


def test_public_names_have_their_module() -> None:
    for name in dir(hr):
        assert getattr(hr, name) is not None
    with pytest.raises(AttributeError):
        hr.nothing  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize("module", [*(f"lang.python.{name}" for name in MODULES), "testing.harness"])
def test_docstring_examples_run(module: str) -> None:
    result = doctest.testmod(import_module(f"headrace.{module}"))
    assert (result.failed, result.attempted > 0) == (0, True)


def test_the_name_of_an_app_must_be_a_valid_folder_name() -> None:
    with pytest.raises(BadPython, match="not a valid name for an app"):
        hr.App("../else")
    assert AppCode("", "some where/my app.v2.py").name == "my-app-v2"
