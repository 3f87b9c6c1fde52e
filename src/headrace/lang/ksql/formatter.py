"""Formats expressions, types and schemas as ksqlDB does, for messages and for generated names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any

from headrace.lang.ksql import ast
from headrace.plan.relations import Kind, Relation
from headrace.plan.types import identifier_text, type_text

_SYNONYMS = {"INT": "INTEGER", "VARCHAR": "STRING", "DEC": "DECIMAL"}


# -- types and schemas ----------------------------------------------------------------------------------------------


def schema_text(relation: Relation) -> str:
    """`` `ID` STRING KEY, `V` INTEGER ``; the keys of a table are PRIMARY KEY."""
    suffix = " PRIMARY KEY" if relation.kind is Kind.TABLE else " KEY"
    keys = [f"{identifier_text(f.name)} {type_text(f.type)}{suffix}" for f in relation.key]
    values = [f"{identifier_text(f.name)} {type_text(f.type)}" for f in relation.value]
    return ", ".join(keys + values)


def written_type_text(kind: ast.Type) -> str:
    """Formats a type as written in a statement, before it is resolved."""
    match kind:
        case ast.ArrayType(item=item):
            return f"ARRAY<{written_type_text(item)}>"
        case ast.MapType(key=key, value=value):
            return f"MAP<{written_type_text(key)}, {written_type_text(value)}>"
        case ast.StructType(fields=fields):
            return f"STRUCT<{_fields(dict(fields), written_type_text)}>"
        case ast.TypeName(name=name, parameters=parameters):
            return _SYNONYMS.get(name, name) + (f"({', '.join(map(str, parameters))})" if parameters else "")


def _fields(fields: Mapping[str, Any], text: Callable[[Any], str]) -> str:
    return ", ".join(f"{identifier_text(name)} {text(kind)}" for name, kind in fields.items())


# -- expressions ----------------------------------------------------------------------------------------------------


def expression_text(value: ast.Expr) -> str:
    """`(F1 * SUM(F2))`: binary operators are in parentheses, names are unquoted."""
    return _TEXTS[type(value)](value)


def _several(values: Iterable[ast.Expr]) -> str:
    return ", ".join(map(expression_text, values))


def _name(value: ast.Name) -> str:
    return value.name if value.source is None else f"{value.source}.{value.name}"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _double(value: ast.DoubleLiteral) -> str:
    return f"{Decimal(repr(value.value)).normalize():E}".replace("E+", "E")


def _two_sided(value: ast.Arithmetic | ast.Comparison | ast.Logical) -> str:
    return f"({expression_text(value.left)} {value.op} {expression_text(value.right)})"


def _unary(value: ast.Unary) -> str:
    inner = expression_text(value.value)
    return f"{value.op}{' ' if inner.startswith(value.op) else ''}{inner}"


def _negatable(value: ast.Between | ast.InList | ast.Like, text: str) -> str:
    return f"(NOT ({text}))" if value.negated else f"({text})"


def _between(value: ast.Between) -> str:
    low, high = expression_text(value.low), expression_text(value.high)
    return _negatable(value, f"{expression_text(value.value)} BETWEEN {low} AND {high}")


def _in_list(value: ast.InList) -> str:
    return _negatable(value, f"{expression_text(value.value)} IN ({_several(value.items)})")


def _like(value: ast.Like) -> str:
    escape = "" if value.escape is None else f" ESCAPE {_quoted(value.escape)}"
    return _negatable(value, f"{expression_text(value.value)} LIKE {expression_text(value.pattern)}{escape}")


def _is_null(value: ast.IsNull) -> str:
    return f"({expression_text(value.value)} IS {'NOT ' if value.negated else ''}NULL)"


def _case(value: ast.Case) -> str:
    operand = "" if value.operand is None else f" {expression_text(value.operand)}"
    branches = "".join(f" WHEN {expression_text(w)} THEN {expression_text(t)}" for w, t in value.branches)
    otherwise = "" if value.otherwise is None else f" ELSE {expression_text(value.otherwise)}"
    return f"(CASE{operand}{branches}{otherwise} END)"


_TEXTS: dict[type, Callable[[Any], str]] = {
    ast.Name: _name,
    ast.IntegerLiteral: lambda v: str(v.value),
    ast.DecimalLiteral: lambda v: format(v.value, "f"),
    ast.DoubleLiteral: _double,
    ast.StringLiteral: lambda v: _quoted(v.value),
    ast.ParameterLiteral: lambda v: _quoted(v.cell.value) if isinstance(v.cell.value, str) else str(v.cell.value),
    ast.BooleanLiteral: lambda v: str(v.value).lower(),
    ast.NullLiteral: lambda v: "null",
    ast.TypedLiteral: lambda v: f"{v.kind} {_quoted(v.text)}",
    ast.Arithmetic: _two_sided,
    ast.Comparison: _two_sided,
    ast.Logical: _two_sided,
    ast.Unary: _unary,
    ast.Not: lambda v: f"(NOT {expression_text(v.value)})",
    ast.Between: _between,
    ast.InList: _in_list,
    ast.Like: _like,
    ast.IsNull: _is_null,
    ast.Case: _case,
    ast.Cast: lambda v: f"CAST({expression_text(v.value)} AS {written_type_text(v.type)})",
    ast.Call: lambda v: f"{v.name}({_several(v.arguments)})",
    ast.Unit: lambda v: f"{v.name}S",
    ast.Subscript: lambda v: f"{expression_text(v.value)}[{expression_text(v.index)}]",
    ast.Dereference: lambda v: f"{expression_text(v.value)}->{v.name}",
    ast.ArrayMaker: lambda v: f"ARRAY[{_several(v.items)}]",
    ast.MapMaker: lambda v: f"MAP({', '.join(f'{expression_text(k)}:={expression_text(e)}' for k, e in v.pairs)})",
    ast.StructMaker: lambda v: f"STRUCT({', '.join(f'{name}:={expression_text(e)}' for name, e in v.fields)})",
    ast.Lambda: lambda v: f"({', '.join(v.parameters)}) => {expression_text(v.body)}",
    ast.AtTimeZone: lambda v: f"{expression_text(v.value)} AT TIME ZONE {_quoted(v.zone)}",
    ast.Star: lambda v: "*" if v.source is None else f"{v.source}.*",
    ast.StructStar: lambda v: f"{expression_text(v.value)}->*",
}
