"""Conditions outside statements: on the columns of a stream, table or topic."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from headrace.errors import StatementError
from headrace.lang.ksql import ast
from headrace.lang.ksql.analyzer.scope import parts_of, qualify
from headrace.lang.ksql.analyzer.typer import Typer
from headrace.lang.ksql.grammar.parser import parse_expression
from headrace.lang.ksql.query.partial_plan import source_plan
from headrace.plan.nodes import Filter
from headrace.plan.sources import SourceInfo


def plan_condition(text: str, info: SourceInfo, types: Mapping[str, pa.DataType]) -> Filter:
    """Returns the rows of the source for which the condition holds; an error has its place in the text."""
    expr = parse_expression(text)
    names = {part.name for part in parts_of(expr) if isinstance(part, ast.Name)}
    flow = source_plan(info, info.name, names)
    try:
        condition = Typer(flow.scope, "WHERE", types).condition(qualify(expr, flow.scope, "WHERE"))
    except StatementError as error:
        raise error.located(text) from None
    return Filter(flow.node, flow.relation, condition)
