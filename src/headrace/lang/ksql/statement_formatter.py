"""Formats statements as KSQL text that parses to the same statements.

This text is what a program executes, a server journals and `DESCRIBE` shows: an app is its KSQL, and the functions it
calls. Names are in backticks, so that none is read as a keyword.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from datetime import timedelta
from typing import Any

from headrace.clock import millis
from headrace.lang.ksql import ast
from headrace.lang.ksql.formatter import expression_text, written_type_text
from headrace.plan.types import identifier_text as quoted


def expression_sql(node: ast.Expr) -> str:
    """Formats an expression."""
    return expression_text(_with_quoted_names(node))


def statement_sql(statement: ast.Statement) -> str:
    """Formats a whole statement, with its `;`."""
    return f"{_STATEMENTS[type(statement)](statement)};"


# -- names ----------------------------------------------------------------------------------------------------------


def _with_quoted_names(value: Any) -> Any:
    """Quotes every name, since `expression_text` does not."""
    if isinstance(value, tuple):
        return tuple(map(_with_quoted_names, value))
    if not is_dataclass(value) or isinstance(value, type):
        return value
    parts = {
        f.name: _with_quoted_names(getattr(value, f.name)) for f in fields(value) if f.name not in ("span", "spans")
    }
    for name in _NAMES.get(type(value), ()):
        parts[name] = _quoted_names(parts[name])
    if isinstance(value, ast.StructMaker):
        parts["fields"] = tuple((quoted(name), inner) for name, inner in parts["fields"])
    return replace(value, **parts)


def _quoted_names(value: str | tuple[str, ...] | None) -> Any:
    if isinstance(value, tuple):
        return tuple(map(quoted, value))
    return None if value is None else quoted(value)


_NAMES: dict[type, tuple[str, ...]] = {
    ast.Name: ("name", "source"),
    ast.Star: ("source",),
    ast.Dereference: ("name",),
    ast.Lambda: ("parameters",),
}
"""Fields that contain names; a function's name is not quoted."""

# -- queries --------------------------------------------------------------------------------------------------------


def query_sql(query: ast.Query) -> str:
    return " ".join(_clauses(query))


def _clauses(query: ast.Query) -> Iterator[str]:
    yield f"SELECT {_distinct(query)}{_commas(map(_item, query.select))} FROM {_from(query.source)}"
    if query.window is not None:
        yield f"WINDOW {_window(query.window)}"
    if query.where is not None:
        yield f"WHERE {expression_sql(query.where)}"
    if query.group_by:
        yield f"GROUP BY {_commas(map(expression_sql, query.group_by))}"
    if query.partition_by:
        yield f"PARTITION BY {_commas(map(expression_sql, query.partition_by))}"
    if query.having is not None:
        yield f"HAVING {expression_sql(query.having)}"
    if query.emit is not None:
        yield f"EMIT {query.emit}"
    if query.order_by:
        yield f"ORDER BY {_commas(expression_sql(i.value) + (' DESC' if i.descending else '') for i in query.order_by)}"
    if query.limit is not None:
        yield f"LIMIT {query.limit}"
    for other in query.union:
        yield f"UNION ALL {query_sql(other)}"


def _distinct(query: ast.Query) -> str:
    if query.distinct is None:
        return ""
    return f"DISTINCT ON ({_commas(map(expression_sql, query.distinct.on))}) " if query.distinct.on else "DISTINCT "


def _item(item: ast.SelectItem) -> str:
    return expression_sql(item.value) + ("" if item.alias is None else f" AS {quoted(item.alias)}")


def _from(source: ast.From) -> str:
    match source:
        case ast.SourceRef(name=name):
            return quoted(name) + _alias(source)
        case ast.OperatorRef(name=name, source=inner):
            return f"{quoted(name)}(TABLE {_from(inner)}){_alias(source)}"
        case ast.SubqueryRef(query=query):
            return f"({query_sql(query)}){_alias(source)}"
        case ast.Join(left=left, right=right, kind=kind, on=on, within=within):
            bounds = "" if within is None else f" {_within(within)}"
            return f"{_from(left)} {kind} JOIN {_from(right)}{bounds} ON {expression_sql(on)}"


def _alias(source: ast.SourceRef | ast.SubqueryRef | ast.OperatorRef) -> str:
    return "" if source.alias is None else f" AS {quoted(source.alias)}"


def _within(within: ast.Within) -> str:
    grace = "" if within.grace is None else f" GRACE PERIOD {duration_sql(within.grace)}"
    return f"WITHIN ({duration_sql(within.before)}, {duration_sql(within.after)}){grace}"


def _window(window: ast.WindowClause) -> str:
    size = duration_sql(window.size)
    parts = [size if window.kind == "SESSION" else f"SIZE {size}"]
    words = {"advance": "ADVANCE BY", "retention": "RETENTION", "grace": "GRACE PERIOD", "idle": "IDLE TIMEOUT"}
    parts += [
        f"{keyword} {duration_sql(value)}"
        for name, keyword in words.items()
        if (value := getattr(window, name)) is not None
    ]
    parts += ["PROCESSING TIME"] if window.processing else []
    return f"{window.kind} ({', '.join(parts)})"


_UNITS = (("DAYS", 86_400_000), ("HOURS", 3_600_000), ("MINUTES", 60_000), ("SECONDS", 1000), ("MILLISECONDS", 1))


def duration_sql(span: timedelta) -> str:
    """`90 SECONDS`: in the largest unit that gives an integer."""
    ms = millis(span)
    name, unit = next((name, unit) for name, unit in _UNITS if ms % unit == 0)
    return f"{ms // unit} {name}"


def _commas(parts: Any) -> str:
    return ", ".join(parts)


# -- statements -----------------------------------------------------------------------------------------------------


def _create_source(statement: ast.CreateSource) -> str:
    elements = f" ({_commas(map(_element, statement.elements))})" if statement.elements else ""
    return f"{_create(statement)}{elements}{_properties(statement.properties)}"


def _create(statement: ast.CreateSource | ast.CreateAs) -> str:
    replaced = " OR REPLACE" if statement.or_replace else ""
    new = " IF NOT EXISTS" if statement.if_not_exists else ""
    return f"CREATE{replaced} {statement.kind}{new} {quoted(statement.name)}"


def _element(element: ast.Element) -> str:
    kind = f"{quoted(element.name)} {written_type_text(element.type)}"
    if element.constraint is None:
        return kind
    header = f"('{element.header}')" if element.constraint is ast.Constraint.HEADER else ""
    return f"{kind} {element.constraint}{header}"


def _properties(properties: tuple[ast.Property, ...]) -> str:
    if not properties:
        return ""
    return f" WITH ({_commas(f'{p.name} = {_literal(p.value)}' for p in properties)})"


def _literal(value: Any) -> str:
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value).lower()


_STATEMENTS: dict[type, Callable[[Any], str]] = {
    ast.CreateSource: _create_source,
    ast.CreateAs: lambda s: f"{_create(s)}{_properties(s.properties)} AS {query_sql(s.query)}",
    ast.SetProperty: lambda s: f"SET {_literal(s.name)} = {_literal(s.value)}",
    ast.InsertInto: lambda s: f"INSERT INTO {quoted(s.target)} {query_sql(s.query)}",
}
