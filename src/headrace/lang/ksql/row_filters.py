"""A condition over the columns of a stream or table that is not part of any statement: which rows somebody sees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

import pyarrow as pa

from headrace.errors import BadRowFilter, HeadraceError
from headrace.lang.ksql.ast import Expr, Logical
from headrace.lang.ksql.flow import source_flow
from headrace.lang.ksql.parser import parse_expression
from headrace.lang.ksql.scope import qualified
from headrace.lang.ksql.typer import Typer
from headrace.plan.catalog import SourceInfo
from headrace.plan.expressions import PSEUDO, Expression, columns_of


def row_filter(info: SourceInfo, texts: Sequence[str], types: Mapping[str, pa.DataType]) -> Expression:
    """That one of the conditions holds. One that does not fit is an error: then no row is shown."""
    try:
        flow = source_flow(info, info.name, ())
        either: Expr = reduce(lambda left, right: Logical("OR", left, right), map(parse_expression, texts))
        condition = Typer(flow.scope, "WHERE", types).condition(qualified(either, flow.scope, "WHERE"))
    except HeadraceError as error:
        raise _unfit(info, error.what) from error
    known = {field.name for field in info.relation.columns} | set(PSEUDO)
    if others := sorted(columns_of(condition) - known):
        raise _unfit(info, f"{others[0]} is no column of it")
    return condition


def _unfit(info: SourceInfo, why: str) -> BadRowFilter:
    return BadRowFilter(
        f'the rows of "{info.name}" that may be seen cannot be told: {why}',
        fix="an admin must mend the condition of the grant: headrace role list",
    )
