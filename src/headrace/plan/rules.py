"""Rules that make a plan cheaper and change nothing of what it says.

A rule is a function from a tree to a tree. After it the same input gives the same output in the same order, and the
same problems are reported: same code, same place, same time and key. Only the row in a report may have other columns,
since it is the row as the step had it. So an expression that may fail is neither dropped, nor computed more often, nor
for other rows. No rule touches, adds, drops or swaps nodes that keep state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from decimal import Decimal
from functools import singledispatch
from typing import cast

from headrace.plan.chain.compile import evaluator
from headrace.plan.chain.contract import Context, Problem
from headrace.plan.expressions import Column, Expression, Lambda, Literal, Parameter, Variable, columns_of, walk
from headrace.plan.nodes import (
    Aggregate,
    Arrival,
    Distinct,
    Emit,
    Enrich,
    Explode,
    Filter,
    Final,
    ForeignKeyJoin,
    Kind,
    Node,
    Query,
    Rekey,
    Relation,
    Select,
    Sink,
    StreamJoin,
    TableJoin,
)
from headrace.plan.rewriting import (
    cannot_fail,
    everywhere,
    inlined,
    is_repeatable,
    key_column,
    place,
    relation_of,
    rewritten,
    with_inputs,
)

Rule = Callable[[Node], Node]
_ROUNDS = 10


# -- constants ------------------------------------------------------------------------------------------------------

_NOTHING = Relation(Kind.STREAM, (), ())
_SCALARS = (bool, int, float, str, bytes, Decimal, type(None))


def fold_constants(tree: Node) -> Node:
    """Compute once what depends on no row."""
    return everywhere(tree, _folded)


def _folded(node: Node) -> Node:
    own = [f.name for f in fields(node) if f.name != "relation" and not isinstance(getattr(node, f.name), Node)]
    return replace(node, **{name: rewritten(getattr(node, name), _constant) for name in own})


def _constant(expression: Expression) -> Expression | None:
    if isinstance(expression, Literal | Lambda):
        return expression  # a lambda's parts mean something else outside of it
    if any(isinstance(part, Column | Variable | Lambda | Parameter) for part in walk(expression)):
        return None
    if not is_repeatable(expression):
        return None
    failures: list[Problem] = []
    value = evaluator([expression], _NOTHING, Context(report=failures.append), "")(0, None, ())[0]
    return Literal(expression.type, value) if isinstance(value, _SCALARS) and not failures else None


# -- selects --------------------------------------------------------------------------------------------------------


def merge_selects(tree: Node) -> Node:
    """Two Selects on each other become one, if no value is then computed more often."""
    return everywhere(tree, _merged)


def _merged(node: Node) -> Node:
    if not (isinstance(node, Select) and isinstance(node.input, Select)):
        return node
    inner, below = node.input, relation_of(node.input.input)
    uses = Counter(part.name for named in node.values for part in walk(named.expression) if isinstance(part, Column))
    for named in inner.values:
        often = uses[named.name] > 1 and not isinstance(named.expression, Column | Literal)
        if often or not cannot_fail(named.expression, below):
            return node
    values = [(named, inlined(named.expression, _under_select(inner))) for named in node.values]
    if any(expression is None for _, expression in values):
        return node
    return replace(node, input=inner.input, values=tuple(replace(n, expression=cast(Expression, e)) for n, e in values))


def drop_idle_selects(tree: Node) -> Node:
    """A Select that gives what it gets is no step."""
    return everywhere(tree, lambda node: node.input if isinstance(node, Select) and _is_idle(node) else node)


def _is_idle(node: Select) -> bool:
    below = relation_of(node.input)
    return node.relation == below and all(
        isinstance(named.expression, Column) and place(below, named.expression.name) == ("value", at)
        for at, named in enumerate(node.values)
    )


def _under_select(select: Select) -> Callable[[Column], Expression | None]:
    """What a column above the Select is below it."""
    below = relation_of(select.input)

    def replaced(column: Column) -> Expression | None:
        match place(select.relation, column.name):
            case "value", at:
                return select.values[at].expression
            case "key", at:
                return key_column(column, below, at)
            case pseudo:
                return column if place(below, column.name) == pseudo else None

    return replaced


# -- filters --------------------------------------------------------------------------------------------------------


def push_filters(tree: Node) -> Node:
    """Drop rows before values and keys are computed for them."""
    return everywhere(tree, _pushed)


def _pushed(node: Node) -> Node:
    if not isinstance(node, Filter):
        return node
    under = node.input
    if isinstance(under, Select) and all(cannot_fail(n.expression, relation_of(under.input)) for n in under.values):
        condition = inlined(node.condition, _repeated(_under_select(under)))
    elif isinstance(under, Rekey) and _is_total(under) and cannot_fail(node.condition, node.relation):
        condition = inlined(node.condition, _repeated(_under_rekey(under)))
    else:
        return node
    if condition is None:
        return node
    return with_inputs(under, [_pushed(Filter(under.input, relation_of(under.input), condition))])


def _is_total(node: Rekey) -> bool:
    """Every row goes on, and nothing is reported."""
    return node.explicit and all(cannot_fail(named.expression, relation_of(node.input)) for named in node.keys)


def _under_rekey(rekey: Rekey) -> Callable[[Column], Expression | None]:
    below = relation_of(rekey.input)
    keys = [field.name for field in below.key]
    old = [keys.index(field.name) for field in rekey.relation.value[len(below.value) :]]

    def replaced(column: Column) -> Expression | None:
        match place(rekey.relation, column.name):
            case "value", at if at < len(below.value):
                return column
            case "value", at:
                return key_column(column, below, old[at - len(below.value)])
            case "key", at:
                return rekey.keys[at].expression
            case pseudo:
                return column if place(below, column.name) == pseudo else None

    return replaced


def _repeated(replaced: Callable[[Column], Expression | None]) -> Callable[[Column], Expression | None]:
    """The filter computes again what the node computes for the rows that pass."""

    def checked(column: Column) -> Expression | None:
        other = replaced(column)
        return other if other is not None and is_repeatable(other) else None

    return checked


# -- columns --------------------------------------------------------------------------------------------------------


def prune_columns(tree: Node) -> Node:
    """Do not compute, carry and keep columns that nobody above reads; most of all not in the state of joins."""
    return _pruned(tree, None)


Needed = set[str] | None
"""The names that are read of a node's values; None is all of them."""


@singledispatch
def _pruned(node: Node, needed: Needed) -> Node:
    """A node whose values include at least what is needed, in their order. Unless it is known here, it reads all."""
    return with_inputs(node, [_pruned(below, None) for below in node.inputs])


def _with(needed: Needed, *expressions: Expression) -> Needed:
    return None if needed is None else needed.union(*map(columns_of, expressions))


@_pruned.register
def _(node: Select, needed: Needed) -> Node:
    below = relation_of(node.input)
    kept = [
        (field, named)
        for field, named in zip(node.relation.value, node.values, strict=True)
        if needed is None or named.name in needed or not cannot_fail(named.expression, below)
    ]
    read = set[str]().union(*(columns_of(named.expression) for _, named in kept))
    relation = replace(node.relation, value=tuple(field for field, _ in kept))
    return Select(_pruned(node.input, read), relation, tuple(named for _, named in kept))


@_pruned.register(Filter)
@_pruned.register(Distinct)
@_pruned.register(Arrival)
@_pruned.register(Final)
@_pruned.register(Emit)
def _(node: Filter | Distinct | Arrival | Final | Emit, needed: Needed) -> Node:
    own = [node.condition] if isinstance(node, Filter) else []
    own += [named.expression for named in node.on] if isinstance(node, Distinct) else []
    below = _pruned(node.input, _with(needed, *own))
    return replace(node, input=below, relation=replace(node.relation, value=relation_of(below).value))


@_pruned.register(Rekey)
@_pruned.register(Explode)
def _(node: Rekey | Explode, needed: Needed) -> Node:
    own = node.keys if isinstance(node, Rekey) else node.functions
    below = _pruned(node.input, _with(needed, *(named.expression for named in own)))
    added = node.relation.value[len(relation_of(node.input).value) :]
    return replace(node, input=below, relation=replace(node.relation, value=(*relation_of(below).value, *added)))


@_pruned.register
def _(node: Aggregate, needed: Needed) -> Node:
    arguments = [argument for call in node.calls for argument in call.arguments]
    return replace(node, input=_pruned(node.input, _with(set(), *(g.expression for g in node.groups), *arguments)))


@_pruned.register(StreamJoin)
@_pruned.register(Enrich)
@_pruned.register(TableJoin)
@_pruned.register(ForeignKeyJoin)
def _(node: StreamJoin | Enrich | TableJoin | ForeignKeyJoin, needed: Needed) -> Node:
    names = [field.name for side in node.inputs for field in relation_of(side).value]
    if len(set(names)) < len(names) or names != [field.name for field in node.relation.value]:
        needed = None  # a side's column cannot be told by its name
    own = [node.reference] if isinstance(node, ForeignKeyJoin) else []
    left, right = _pruned(node.left, _with(needed, *own)), _pruned(node.right, needed)
    value = (*relation_of(left).value, *relation_of(right).value)
    return replace(node, left=left, right=right, relation=replace(node.relation, value=value))


# -- all of them ----------------------------------------------------------------------------------------------------

RULES: tuple[Rule, ...] = (fold_constants, push_filters, merge_selects, prune_columns, drop_idle_selects)
"""All rules, in the order in which they are applied, again and again until nothing changes."""


def optimized(query: Query, rules: Sequence[Rule] = RULES) -> Query:
    """The query with a cheaper plan."""
    sink: Node = query.sink
    for _ in range(_ROUNDS):
        before = sink
        for rule in rules:
            sink = rule(sink)
        if sink == before:
            break
    return replace(query, sink=cast(Sink, sink))
