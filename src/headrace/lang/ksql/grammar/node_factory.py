"""Creates a node of `ast` from the children of a grammar rule: named parts by name, the others in order."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, Field, fields
from functools import cache
from typing import Any, NamedTuple, TypeVar

from lark import Token
from lark.tree import Meta

from headrace.lang.ksql import ast
from headrace.span import NOWHERE, Span


class Part(NamedTuple):
    """Fills the field of that name; without children it is a flag that is set."""

    field: str
    children: tuple[Any, ...] = ()
    span: Span = NOWHERE


Node = TypeVar("Node", bound=ast.Ast)


def _snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


NODES: dict[str, type[ast.Ast]] = {
    _snake(name): node for name, node in vars(ast).items() if isinstance(node, type) and issubclass(node, ast.Ast)
}


def make_node(node: type[Node], children: list[Any], span: Span) -> Node:
    """Creates an instance of the class: parts fill the fields they name, the other children the rest in order."""
    parts = {child.field: child.children for child in children if isinstance(child, Part)}
    rest = iter([child for child in children if not isinstance(child, Part)])
    values: dict[str, Any] = {"span": span}
    if issubclass(node, ast.Statement):
        values["spans"] = tuple(_spans(children))
    for field in _fields(node):
        if field.name in parts:
            values[field.name] = _value(field, parts[field.name])
        elif (child := next(rest, MISSING)) is not MISSING:
            values[field.name] = token_value(child)
        elif field.default is MISSING:
            values[field.name] = () if _is_tuple(field) else None
    return node(**values)


def token_value(child: Any) -> Any:
    """Returns a token's value: names folded, integers as numbers."""
    if not isinstance(child, Token):
        return child
    return int(child) if child.type == "INTEGER" else fold_name(child)


def fold_name(name: Token) -> str:
    """Returns the folded name: upper case unless it was quoted."""
    return name.upper() if name.type == "IDENTIFIER" else str(name)


def span_of(meta: Meta) -> Span:
    return NOWHERE if meta.empty else Span(meta.start_pos, meta.end_pos, meta.line, meta.column)


def _spans(children: Iterable[Any]) -> Iterator[tuple[str, Span]]:
    for child in children:
        if isinstance(child, Part):
            yield from _spans(child.children)
        elif isinstance(child, Token) and child.type != "INTEGER":
            start, end = child.start_pos or 0, child.end_pos or 0
            yield fold_name(child), Span(start, end, child.line or 1, child.column or 1)


@cache
def _fields(node: type[ast.Ast]) -> tuple[Field[Any], ...]:
    return tuple(field for field in fields(node) if field.name not in ("span", "spans"))


def _is_tuple(field: Field[Any]) -> bool:
    return str(field.type).startswith("tuple")


def _value(field: Field[Any], children: tuple[Any, ...]) -> Any:
    if _is_tuple(field):
        return tuple(token_value(child) for child in children)
    return token_value(children[0]) if children else True
