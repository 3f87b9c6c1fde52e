"""Scalar functions and aggregates.

`F` has every function of KSQL, and the user-defined ones, under its KSQL name in any case; its arguments are
expressions, and Python values are literals. The most used aggregates also have a Python name; for them a string is a
column name.

    >>> from headrace import F, col, count, sum
    >>> F.substring(col.page, 1, 3)
    SUBSTRING(`PAGE`, 1, 3)
    >>> count(), sum("amount")
    (COUNT(*), SUM(`AMOUNT`))
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from headrace.lang.ksql import ast
from headrace.lang.python.call_site import call_site
from headrace.lang.python.expressions import Expr, column_of, fold_name, node_of


def call(function: str, *arguments: Any) -> Expr:
    """Call a function by name. A Python lambda becomes a KSQL lambda: `call("filter", col.items, lambda x: x > 2)`."""
    return Expr(ast.Call(function.upper(), tuple(map(_argument, arguments)), span=call_site()))


class _Functions:
    def __getattr__(self, name: str) -> Callable[..., Expr]:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *arguments: call(name, *arguments)


F = _Functions()


def _argument(value: Any) -> ast.Expr:
    if not inspect.isfunction(value):
        return node_of(value)
    names = tuple(fold_name(name) for name in inspect.signature(value).parameters)
    body = value(*(Expr(ast.Name(name, span=call_site())) for name in names))
    return ast.Lambda(names, node_of(body), span=call_site())


# -- aggregates -----------------------------------------------------------------------------------------------------


def count(column: Expr | str | None = None) -> Expr:
    """Number of rows, or of rows with a value in the column."""
    return call("COUNT", Expr(ast.Star(span=call_site())) if column is None else column_of(column))


def sum(column: Expr | str) -> Expr:
    return call("SUM", column_of(column))


def avg(column: Expr | str) -> Expr:
    return call("AVG", column_of(column))


def min(column: Expr | str) -> Expr:
    return call("MIN", column_of(column))


def max(column: Expr | str) -> Expr:
    return call("MAX", column_of(column))


def first(column: Expr | str) -> Expr:
    """Value of the first row, in order of arrival."""
    return call("EARLIEST_BY_OFFSET", column_of(column))


def last(column: Expr | str) -> Expr:
    """Value of the last row, in order of arrival."""
    return call("LATEST_BY_OFFSET", column_of(column))


def count_distinct(column: Expr | str) -> Expr:
    """How many different values, by estimate."""
    return call("COUNT_DISTINCT", column_of(column))


def collect_list(column: Expr | str) -> Expr:
    return call("COLLECT_LIST", column_of(column))


def collect_set(column: Expr | str) -> Expr:
    return call("COLLECT_SET", column_of(column))
