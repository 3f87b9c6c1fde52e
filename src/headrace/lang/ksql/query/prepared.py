"""Parameterizes pull queries, so that queries that differ only in literals are planned once.

The *shape* of a query is its text with the text literals and integers of its WHERE replaced by parameters: `id = 'a'`
and `id = 'b'` have the same shape with other values. A query whose meaning depends on a literal (a pattern's escape,
text that stands for a time) cannot be prepared, and is planned as written.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from headrace.lang.ksql import ast
from headrace.lang.ksql.analyzer.scope import parts_of, rewrite
from headrace.lang.ksql.grammar.parser import parse_one
from headrace.plan.expressions import ParameterCell

_TOKEN = re.compile(
    r"""
      (?P<other> --[^\n]* | /\*.*?\*/ | "(?:[^"]|"")*" | `(?:[^`]|``)*` )
    | (?P<text> '(?:[^']|'')*' )
    | (?P<number> \d+ (?:\.\d*)? (?:[eE][+-]?\d+)? )
    | (?P<word> [^\W\d]\w* )
    """,
    re.VERBOSE | re.DOTALL,
)
_CLAUSES_AFTER_WHERE = frozenset(("GROUP", "HAVING", "PARTITION", "ORDER", "LIMIT", "EMIT", "WINDOW"))
_INT_MAX = 2**31 - 1
MAX_TEXT_LENGTH = 10_000
"""Longer texts are not parameterized."""

Value = str | int


def parameterize(text: str) -> tuple[str, list[Value]] | None:
    """Returns the shape and the values; None if the text cannot be prepared."""
    if len(text) > MAX_TEXT_LENGTH or "${" in text:
        return None
    parts, values, last, in_where = list[str](), list[Value](), 0, False
    for match in _TOKEN.finditer(text):
        kind, token = match.lastgroup, match[0]
        if kind == "word":
            word = token.upper()
            in_where = word == "WHERE" or (in_where and word not in _CLAUSES_AFTER_WHERE)
        elif in_where and (value := _value(kind, token)) is not None:
            parts += [text[last : match.start()], f"?{type(value).__name__}"]
            values.append(value)
            last = match.end()
    return "".join([*parts, text[last:]]), values


def _value(kind: str | None, token: str) -> Value | None:
    if kind == "text":
        return token[1:-1].replace("''", "'")
    if kind == "number" and token.isdecimal() and int(token) <= _INT_MAX:
        return int(token)
    return None


def parse_parameterized(text: str, values: Sequence[Value]) -> tuple[ast.Query, list[ParameterCell]] | None:
    """Parses the query with parameters as its values; None if it is no query, or not all values are literals."""
    statement = parse_one(text)
    if not isinstance(statement, ast.SelectStatement) or statement.query.emit is not None:
        return None
    query = statement.query
    literals = [part for part in parts_of(query.where) if isinstance(part, ast.StringLiteral | ast.IntegerLiteral)]
    literals = [one for one in literals if isinstance(one.value, str) or one.value <= _INT_MAX]
    ordered = sorted(literals, key=lambda one: one.span.start if one.span else -1)
    if [one.value for one in ordered] != list(values):
        return None
    cells = [ParameterCell(value) for value in values]
    at = {one.span: cell for one, cell in zip(ordered, cells, strict=True)}

    def change(part: Any) -> Any:
        is_literal = isinstance(part, ast.StringLiteral | ast.IntegerLiteral) and part.span in at
        return ast.ParameterLiteral(at[part.span], span=part.span) if is_literal else None

    return replace(query, where=rewrite(query.where, change)), cells
