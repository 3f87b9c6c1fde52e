"""A whole script, looked through before anything of it runs: every statement is planned, every error collected.

An error is told once. What only follows from it (a query over a stream whose own CREATE was refused) is counted, not
told: it may well be right. RUN SCRIPT is followed, its path taken from the folder of the script that names it; DEFINE
and SET count from where they stand.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace.errors import BadScript, BadType, HeadraceError, KsqlSyntaxError, SourceNotFound, StatementError
from headrace.lang.ksql import ast
from headrace.lang.ksql.advice import advised
from headrace.lang.ksql.files import check_files_read, named_script
from headrace.lang.ksql.parser import Reading, read
from headrace.lang.ksql.planner import Planner
from headrace.lang.ksql.scope import parts_of
from headrace.lang.ksql.tokens import Kind, Token
from headrace.plan.catalog import Action, Catalog
from headrace.span import place


@dataclass(frozen=True)
class Planned:
    """A statement that was accepted, where it stands, and what it asks for."""

    statement: ast.Statement
    text: str
    where: str
    action: Action


@dataclass
class Checked:
    """What a script means, and everything that is wrong with it, in the order of its text."""

    catalog: Catalog
    planned: list[Planned] = field(default_factory=list)
    errors: list[HeadraceError] = field(default_factory=list)
    refused: int = 0
    """Statements with errors; one may have several."""
    following: int = 0
    """Statements that were not judged, since what they need was refused."""

    @property
    def statements(self) -> int:
        return len(self.planned) + self.refused + self.following


def check_script(
    text: str,
    name: str | None = None,
    catalog: Catalog | None = None,
    properties: Mapping[str, Any] | None = None,
    *,
    reads_files: bool = True,
) -> Checked:
    """Look through a script. `name` is its file's, for errors and RUN SCRIPT; the catalog given stays as it is."""
    check = _Check(Planner(Catalog() if catalog is None else catalog.copy(), properties), reads_files)
    check.script(text, name)
    return check.result


# -- checking -------------------------------------------------------------------------------------------------------


class _Check:
    def __init__(self, planner: Planner, reads_files: bool) -> None:
        self.planner = planner
        self._reads_files = reads_files
        self.result = Checked(planner.catalog)
        self._variables: dict[str, str] = {}
        self._around: list[str | None] = []
        self._missing: set[str] = set()
        """What refused statements would have made: names of sources and types, and `${variables}`."""
        self._lost_script = False
        """A script could not be read: nobody knows what it would have made."""

    def script(self, text: str, name: str | None) -> None:
        self._around.append(name)
        for reading in read(text, self._variables, name=name):
            try:
                self._statement(reading, name)
                self._missing -= _made(reading.tokens)
            except HeadraceError as error:
                self._refused(_located(error, reading, text, name), reading)
        self._around.pop()

    def _statement(self, reading: Reading, name: str | None) -> None:
        statement = reading.statement
        if reading.error is not None:
            raise reading.error
        if isinstance(statement, ast.RunScript):
            check_files_read(statement.span, self._reads_files)
            path, inner = named_script(statement.path, statement.span, self._around)
            self.script(inner, path)
        elif statement is not None:
            action = self.planner.plan(statement, reading.text)
            self.result.planned.append(Planned(statement, reading.text, place(statement.span, name), action))

    def _refused(self, error: HeadraceError, reading: Reading) -> None:
        if self._follows(error, reading):
            self.result.following += 1
        else:
            self.result.refused += 1
            self.result.errors += _in_order(error)
        self._lost_script |= isinstance(error, BadScript)
        self._missing |= _made(reading.tokens)
        if isinstance(reading.statement, ast.DropSource):
            self._missing.discard(reading.statement.name)

    def _follows(self, error: HeadraceError, reading: Reading) -> bool:
        """Whether the error is only due to something that an earlier error kept from being there."""
        if isinstance(error, KsqlSyntaxError):
            return any(t.span == error.span and t.text in self._missing for t in reading.tokens)
        absent = isinstance(error, SourceNotFound | BadType)
        if absent and (self._lost_script or isinstance(reading.statement, ast.ControlQuery | ast.Explain)):
            # The ids of queries are numbered, so any refused query may be the one.
            return self._lost_script or bool(self._missing)
        needed = self._missing.intersection(_named(reading.statement))
        # A refused CREATE OR REPLACE leaves the old source, by which nothing can be judged.
        return bool(needed) and (absent or not needed.isdisjoint(self.planner.catalog.sources))


def _in_order(error: HeadraceError) -> list[HeadraceError]:
    """The error and its statement's others, as they stand in the text."""
    if not isinstance(error, StatementError):
        return [error]
    every = sorted((error, *error.others), key=_start)
    return [*every]


def _start(error: StatementError) -> int:
    return error.span.start if error.span else 0


def _located(error: HeadraceError, reading: Reading, text: str, name: str | None) -> HeadraceError:
    span = reading.tokens[0].span if reading.statement is None else reading.statement.span
    if isinstance(error, StatementError):
        error.span = error.span or span
        for one in (error, *error.others):
            advised(one)
        return error.located(text, name)
    error.where = error.where or place(span, name)
    return error


# -- names ----------------------------------------------------------------------------------------------------------

_KINDS = ("STREAM", "TABLE", "TYPE")
_BETWEEN = ("OR", "REPLACE", "SOURCE", "IF", "NOT", "EXISTS", *_KINDS)


def _made(written: Sequence[Token]) -> set[str]:
    """What a statement makes, as far as its tokens tell: it may have an error in it."""
    first, *rest = (token.value.upper() if token.kind is Kind.WORD else "" for token in written)
    if first == "DEFINE" and rest:
        return {f"${{{written[1].text}}}"}
    if first != "CREATE" or not set(_KINDS).intersection(rest[:3]):
        return set()
    name = next((t for t in written[1:] if t.kind is not Kind.WORD or t.value.upper() not in _BETWEEN), written[0])
    return {name.value.upper() if name.kind is Kind.WORD else name.value}


def _named(statement: ast.Statement | None) -> Iterator[str]:
    """The sources and types that a statement needs."""
    for part in parts_of(statement):
        if isinstance(part, ast.SourceRef | ast.TypeName | ast.DropSource | ast.AlterSource | ast.DropType):
            yield part.name
        elif isinstance(part, ast.InsertInto | ast.InsertValues | ast.DeleteFrom | ast.AssertValues):
            yield part.target
        elif isinstance(part, ast.Describe) and part.what == "SOURCE" and part.name:
            yield part.name
