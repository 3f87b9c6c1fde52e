"""Collects further errors of a query that is already rejected, so that one check reports all of them.

Only errors inside an expression are collected: unknown names, functions and operators with wrong argument types. Errors
that depend on the rest of the query are reported once that is correct.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa

from headrace.errors import (
    AmbiguousCall,
    AmbiguousColumn,
    BadLiteral,
    ColumnNotFound,
    SourceNotFound,
    StatementError,
    TypeMismatch,
    UnknownFunction,
    WrongArguments,
)
from headrace.lang.ksql import ast
from headrace.lang.ksql.analyzer.scope import Scope, parts_of, qualify
from headrace.lang.ksql.analyzer.typer import Typer
from headrace.lang.ksql.formatter import expression_text
from headrace.plan.expressions import BOUNDS

_NAMES = (ColumnNotFound, AmbiguousColumn, SourceNotFound)
_VALUES = (*_NAMES, UnknownFunction, WrongArguments, AmbiguousCall, TypeMismatch, BadLiteral)


def with_further_errors(
    error: StatementError, query: ast.Query, scope: Scope, types: Mapping[str, pa.DataType]
) -> StatementError:
    """Adds the other errors of the same query to the error."""
    seen = {_start(error)}
    others: list[StatementError] = []
    for clause, expression in _clauses(query):
        for fault in _faults(clause, expression, query, scope, types):
            if _start(fault) not in seen:
                seen.add(_start(fault))
                others.append(fault)
    error.others = (*error.others, *others)
    for one in (error, *others):
        _explain_alias(one, query)
    return error


def _start(error: StatementError) -> tuple[int, int] | None:
    """Where the error begins; calls of Python are told apart by their line."""
    return error.span and (error.span.line, error.span.column)


def _explain_alias(error: StatementError, query: ast.Query) -> None:
    """If the unknown column is an alias of SELECT, sets the fix: clauses cannot use aliases."""
    if not isinstance(error, ColumnNotFound):
        return
    aliases = {item.alias: item.value for item in query.select if item.alias is not None}
    for clause, expression in _clauses(query):
        for part in parts_of(expression):
            if clause != "SELECT" and isinstance(part, ast.Name) and part.span == error.span and part.name in aliases:
                aliased = expression_text(aliases[part.name])
                error.fix = f"{clause} cannot use an alias; write {aliased} in place of {part.name}"


def _clauses(query: ast.Query) -> Iterator[tuple[str, ast.Expr]]:
    for item in query.select:
        if not isinstance(item.value, ast.Star | ast.StructStar):
            yield "SELECT", item.value
    yield from (("DISTINCT ON", value) for value in (query.distinct.on if query.distinct else ()))
    if query.where is not None:
        yield "WHERE", query.where
    yield from (("GROUP BY", group) for group in query.group_by)
    yield from (("PARTITION BY", key) for key in query.partition_by)
    if query.having is not None:
        yield "HAVING", query.having


def _faults(
    clause: str, expression: ast.Expr, query: ast.Query, scope: Scope, types: Mapping[str, pa.DataType]
) -> Iterator[StatementError]:
    unknown = list(_unknown_names(clause, expression, query, scope))
    yield from unknown
    if unknown:
        return
    try:
        Typer(scope, clause, types).typed(qualify(expression, scope, clause))
    except _VALUES as error:
        if not (query.window and _bounds(error)):
            yield error
    except StatementError:
        return  # an aggregate, for example: not wrong by itself


def _unknown_names(clause: str, expression: ast.Expr, query: ast.Query, scope: Scope) -> Iterator[StatementError]:
    own = {name for part in parts_of(expression) if isinstance(part, ast.Lambda) for name in part.parameters}
    if query.window is not None:
        own |= set(BOUNDS)
    for part in parts_of(expression):
        if isinstance(part, ast.Name) and part.name not in own:
            try:
                scope.resolve(part, clause)
            except _NAMES as error:
                yield error


def _bounds(error: StatementError) -> bool:
    return any(name in error.what for name in BOUNDS)
