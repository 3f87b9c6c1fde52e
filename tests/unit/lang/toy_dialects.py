"""Two small dialects, known to nobody but the tests that register them.

`arrows` has a statement per line: `A` declares a stream over topic A, `A > 3 -> B` fills stream B with the rows of A
whose V is above 3. `lists` says the same as `(stream A)` and `(above B A 3)`.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from headrace.errors import HeadraceError, SourceNotFound, StatementError
from headrace.lang.contract import Dialect
from headrace.plan.actions import Action, CreateSource
from headrace.plan.catalog import Catalog
from headrace.span import Span
from tests.unit.testing.hand_built_plans import above, info


class ToySyntaxError(StatementError, code="toy-syntax-error"):
    """Not a statement of a toy dialect."""


@dataclass(frozen=True)
class ToyStatement:
    """`name` is the stream that is created; `source` the one it is filled from."""

    text: str
    span: Span
    name: str = ""
    source: str | None = None
    least: int = 0
    error: HeadraceError | None = None
    reads: frozenset[str] = frozenset()
    writes: str | None = None
    inserts_rows: bool = False
    returns_rows: bool = False
    script: str | None = None


@dataclass
class ToyPlanner:
    catalog: Catalog
    properties: dict[str, Any] = field(default_factory=dict)

    def plan(self, statement: ToyStatement) -> Action:
        action = self._action(statement)
        self.catalog.sources[statement.name] = action.source
        if action.query is not None:
            self.catalog.queries[action.query.id] = action.query
        return action

    def _action(self, statement: ToyStatement) -> CreateSource:
        if statement.source is None:
            return CreateSource(info(statement.name))
        if statement.source not in self.catalog.sources:
            raise SourceNotFound(f"there is no stream {statement.source}", fix="declare it first")
        filled = above(statement.name, self.catalog.sources[statement.source], statement.least)
        return replace(filled, source=replace(filled.source, derived=True))


class ToyDialect(Dialect):
    pattern: ClassVar[re.Pattern[str]]
    """Splits a text into statements."""

    @abstractmethod
    def match(self, text: str) -> tuple[str, str | None, int] | None:
        """The name, source and bound of a statement."""

    def parse(self, text: str, variables: dict[str, str], *, name: str | None = None) -> Iterator[ToyStatement]:
        for found in self.pattern.finditer(text):
            line = text.count("\n", 0, found.start()) + 1
            column = found.start() - (text.rfind("\n", 0, found.start()) + 1) + 1
            span = Span(found.start(), found.end(), line, column)
            if (parts := self.match(found[0])) is None:
                error = ToySyntaxError("this is no statement", span=span, fix="read the docstring")
                yield ToyStatement(found[0], span, error=error.located(text, name))
                continue
            reads = frozenset([parts[1]] if parts[1] else [])
            yield ToyStatement(found[0], span, *parts, reads=reads)

    def planner(self, catalog: Catalog, properties: Mapping[str, Any] | None = None) -> ToyPlanner:
        return ToyPlanner(catalog, dict(properties or {}))


class Arrows(ToyDialect):
    name: ClassVar[str] = "arrows"
    file_endings: ClassVar[tuple[str, ...]] = (".arrows",)
    pattern: ClassVar[re.Pattern[str]] = re.compile(r"[^\n]+")

    def match(self, text: str) -> tuple[str, str | None, int] | None:
        if re.fullmatch(r"\w+", text):
            return text, None, 0
        found = re.fullmatch(r"(\w+) > (\d+) -> (\w+)", text)
        return found and (found[3], found[1], int(found[2]))


class Lists(ToyDialect):
    name: ClassVar[str] = "lists"
    file_endings: ClassVar[tuple[str, ...]] = (".lists",)
    pattern: ClassVar[re.Pattern[str]] = re.compile(r"\([^)]*\)")

    def match(self, text: str) -> tuple[str, str | None, int] | None:
        if found := re.fullmatch(r"\(stream (\w+)\)", text):
            return found[1], None, 0
        found = re.fullmatch(r"\(above (\w+) (\w+) (\d+)\)", text)
        return found and (found[1], found[2], int(found[3]))
