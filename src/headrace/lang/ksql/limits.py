"""What the grammar allows but no machine can hold: numbers out of range, expressions nested too deeply."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from headrace.errors import KsqlSyntaxError
from headrace.lang.ksql import ast
from headrace.plan.types import BIGINT_MAX, BIGINT_MIN

DEEPEST = 150
"""Levels of a statement's tree. What reads it calls itself per level, and Python's stack has an end."""

MOST_TOKENS = 20_000
"""Words and signs of a statement: reading them takes most of a second."""
MOST_ERRORS = 100
"""That are told of a text."""
LONGEST_TEXT = 1 << 20
"""Characters of a text or a name, with the variables in it."""
MOST_STATEMENTS = 5_000
"""Of a text that is sent to a server."""


def check(tree: ast.Ast, text: str) -> None:
    """Raise for the first thing that is beyond a limit."""
    todo: list[tuple[ast.Ast, int]] = [(tree, 1)]
    while todo:
        node, depth = todo.pop()
        if depth > DEEPEST:
            raise KsqlSyntaxError(
                f"this is nested more than {DEEPEST} levels deep",
                span=node.span,
                fix="split it into several statements, or use IN (...) for many values",
            )
        _check_number(node, text)
        todo.extend((child, depth + 1) for child in _inside(tuple(getattr(node, f.name) for f in fields(node))))


def _check_number(node: ast.Ast, text: str) -> None:
    written = text[node.span.start : node.span.end]
    match node:
        case ast.IntegerLiteral(value=value) if not BIGINT_MIN <= value <= BIGINT_MAX:
            raise KsqlSyntaxError(
                f"Invalid numeric literal: {written}",
                span=node.span,
                fix="a whole number is between -2^63 and 2^63-1; write it with a point to make it a DECIMAL",
            )
        case ast.DoubleLiteral(value=value) if math.isinf(value):
            raise KsqlSyntaxError(
                f"Number overflows DOUBLE: {written}", span=node.span, fix="write it without E to make it a DECIMAL"
            )


def _inside(value: Any) -> Iterator[ast.Ast]:
    if isinstance(value, ast.Ast):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from _inside(item)
