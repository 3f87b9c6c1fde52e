"""Taking plans and expressions apart and putting them together again: what the rules are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar

from headrace.plan.chain.code import Code
from headrace.plan.chain.contract import Context
from headrace.plan.expressions import PSEUDO, Call, Column, Expression, Lambda, Named, walk
from headrace.plan.functions import find
from headrace.plan.functions.declare import Function
from headrace.plan.nodes import AggregateCall, Node, Relation

Change = Callable[[Expression], Expression | None]
"""What an expression becomes; None if it stays, and its parts are looked at."""

Place = tuple[str, int]
NodeType = TypeVar("NodeType", bound=Node)


def relation_of(node: Node) -> Relation:
    """What flows out of a node; every kind has it, though `Node` itself does not say so."""
    return vars(node)["relation"]


# -- nodes ----------------------------------------------------------------------------------------------------------


def with_inputs(node: NodeType, inputs: Sequence[Node]) -> NodeType:
    """The node over other inputs."""
    names = [field.name for field in fields(node) if isinstance(getattr(node, field.name), Node)]
    return replace(node, **dict(zip(names, inputs, strict=True))) if names else node


def everywhere(node: Node, change: Callable[[Node], Node]) -> Node:
    """The tree with every node changed, the inputs first."""
    return change(with_inputs(node, [everywhere(below, change) for below in node.inputs]))


# -- expressions ----------------------------------------------------------------------------------------------------


def rewritten(value: Any, change: Change) -> Any:
    """An expression, or a value that holds some, with parts changed, outermost first."""
    if isinstance(value, Expression) and (other := change(value)) is not None:
        return other
    if isinstance(value, tuple):
        return tuple(rewritten(item, change) for item in value)
    if isinstance(value, Expression) or type(value).__name__ in ("Named", "AggregateCall"):
        changed = {f.name: rewritten(getattr(value, f.name), change) for f in fields(value) if f.name != "type"}
        return replace(value, **changed)
    return value


def cannot_fail(expression: Expression, over: Relation) -> bool:
    """It never raises, so nothing is reported whether it is computed or not."""
    return not Code(over, Context(), "").piece(expression).raises


def is_repeatable(expression: Expression) -> bool:
    """Computed twice it gives the same twice."""
    functions = [find(part.name) for part in walk(expression) if isinstance(part, Call)]
    return all(isinstance(function, Function) and function.repeatable for function in functions)


def draws(value: Any) -> bool:
    """Whether a plan, or a part of one, calls a function that gives something new each time."""
    if isinstance(value, Expression):
        return not is_repeatable(value)
    if isinstance(value, tuple | dict):
        return any(draws(item) for item in (value.values() if isinstance(value, dict) else value))
    return isinstance(value, Node | Named | AggregateCall) and any(draws(item) for item in vars(value).values())


def place(relation: Relation, name: str) -> Place | None:
    """Where a row has what a name stands for, in the order in which the chain looks."""
    for kind, columns in (("value", relation.value), ("key", relation.key)):
        for at, column in enumerate(columns):
            if column.name == name:
                return kind, at
    return ("pseudo", PSEUDO.index(name)) if name in PSEUDO else None


def key_column(column: Column, relation: Relation, at: int) -> Column | None:
    """A column of the key, if its name is not hidden by a value's."""
    name = relation.key[at].name
    return Column(column.type, name) if place(relation, name) == ("key", at) else None


def inlined(expression: Expression, replaced: Callable[[Column], Expression | None]) -> Expression | None:
    """The expression with each column replaced by what it was computed from; None where that would not be the same.

    Inside a lambda arithmetic with a null fails, outside it gives null: there only a column takes a column's place.
    """
    columns = [part for part in walk(expression) if isinstance(part, Column)]
    inside = {part for held in walk(expression) if isinstance(held, Lambda) for part in walk(held)}
    found = {column: replaced(column) for column in columns}
    for column, other in found.items():
        if other is None or other.type != column.type or (column in inside and not isinstance(other, Column)):
            return None
    return rewritten(expression, lambda part: found[part] if isinstance(part, Column) else None)
