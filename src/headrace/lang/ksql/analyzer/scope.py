"""Resolves the names in a query's expressions to columns."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import pyarrow as pa

from headrace.errors import AmbiguousColumn, ColumnNotFound, SourceNotFound, suggestion
from headrace.lang.ksql import ast
from headrace.plan import expressions as e
from headrace.plan import types as t

ROWPARTITION, ROWOFFSET = "ROWPARTITION", "ROWOFFSET"
SYSTEM_TYPES: dict[str, pa.DataType] = {
    e.ROWTIME: t.BIGINT,
    ROWPARTITION: t.INT,
    ROWOFFSET: t.BIGINT,
    e.WINDOWSTART: t.BIGINT,
    e.WINDOWEND: t.BIGINT,
}
"""Columns that every source, or every windowed source, has without a declaration."""


@dataclass(frozen=True)
class ScopeColumn:
    """A column by its user-visible name, and its name inside the plan. Hidden columns are not part of `*`."""

    source: str | None
    name: str
    inner: str
    type: pa.DataType
    hidden: bool = False

    @property
    def expression(self) -> e.Column:
        return e.Column(self.type, self.inner)

    @property
    def ast_name(self) -> ast.Name:
        return ast.Name(self.name, self.source)

    @property
    def qualified_name(self) -> str:
        return f"{self.source}.{self.name}" if self.source else self.name


@dataclass(frozen=True)
class Scope:
    columns: tuple[ScopeColumn, ...]
    sources: tuple[str, ...]

    @property
    def is_join(self) -> bool:
        return len(self.sources) > 1

    def find(self, name: ast.Name) -> list[ScopeColumn]:
        return [c for c in self.columns if c.name == name.name and name.source in (None, c.source)]

    def resolve(self, name: ast.Name, clause: str) -> ScopeColumn:
        """Returns the column that the name refers to; `clause` appears in the error."""
        if name.source is not None and name.source not in self.sources:
            raise SourceNotFound(
                f"'{name.source}' is not a valid stream/table name or alias.",
                span=name.span,
                fix=suggestion(name.source, self.sources, f"the query reads {', '.join(self.sources)}"),
            )
        matches = self.find(name)
        if len(matches) > 1:
            raise AmbiguousColumn(
                f"Column '{name.name}' is ambiguous. Could be {' or '.join(c.qualified_name for c in matches)}.",
                span=name.span,
                fix=f"write {matches[0].qualified_name}, for example",
            )
        if not matches:
            raise self._missing(name, clause)
        return matches[0]

    def clashes(self, name: str) -> bool:
        return sum(c.name == name for c in self.columns) > 1

    def visible(self, source: str | None = None) -> list[ScopeColumn]:
        return [c for c in self.columns if not c.hidden and source in (None, c.source)]

    def _missing(self, name: ast.Name, clause: str) -> ColumnNotFound:
        column = f"{name.source}.{name.name}" if name.source else name.name
        names = sorted({c.name for c in self.columns if name.source in (None, c.source)})
        columns = f"columns are: {', '.join(names)}" if names else "write a value; columns cannot be used here"
        if name.source is None and not _PLAIN_NAME.fullmatch(name.name):  # quoted, as strings are in other languages
            columns = f"write a string in single quotes: {string_literal(name.name)}"
        fix = suggestion(name.name, names, columns)
        reason = ""
        if clause in ("PARTITION BY", "GROUP BY"):
            reason = f" '{column}' must be a column in the source schema since {clause} is applied on the input."
        return ColumnNotFound(f"{clause} column '{column}' cannot be resolved.{reason}", span=name.span, fix=fix)


_PLAIN_NAME = re.compile(r"[A-Z_][A-Z0-9_@]*")


def string_literal(text: str) -> str:
    """Returns a text in single quotes."""
    return "'" + text.replace("'", "''") + "'"


Node = TypeVar("Node")


def rewrite(node: Node, change: Any) -> Node:
    """Replaces every part for which `change(part)` is not None, outermost first."""
    changed = change(node)
    if changed is not None:
        return changed
    if isinstance(node, tuple):
        return tuple(rewrite(part, change) for part in node)  # type: ignore[return-value]
    if not isinstance(node, ast.Ast):
        return node
    parts = {f.name: getattr(node, f.name) for f in fields(node) if f.name not in ("span", "spans")}
    new = {name: rewrite(part, change) for name, part in parts.items()}
    return replace(node, **{n: v for n, v in new.items() if v is not parts[n]}) if new != parts else node


def parts_of(node: Any) -> Iterable[Any]:
    """Yields every part of an AST, the node itself first."""
    if isinstance(node, tuple):
        for part in node:
            yield from parts_of(part)
    elif isinstance(node, ast.Ast):
        yield node
        for field in fields(node):
            if field.name not in ("span", "spans"):
                yield from parts_of(getattr(node, field.name))


def qualify(expression: ast.Expr, scope: Scope, clause: str) -> ast.Expr:
    """Qualifies every column as source.name, so that equal expressions compare equal."""

    def change(part: Any, hidden: frozenset[str] = frozenset()) -> Any:
        if isinstance(part, ast.Lambda):
            inner = hidden | set(part.parameters)
            return replace(part, body=rewrite(part.body, lambda p: change(p, inner)))
        if isinstance(part, ast.Name) and not (part.source is None and part.name in hidden):
            column = scope.resolve(part, clause)
            return replace(part, source=column.source)
        return None

    return rewrite(expression, change)
