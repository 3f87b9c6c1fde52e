"""User-defined operators in FROM: `SELECT * FROM sessions(TABLE clicks)`."""

from __future__ import annotations

from dataclasses import replace

from headrace.errors import BadKey, BadWindow, WrongKind
from headrace.lang.ksql import ast
from headrace.lang.ksql.query.partial_plan import PartialPlan, subquery_plan
from headrace.plan.nodes import Process
from headrace.plan.operators import OPERATORS, unknown_operator
from headrace.plan.relations import Kind, Relation


def apply_operator(flow: PartialPlan, ref: ast.OperatorRef) -> PartialPlan:
    """Applies the operator to a stream, under the stream's key, as a source of the outer query."""
    kind = OPERATORS.get(ref.name)
    if kind is None:
        error = unknown_operator(ref.name)
        error.span = ref.span
        raise error
    _check(flow, ref)
    relation = Relation(Kind.STREAM, flow.relation.key, kind.output)
    node = Process(flow.node, relation, kind)
    return subquery_plan(replace(flow, node=node, relation=relation), ref.alias or ref.name)


def _check(flow: PartialPlan, ref: ast.OperatorRef) -> None:
    if flow.kind is Kind.TABLE:
        raise WrongKind(
            f"operator {ref.name} requires a stream, but its input is a table",
            span=ref.span,
            fix="apply it to the stream that the table is built from",
        )
    if flow.relation.window is not None:
        raise BadWindow(f"operator {ref.name} does not support windowed keys", span=ref.span)
    if not flow.relation.key:
        raise BadKey(
            f"operator {ref.name} requires a key, but its input has none", span=ref.span, fix="add PARTITION BY"
        )
