"""Builds types and expressions whose rule in the grammar does not map directly to the class of the same name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from lark.tree import Meta

from headrace.errors import KsqlSyntaxError
from headrace.lang.ksql import ast
from headrace.lang.ksql.grammar.node_factory import Part, fold_name, make_node, span_of, token_value

_UNITS = ("MILLISECOND", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "YEAR")
UNITS: Mapping[str, str] = {name: unit for unit in _UNITS for name in (unit, unit + "S")}
TAKES_UNIT = frozenset({"TIMESTAMPADD", "TIMESTAMPSUB", "DATEADD", "DATESUB", "TIMEADD", "TIMESUB"})
"""Functions whose first argument is a time unit. Everywhere else `day` is a column."""
TYPED_LITERALS = ("DATE", "TIME", "TIMESTAMP")


def _type_name(children: list[Any], meta: Meta) -> ast.TypeName:
    quoted = Part("quoted", (children[0].type == "QUOTED",))
    return make_node(ast.TypeName, [*children, quoted], span_of(meta))


def _pair(children: list[Any], meta: Meta) -> tuple[Any, Any]:
    first, second = map(token_value, children)
    return first, second


def _logical(op: str) -> Callable[[list[Any], Meta], ast.Logical]:
    return lambda children, meta: ast.Logical(op, children[0], children[1], span=span_of(meta))


def _typed_literal(children: list[Any], meta: Meta) -> ast.TypedLiteral:
    kind, text = fold_name(children[0]), str(children[1])
    if kind not in TYPED_LITERALS:
        raise KsqlSyntaxError(
            f'literals of type "{kind}" do not exist',
            span=span_of(meta),
            fix=f"use one of {', '.join(TYPED_LITERALS)} before a string, or CAST",
        )
    return ast.TypedLiteral(kind, text, span=span_of(meta))


def _qualified_name(children: list[Any], meta: Meta) -> ast.Name:
    source, name = map(fold_name, children)
    return ast.Name(name, source, span=span_of(meta))


def _call(children: list[Any], meta: Meta) -> ast.Call:
    call = make_node(ast.Call, children, span_of(meta))
    match call.arguments:
        case (ast.Name(name=name, source=None) as first, *rest) if call.name in TAKES_UNIT and name in UNITS:
            return ast.Call(call.name, (ast.Unit(UNITS[name], span=first.span), *rest), span=call.span)
    return call


def _negative(children: list[Any], meta: Meta) -> ast.Expr:
    """`-5` is a literal: otherwise the smallest BIGINT could not be written."""
    match children[0]:
        case ast.IntegerLiteral(value=value):
            return ast.IntegerLiteral(-value, span=span_of(meta))
        case ast.DecimalLiteral(value=value):
            return ast.DecimalLiteral(value.copy_negate() if value else value, span=span_of(meta))
        case ast.DoubleLiteral(value=value):
            return ast.DoubleLiteral(-value, span=span_of(meta))
        case other:
            return ast.Unary("-", other, span=span_of(meta))


def _positive(children: list[Any], meta: Meta) -> ast.Expr:
    literal = isinstance(children[0], ast.IntegerLiteral | ast.DecimalLiteral | ast.DoubleLiteral)
    return children[0] if literal else ast.Unary("+", children[0], span=span_of(meta))


EXPRESSIONS: dict[str, Callable[[list[Any], Meta], Any]] = {
    "type_name": _type_name,
    "field": _pair,
    "pair": _pair,
    "branch": _pair,
    "or": _logical("OR"),
    "and": _logical("AND"),
    "typed_literal": _typed_literal,
    "qualified_name": _qualified_name,
    "call": _call,
    "negative": _negative,
    "positive": _positive,
    "decimal_literal": lambda children, meta: ast.DecimalLiteral(Decimal(str(children[0])), span=span_of(meta)),
    "double_literal": lambda children, meta: ast.DoubleLiteral(float(children[0]), span=span_of(meta)),
    "true": lambda children, meta: ast.BooleanLiteral(True, span=span_of(meta)),
    "false": lambda children, meta: ast.BooleanLiteral(False, span=span_of(meta)),
}
