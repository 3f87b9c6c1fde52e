"""Questions that differ only in the values they look for are planned once.

The *shape* of a question is its text with the text literals and whole numbers of its WHERE lifted out: who asks for
`id = 'a'` and then for `id = 'b'` asks the same with other values. A question whose meaning hangs on a literal (a
pattern's escape, text that stands for a time) cannot be prepared so, and is planned as it is written.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from headrace.lang.ksql import ast
from headrace.lang.ksql.parser import parse_one
from headrace.lang.ksql.scope import parts_of, rewritten
from headrace.plan.expressions import Cell

_TOKEN = re.compile(
    r"""
      (?P<other> --[^\n]* | /\*.*?\*/ | "(?:[^"]|"")*" | `(?:[^`]|``)*` )
    | (?P<text> '(?:[^']|'')*' )
    | (?P<number> \d+ (?:\.\d*)? (?:[eE][+-]?\d+)? )
    | (?P<word> [^\W\d]\w* )
    """,
    re.VERBOSE | re.DOTALL,
)
_ENDS = frozenset(("GROUP", "HAVING", "PARTITION", "ORDER", "LIMIT", "EMIT", "WINDOW"))
_LARGEST = 2**31 - 1
LONGEST = 10_000
"""Characters of a text that is looked at."""

Value = str | int


def shape_of(text: str) -> tuple[str, list[Value]] | None:
    """The shape and the values; None for what is no question that can be prepared."""
    if len(text) > LONGEST or "${" in text:
        return None
    parts, values, last, inside = list[str](), list[Value](), 0, False
    for found in _TOKEN.finditer(text):
        kind, written = found.lastgroup, found[0]
        if kind == "word":
            word = written.upper()
            inside = word == "WHERE" or (inside and word not in _ENDS)
        elif inside and (value := _value(kind, written)) is not None:
            parts += [text[last : found.start()], f"?{type(value).__name__}"]
            values.append(value)
            last = found.end()
    return "".join([*parts, text[last:]]), values


def _value(kind: str | None, written: str) -> Value | None:
    if kind == "text":
        return written[1:-1].replace("''", "'")
    if kind == "number" and written.isdecimal() and int(written) <= _LARGEST:
        return int(written)
    return None


def lifted(text: str, values: Sequence[Value]) -> tuple[ast.Query, list[Cell]] | None:
    """The question with cells in the place of its values; None if it is none, or they are not all literals."""
    statement = parse_one(text)
    if not isinstance(statement, ast.SelectStatement) or statement.query.emit is not None:
        return None
    query = statement.query
    literals = [part for part in parts_of(query.where) if isinstance(part, ast.StringLiteral | ast.IntegerLiteral)]
    literals = [one for one in literals if isinstance(one.value, str) or one.value <= _LARGEST]
    ordered = sorted(literals, key=lambda one: one.span.start if one.span else -1)
    if [one.value for one in ordered] != list(values):
        return None
    cells = [Cell(value) for value in values]
    at = {one.span: cell for one, cell in zip(ordered, cells, strict=True)}

    def change(part: Any) -> Any:
        is_literal = isinstance(part, ast.StringLiteral | ast.IntegerLiteral) and part.span in at
        return ast.Given(at[part.span], span=part.span) if is_literal else None

    return replace(query, where=rewritten(query.where, change)), cells
