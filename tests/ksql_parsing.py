"""All statements of a KSQL text at once, with all its syntax errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.errors import KsqlSyntaxError
from headrace.lang.ksql import ast
from headrace.lang.ksql.grammar.parser import read_statements


@dataclass
class Parsed:
    """The statements, each with its own text (variables substituted), and the errors of the others."""

    statements: list[tuple[ast.Statement, str]] = field(default_factory=list)
    errors: list[KsqlSyntaxError] = field(default_factory=list)


def parse(text: str, *, name: str | None = None, variables: Mapping[str, str] | None = None) -> Parsed:
    """Parses a script; `name` (of a file) appears in errors, `variables` are predefined."""
    parsed = Parsed()
    for reading in read_statements(text, dict(variables or {}), name=name):
        if reading.error is not None:
            parsed.errors.append(reading.error)
        elif reading.statement is not None:
            parsed.statements.append((reading.statement, reading.text))
    return parsed
