"""Optimizer rules: they make a plan cheaper and never change its results.

A rule is a function from a tree to a tree. After it the same input gives the same output in the same order, and the
same problems are reported: same code, same place, same time and key. Only the row in a report may have other columns,
since it is the row as the step had it. So an expression that may fail is neither dropped, nor computed more often, nor
for other rows. No rule changes, adds, removes or reorders stateful nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from decimal import Decimal
from typing import Any, cast

from headrace.plan.codegen.compiler import evaluator
from headrace.plan.expressions import Call, Column, Expression, Lambda, Literal, Parameter, Variable, column_names, walk
from headrace.plan.nodes import (
    Filter,
    Node,
    Query,
    Rekey,
    Select,
    Sink,
)
from headrace.plan.relations import Kind, Relation
from headrace.plan.rewrite import (
    cannot_fail,
    column_position,
    inline_columns,
    is_deterministic,
    key_column,
    own_expressions,
    relation_of,
    rewrite_expressions,
    rewrite_nodes,
    with_inputs,
)
from headrace.plan.steps import Context, Problem
from headrace.plan.traits import ValueColumns

Rule = Callable[[Node], Node]
_ROUNDS = 10


# -- constants ------------------------------------------------------------------------------------------------------

_NOTHING = Relation(Kind.STREAM, (), ())
_SCALARS = (bool, int, float, str, bytes, Decimal, type(None))


def fold_constants(tree: Node) -> Node:
    """Computes once what depends on no row."""
    return rewrite_nodes(tree, _folded)


def _folded(node: Node) -> Node:
    own = [f.name for f in fields(node) if f.name != "relation" and not isinstance(getattr(node, f.name), Node)]
    return replace(node, **{name: rewrite_expressions(getattr(node, name), _constant) for name in own})


def _constant(expression: Expression) -> Expression | None:
    if isinstance(expression, Literal | Lambda):
        return expression  # a lambda's parts have no meaning outside it
    if any(isinstance(part, Column | Variable | Lambda | Parameter) for part in walk(expression)):
        return None
    if not is_deterministic(expression) or _may_be_large(expression):
        return None
    failures: list[Problem] = []
    value = evaluator([expression], _NOTHING, Context(report=failures.append), "")(0, None, ())[0]
    return Literal(expression.type, value) if isinstance(value, _SCALARS) and not failures else None


def _may_be_large(expression: Expression) -> bool:
    """What a function creates is computed where a record, or a query, pays for it: planning has no allowance."""
    return any(isinstance(part, Call) and part.can_grow for part in walk(expression))


# -- selects --------------------------------------------------------------------------------------------------------


def merge_selects(tree: Node) -> Node:
    """Merges two adjacent Selects, if no value is then computed more often."""
    return rewrite_nodes(tree, _merged)


def _merged(node: Node) -> Node:
    if not (isinstance(node, Select) and isinstance(node.input, Select)):
        return node
    inner, below = node.input, relation_of(node.input.input)
    uses = Counter(part.name for named in node.values for part in walk(named.expression) if isinstance(part, Column))
    for named in inner.values:
        often = uses[named.name] > 1 and not isinstance(named.expression, Column | Literal)
        if often or not cannot_fail(named.expression, below):
            return node
    values = [(named, inline_columns(named.expression, _under_select(inner))) for named in node.values]
    if any(expression is None for _, expression in values):
        return node
    return replace(node, input=inner.input, values=tuple(replace(n, expression=cast(Expression, e)) for n, e in values))


def drop_identity_selects(tree: Node) -> Node:
    """Removes a Select that returns its input unchanged."""
    return rewrite_nodes(tree, lambda node: node.input if isinstance(node, Select) and _is_identity(node) else node)


def _is_identity(node: Select) -> bool:
    below = relation_of(node.input)
    return node.relation == below and all(
        isinstance(named.expression, Column) and column_position(below, named.expression.name) == ("value", at)
        for at, named in enumerate(node.values)
    )


def _under_select(select: Select) -> Callable[[Column], Expression | None]:
    """Returns the function from a column above the Select to its expression below."""
    below = relation_of(select.input)

    def replaced(column: Column) -> Expression | None:
        match column_position(select.relation, column.name):
            case "value", at:
                return select.values[at].expression
            case "key", at:
                return key_column(column, below, at)
            case pseudo:
                return column if column_position(below, column.name) == pseudo else None

    return replaced


# -- filters --------------------------------------------------------------------------------------------------------


def push_filters(tree: Node) -> Node:
    """Moves filters down, so that rows are dropped before values and keys are computed for them."""
    return rewrite_nodes(tree, _pushed)


def _pushed(node: Node) -> Node:
    if not isinstance(node, Filter):
        return node
    under = node.input
    if isinstance(under, Select) and all(cannot_fail(n.expression, relation_of(under.input)) for n in under.values):
        condition = inline_columns(node.condition, _repeated(_under_select(under)))
    elif isinstance(under, Rekey) and _is_total(under) and cannot_fail(node.condition, node.relation):
        condition = inline_columns(node.condition, _repeated(_under_rekey(under)))
    else:
        return node
    if condition is None:
        return node
    return with_inputs(under, [_pushed(Filter(under.input, relation_of(under.input), condition))])


def _is_total(node: Rekey) -> bool:
    """Whether every row passes, and nothing is reported."""
    return node.explicit and all(cannot_fail(named.expression, relation_of(node.input)) for named in node.keys)


def _under_rekey(rekey: Rekey) -> Callable[[Column], Expression | None]:
    below = relation_of(rekey.input)
    keys = [field.name for field in below.key]
    old = [keys.index(field.name) for field in rekey.relation.value[len(below.value) :]]

    def replaced(column: Column) -> Expression | None:
        match column_position(rekey.relation, column.name):
            case "value", at if at < len(below.value):
                return column
            case "value", at:
                return key_column(column, below, old[at - len(below.value)])
            case "key", at:
                return rekey.keys[at].expression
            case pseudo:
                return column if column_position(below, column.name) == pseudo else None

    return replaced


def _repeated(replaced: Callable[[Column], Expression | None]) -> Callable[[Column], Expression | None]:
    """Allows only deterministic replacements: the filter repeats what the node computes for the rows that pass."""

    def checked(column: Column) -> Expression | None:
        other = replaced(column)
        return other if other is not None and is_deterministic(other) else None

    return checked


# -- columns --------------------------------------------------------------------------------------------------------


def prune_columns(tree: Node) -> Node:
    """Removes columns that nothing above reads: from computations, from rows and above all from the state of joins."""
    return _pruned(tree, None)


Needed = set[str] | None
"""The names of a node's values that are read; None means all of them."""


def _pruned(node: Node, needed: Needed) -> Node:
    """Returns a node whose values include at least the needed ones, in their order."""
    return _PRUNERS[node.traits.values](node, needed)


def _needed_by(node: Node, needed: Needed) -> Needed:
    """The columns that the node reads of an input: those that are needed above it, and those it names."""
    return None if needed is None else needed.union(*map(column_names, own_expressions(node)))


def _pruned_input(node: Any, needed: Needed) -> Node:
    below = _pruned(node.input, _needed_by(node, needed))
    added = node.relation.value[len(relation_of(node.input).value) :]
    return replace(node, input=below, relation=replace(node.relation, value=(*relation_of(below).value, *added)))


def _pruned_below(node: Any, needed: Needed) -> Node:
    del needed
    return replace(node, input=_pruned(node.input, _needed_by(node, set())))


def _pruned_select(node: Any, needed: Needed) -> Node:
    below = relation_of(node.input)
    remaining = [
        (field, named)
        for field, named in zip(node.relation.value, node.values, strict=True)
        if needed is None or named.name in needed or not cannot_fail(named.expression, below)
    ]
    read = set[str]().union(*(column_names(named.expression) for _, named in remaining))
    relation = replace(node.relation, value=tuple(field for field, _ in remaining))
    return Select(_pruned(node.input, read), relation, tuple(named for _, named in remaining))


def _pruned_sides(node: Any, needed: Needed) -> Node:
    names = [field.name for side in node.inputs for field in relation_of(side).value]
    if len(set(names)) < len(names) or names != [field.name for field in node.relation.value]:
        needed = None  # a name does not identify the side of a column
    left, right = _pruned(node.left, _needed_by(node, needed)), _pruned(node.right, needed)
    value = (*relation_of(left).value, *relation_of(right).value)
    return replace(node, left=left, right=right, relation=replace(node.relation, value=value))


def _pruned_nothing(node: Node, needed: Needed) -> Node:
    del needed
    return with_inputs(node, [_pruned(below, None) for below in node.inputs])


_PRUNERS: Mapping[ValueColumns, Callable[[Node, Needed], Node]] = {
    ValueColumns.INPUT: _pruned_input,
    ValueColumns.OWN: _pruned_below,
    ValueColumns.SELECTED: _pruned_select,
    ValueColumns.BOTH_INPUTS: _pruned_sides,
    ValueColumns.UNKNOWN: _pruned_nothing,
}


# -- optimizer ------------------------------------------------------------------------------------------------------

RULES: tuple[Rule, ...] = (fold_constants, push_filters, merge_selects, prune_columns, drop_identity_selects)
"""All rules, in order of application, repeated until nothing changes."""


def optimize(query: Query, rules: Sequence[Rule] = RULES) -> Query:
    """Returns the query with an optimized plan."""
    sink: Node = query.sink
    for _ in range(_ROUNDS):
        before = sink
        for rule in rules:
            sink = rule(sink)
        if sink == before:
            break
    return replace(query, sink=cast(Sink, sink))
