"""Limits beyond the grammar: numbers out of range, expressions nested too deeply, texts too long."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from headrace.errors import KsqlSyntaxError
from headrace.lang.ksql import ast
from headrace.plan.types import BIGINT_MAX, BIGINT_MIN

MAX_DEPTH = 150
"""Maximum depth of a statement's tree. Its readers recurse per level, and Python's stack is limited."""

MAX_TOKENS = 20_000
"""Maximum tokens of a statement: parsing that many takes most of a second."""
MAX_ERRORS = 100
"""Maximum number of syntax errors reported for a text."""
MAX_TEXT_LENGTH = 1 << 20
"""Maximum characters of a string or a name, after variable substitution."""


def check_limits(tree: ast.Ast, text: str) -> None:
    """Raises for the first violation of a limit."""
    todo: list[tuple[ast.Ast, int]] = [(tree, 1)]
    while todo:
        node, depth = todo.pop()
        if depth > MAX_DEPTH:
            raise KsqlSyntaxError(
                f"the expression is nested more than {MAX_DEPTH} levels deep",
                span=node.span,
                fix="split it into several statements, or use IN (...) for many values",
            )
        _check_number(node, text)
        todo.extend((child, depth + 1) for child in _inside(tuple(getattr(node, f.name) for f in fields(node))))


def _check_number(node: ast.Ast, text: str) -> None:
    literal = text[node.span.start : node.span.end]
    match node:
        case ast.IntegerLiteral(value=value) if not BIGINT_MIN <= value <= BIGINT_MAX:
            raise KsqlSyntaxError(
                f"Invalid numeric literal: {literal}",
                span=node.span,
                fix="write an integer between -2^63 and 2^63-1, or add a decimal point to make it a DECIMAL",
            )
        case ast.DoubleLiteral(value=value) if math.isinf(value):
            raise KsqlSyntaxError(
                f"Number overflows DOUBLE: {literal}",
                span=node.span,
                fix="write it without an exponent to make it a DECIMAL",
            )


def _inside(value: Any) -> Iterator[ast.Ast]:
    if isinstance(value, ast.Ast):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from _inside(item)
