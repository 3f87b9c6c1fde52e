"""Rewrites plans and expressions: the building blocks of the optimizer rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar

from headrace.plan.codegen.code import CodeBuilder
from headrace.plan.expressions import PSEUDO, Call, Column, Expression, Lambda, NamedExpression, walk
from headrace.plan.functions import find
from headrace.plan.functions.declaration import Function
from headrace.plan.nodes import AggregateCall, Node
from headrace.plan.relations import Relation
from headrace.plan.steps import Context

Change = Callable[[Expression], Expression | None]
"""Returns the replacement of an expression; None to leave it and visit its parts."""

Place = tuple[str, int]
NodeType = TypeVar("NodeType", bound=Node)


def relation_of(node: Node) -> Relation:
    """Returns the output relation of a node; every subclass has one, though `Node` does not declare it."""
    return vars(node)["relation"]


# -- nodes ----------------------------------------------------------------------------------------------------------


def with_inputs(node: NodeType, inputs: Sequence[Node]) -> NodeType:
    """Returns the node with other inputs."""
    names = [field.name for field in fields(node) if isinstance(getattr(node, field.name), Node)]
    return replace(node, **dict(zip(names, inputs, strict=True))) if names else node


def rewrite_nodes(node: Node, change: Callable[[Node], Node]) -> Node:
    """Returns the tree with every node changed, inputs first."""
    return change(with_inputs(node, [rewrite_nodes(below, change) for below in node.inputs]))


# -- expressions ----------------------------------------------------------------------------------------------------


def rewrite_expressions(value: Any, change: Change) -> Any:
    """Changes parts of an expression, or of a value that contains expressions, outermost first."""
    if isinstance(value, Expression) and (other := change(value)) is not None:
        return other
    if isinstance(value, tuple):
        return tuple(rewrite_expressions(item, change) for item in value)
    if isinstance(value, Expression | NamedExpression | AggregateCall):
        changed = {
            f.name: rewrite_expressions(getattr(value, f.name), change) for f in fields(value) if f.name != "type"
        }
        return replace(value, **changed)
    return value


def cannot_fail(expression: Expression, over: Relation) -> bool:
    """Whether the expression never raises, so that nothing is reported whether it is computed or not."""
    return not CodeBuilder(over, Context(), "").piece(expression).raises


def is_deterministic(expression: Expression) -> bool:
    """Whether the expression gives the same result each time it is computed."""
    functions = [find(part.name) for part in walk(expression) if isinstance(part, Call)]
    return all(isinstance(function, Function) and function.repeatable for function in functions)


def calls_nondeterministic(value: Any) -> bool:
    """Whether a plan, or a part of one, calls a non-deterministic function."""
    if isinstance(value, Expression):
        return not is_deterministic(value)
    if isinstance(value, tuple | dict):
        return any(calls_nondeterministic(item) for item in (value.values() if isinstance(value, dict) else value))
    return isinstance(value, Node | NamedExpression | AggregateCall) and any(
        calls_nondeterministic(item) for item in vars(value).values()
    )


def column_position(relation: Relation, name: str) -> Place | None:
    """Returns the position in a row of what a name stands for, with the chain's resolution order."""
    for kind, columns in (("value", relation.value), ("key", relation.key)):
        for at, column in enumerate(columns):
            if column.name == name:
                return kind, at
    return ("pseudo", PSEUDO.index(name)) if name in PSEUDO else None


def key_column(column: Column, relation: Relation, at: int) -> Column | None:
    """Returns a column of the key, if no value column of the same name hides it."""
    name = relation.key[at].name
    return Column(column.type, name) if column_position(relation, name) == ("key", at) else None


def inline_columns(expression: Expression, replaced: Callable[[Column], Expression | None]) -> Expression | None:
    """Replaces each column by the expression it was computed from; None where that would change the result.

    Inside a lambda arithmetic with a null fails, outside it gives null: there only a column may replace a column.
    """
    columns = [part for part in walk(expression) if isinstance(part, Column)]
    inside = {part for outer in walk(expression) if isinstance(outer, Lambda) for part in walk(outer)}
    replacements = {column: replaced(column) for column in columns}
    for column, other in replacements.items():
        if other is None or other.type != column.type or (column in inside and not isinstance(other, Column)):
            return None
    return rewrite_expressions(expression, lambda part: replacements[part] if isinstance(part, Column) else None)


def own_expressions(node: Node) -> Iterator[Expression]:
    """The outermost expressions in a node's own fields."""
    for value in vars(node).values():
        yield from _expressions(value)


def _expressions(value: Any) -> Iterator[Expression]:
    if isinstance(value, Expression):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from _expressions(item)
    elif isinstance(value, NamedExpression):
        yield value.expression
    elif isinstance(value, AggregateCall):
        yield from value.arguments
