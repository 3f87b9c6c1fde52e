"""Checks the text of the statement editor, without the statements that were executed already."""

from __future__ import annotations

import re
from collections.abc import Collection

from headrace.errors import StatementError
from headrace.lang.contract import CheckedScript
from headrace.lang.registry import dialect_of
from headrace.plan.catalog import Catalog

_SEMICOLON = re.compile(r"\s*;")


def check_unexecuted(text: str, catalog: Catalog, executed: Collection[str]) -> CheckedScript:
    """Check a text. An executed statement whose effect is in the catalog ("already exists") is not an error."""
    dialect = dialect_of()
    script = dialect.check(text, None, catalog, reads_files=False)
    starts = [error.span.start for error in script.errors if isinstance(error, StatementError) and error.span]
    done = [
        statement.span
        for statement in dialect.parse(text, {})
        if statement.error is None and normalized(statement.text) in executed
    ]
    blank = [span for span in done if any(span.start <= error < span.end for error in starts)]
    if not blank:
        return script
    for span in blank:  # positions stay
        semicolon = _SEMICOLON.match(text, span.end)
        end = semicolon.end() if semicolon else span.end
        text = text[: span.start] + re.sub(r"[^\n]", " ", text[span.start : end]) + text[end:]
    return dialect.check(text, None, catalog, reads_files=False)


def normalized(statement: str) -> str:
    """The text of a statement, for comparison."""
    return statement.strip().removesuffix(";").rstrip()
