"""Versions of code: they depend on its meaning, not on its formatting."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.lang.python.app_code import AppCode, execute
from headrace.lang.python.code_version import version_of

FUNCTION = '''
import math

RATE = 2

def rounded(n: float) -> float:
    """Doc."""
    return math.floor(n)

def taxed(price: float) -> float:
    """What it costs."""
    return rounded(price * RATE)  # with tax
'''
OPERATOR = """
import headrace as hr

LIMIT = 3

class Visits(hr.Operator):
    output = "n BIGINT"

    def on_event(self, event, ctx):
        if self.is_long(ctx.state):
            ctx.emit(n=ctx.state)

    @staticmethod
    def is_long(n):
        return n > LIMIT
"""


def version(text: str, name: str, folder: Path) -> str:
    found: Any = vars(execute(AppCode(text, str(folder / "app.py"))))[name]
    return version_of(found)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("# with tax", ""),
        ('"""What it costs."""', '"""The price."""'),
        ('    """What it costs."""\n', ""),
        ("price * RATE", "(price   *   RATE)"),
        ("import math", "import math\n\n\ndef other() -> int:\n    return 1\n"),
        ("RATE = 2", "RATE = 2\nOTHER = 3"),
    ],
    ids=["comment", "doc", "no-doc", "layout", "other-function", "other-constant"],
)
def test_formatting_and_unrelated_code_do_not_change_the_version(before: str, after: str, tmp_path: Path) -> None:
    assert before in FUNCTION
    changed = FUNCTION.replace(before, after)
    assert version(changed, "taxed", tmp_path) == version(FUNCTION, "taxed", tmp_path)


@pytest.mark.parametrize(
    ("before", "after"),
    [("price * RATE", "price + RATE"), ("RATE = 2", "RATE = 3"), ("math.floor(n)", "math.ceil(n)")],
    ids=["body", "constant", "function-that-is-called"],
)
def test_a_change_of_behaviour_changes_the_version(before: str, after: str, tmp_path: Path) -> None:
    assert before in FUNCTION
    assert version(FUNCTION.replace(before, after), "taxed", tmp_path) != version(FUNCTION, "taxed", tmp_path)


@pytest.mark.parametrize(
    ("before", "after"),
    [("n=ctx.state", "n=1"), ("n > LIMIT", "n >= LIMIT"), ("LIMIT = 3", "LIMIT = 4"), ("n BIGINT", "n BIGINT, m INT")],
    ids=["body", "static-method", "constant", "output"],
)
def test_an_operator_has_a_version(before: str, after: str, tmp_path: Path) -> None:
    assert before in OPERATOR
    first = version(OPERATOR, "Visits", tmp_path)
    assert version(OPERATOR + "# the end", "Visits", tmp_path) == first
    assert version(OPERATOR.replace(before, after), "Visits", tmp_path) != first


def test_the_version_covers_closures_and_functions_without_source() -> None:
    def adding(n: int) -> Any:
        return lambda m: m + n

    assert version_of(adding(1)) != version_of(adding(2))
    made: dict[str, Any] = {}
    exec("def f(n):\n    return n + 1\ndef g(n):\n    return n + 2\ndef h(n):\n    return n + 1", made)
    assert version_of(made["f"]) == version_of(made["h"]) != version_of(made["g"])
