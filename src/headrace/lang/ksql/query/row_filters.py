"""Row filters: conditions over the columns of a stream or table, outside any statement, that limit the visible rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

import pyarrow as pa

from headrace.errors import BadRowFilter, HeadraceError
from headrace.lang.ksql.analyzer.scope import qualify
from headrace.lang.ksql.analyzer.typer import Typer
from headrace.lang.ksql.ast import Expr, Logical
from headrace.lang.ksql.grammar.parser import parse_expression
from headrace.lang.ksql.query.partial_plan import source_plan
from headrace.plan.catalog import SourceInfo
from headrace.plan.expressions import PSEUDO, Expression, column_names


def row_filter(info: SourceInfo, texts: Sequence[str], types: Mapping[str, pa.DataType]) -> Expression:
    """Returns the OR of the conditions. An invalid one is an error: then no row is visible."""
    try:
        flow = source_plan(info, info.name, ())
        either: Expr = reduce(lambda left, right: Logical("OR", left, right), map(parse_expression, texts))
        condition = Typer(flow.scope, "WHERE", types).condition(qualify(either, flow.scope, "WHERE"))
    except HeadraceError as error:
        raise _unfit(info, error.what) from error
    known = {field.name for field in info.relation.columns} | set(PSEUDO)
    if others := sorted(column_names(condition) - known):
        raise _unfit(info, f"{others[0]} is not one of its columns")
    return condition


def _unfit(info: SourceInfo, why: str) -> BadRowFilter:
    return BadRowFilter(
        f'the row filter of "{info.name}" is invalid: {why}',
        fix="ask an admin to fix the condition of the grant; `headrace role list` shows it",
    )
