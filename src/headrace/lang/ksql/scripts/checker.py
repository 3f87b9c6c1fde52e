"""Checks a whole script before any of it runs: every statement is planned, every error collected.

An error is reported once. Errors that only follow from it (a query over a stream whose own CREATE was rejected) are
counted, not reported: the statement may well be right. RUN SCRIPT is followed, its path relative to the folder of the
script that contains it, in the dialect of its file ending; DEFINE and SET apply from their position on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from headrace.errors import (
    BadScript,
    BadType,
    HeadraceError,
    KsqlSyntaxError,
    SourceNotFound,
    StatementError,
    UnknownDialect,
)
from headrace.lang.contract import CheckedScript, PlannedStatement
from headrace.lang.ksql import ast
from headrace.lang.ksql.analyzer.scope import parts_of
from headrace.lang.ksql.grammar.parser import ParsedStatement, read_statements
from headrace.lang.ksql.grammar.tokens import Kind, Token
from headrace.lang.ksql.scripts.fixes import with_fix
from headrace.lang.ksql.statements.planner import Planner
from headrace.lang.registry import KSQL, dialect_of_file
from headrace.lang.script_files import check_files_read, named_script
from headrace.plan.catalog import Catalog
from headrace.span import place


def check_script(
    text: str,
    name: str | None = None,
    catalog: Catalog | None = None,
    properties: Mapping[str, Any] | None = None,
    *,
    reads_files: bool = True,
) -> CheckedScript:
    """Checks a script. `name` is its file's, for errors and RUN SCRIPT; the given catalog is not changed."""
    check = _Check(Planner(Catalog() if catalog is None else catalog.copy(), properties), reads_files)
    check.script(text, name)
    return check.result


# -- checking -------------------------------------------------------------------------------------------------------


class _Check:
    def __init__(self, planner: Planner, reads_files: bool) -> None:
        self.planner = planner
        self._reads_files = reads_files
        self.result = CheckedScript(planner.catalog)
        self._variables: dict[str, str] = {}
        self._around: list[str | None] = []
        self._missing: set[str] = set()
        """What rejected statements would have created: names of sources and types, and `${variables}`."""
        self._lost_script = False
        """A script could not be read or has errors: what it would have created is unknown."""

    def script(self, text: str, name: str | None) -> None:
        self._around.append(name)
        for reading in read_statements(text, self._variables, name=name):
            try:
                self._statement(reading, name)
                self._missing -= _created_sources(reading.tokens)
            except HeadraceError as error:
                self._refused(_located(error, reading, text, name), reading)
        self._around.pop()

    def _statement(self, reading: ParsedStatement, name: str | None) -> None:
        statement = reading.statement
        if reading.error is not None:
            raise reading.error
        if isinstance(statement, ast.RunScript):
            check_files_read(statement.span, self._reads_files)
            path, inner = named_script(statement.path, statement.span, self._around)
            if (dialect := dialect_of_file(path)).name == KSQL:
                self.script(inner, path)
            else:
                self._adopt(dialect.check(inner, path, self.planner.catalog, self.planner.properties))
        elif statement is not None:
            action = self.planner.plan(statement, reading.text)
            self.result.planned.append(PlannedStatement(reading.text, place(statement.span, name), action))

    def _adopt(self, checked: CheckedScript) -> None:
        """Add the result of a script in another dialect."""
        self.planner.catalog.restore(checked.catalog)
        self.result.planned += checked.planned
        self.result.errors += checked.errors
        self.result.refused += checked.refused
        self.result.following += checked.following
        self._lost_script |= bool(checked.errors)

    def _refused(self, error: HeadraceError, reading: ParsedStatement) -> None:
        if self._follows(error, reading):
            self.result.following += 1
        else:
            self.result.refused += 1
            self.result.errors += _in_order(error)
        self._lost_script |= isinstance(error, BadScript | UnknownDialect)
        self._missing |= _created_sources(reading.tokens)
        if isinstance(reading.statement, ast.DropSource):
            self._missing.discard(reading.statement.name)

    def _follows(self, error: HeadraceError, reading: ParsedStatement) -> bool:
        """Whether the error is only a consequence of an earlier error."""
        if isinstance(error, KsqlSyntaxError):
            return any(t.span == error.span and t.text in self._missing for t in reading.tokens)
        absent = isinstance(error, SourceNotFound | BadType)
        if absent and (self._lost_script or isinstance(reading.statement, ast.ControlQuery | ast.Explain)):
            # Query ids are numbered, so any rejected query may be the one.
            return self._lost_script or bool(self._missing)
        needed = self._missing.intersection(_needed_names(reading.statement))
        # A rejected CREATE OR REPLACE leaves the old source, against which nothing can be checked.
        return bool(needed) and (absent or not needed.isdisjoint(self.planner.catalog.sources))


def _in_order(error: HeadraceError) -> list[HeadraceError]:
    """Returns the error and the others of its statement, in text order."""
    if not isinstance(error, StatementError):
        return [error]
    every = sorted((error, *error.others), key=_start)
    return [*every]


def _start(error: StatementError) -> int:
    return error.span.start if error.span else 0


def _located(error: HeadraceError, reading: ParsedStatement, text: str, name: str | None) -> HeadraceError:
    span = reading.tokens[0].span if reading.statement is None else reading.statement.span
    if isinstance(error, StatementError):
        error.span = error.span or span
        for one in (error, *error.others):
            with_fix(one)
        return error.located(text, name)
    error.where = error.where or place(span, name)
    return error


# -- names ----------------------------------------------------------------------------------------------------------

_KINDS = ("STREAM", "TABLE", "TYPE")
_BETWEEN = ("OR", "REPLACE", "SOURCE", "IF", "NOT", "EXISTS", *_KINDS)


def _created_sources(tokens: Sequence[Token]) -> set[str]:
    """Returns what a statement creates, judged by its tokens: it may contain an error."""
    first, *rest = (token.value.upper() if token.kind is Kind.WORD else "" for token in tokens)
    if first == "DEFINE" and rest:
        return {f"${{{tokens[1].text}}}"}
    if first != "CREATE" or not set(_KINDS).intersection(rest[:3]):
        return set()
    name = next((t for t in tokens[1:] if t.kind is not Kind.WORD or t.value.upper() not in _BETWEEN), tokens[0])
    return {name.value.upper() if name.kind is Kind.WORD else name.value}


def _needed_names(statement: ast.Statement | None) -> Iterator[str]:
    """Yields the sources and types that a statement needs."""
    for part in parts_of(statement):
        if isinstance(part, ast.SourceRef | ast.TypeName | ast.DropSource | ast.AlterSource | ast.DropType):
            yield part.name
        elif isinstance(part, ast.InsertInto | ast.InsertValues | ast.DeleteFrom | ast.AssertValues):
            yield part.target
        elif isinstance(part, ast.Describe) and part.what == "SOURCE" and part.name:
            yield part.name
