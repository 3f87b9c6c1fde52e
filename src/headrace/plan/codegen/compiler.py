"""Compiles expressions to Python functions once; they are then called for every row or every batch.

None of these functions raises. An expression that fails is reported as `expression-failed` and gives null; a condition
that fails is reported and does not hold. Columns of a row or a key that is None are null.

`where` says where the expressions belong ("query CSAS_A_0, column TOTAL"); it appears in the reports.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from headrace.plan.codegen.code import CodeBuilder, indented
from headrace.plan.expressions import Expression
from headrace.plan.relations import Relation
from headrace.plan.steps import Batch, Context, Key, Row

Evaluate = Callable[[int, Key | None, Row | None], tuple[Any, ...]]
Holds = Callable[[int, Key | None, Row | None], bool]
Project = Callable[[Batch], list[tuple[Any, ...] | None]]


def evaluator(expressions: Sequence[Expression], relation: Relation, context: Context, where: str) -> Evaluate:
    """Compiles `(time, key, row) -> values`, one per expression, over rows of the relation."""
    code = CodeBuilder(relation, context, where)
    values = code.values(expressions)
    return code.function(
        "time, key, row", [*code.opening(row_may_be_none=True), *values.lines, f"return {values.text}"]
    )


def predicate(condition: Expression, relation: Relation, context: Context, where: str) -> Holds:
    """Compiles `(time, key, row) -> bool`: null does not hold."""
    code = CodeBuilder(relation, context, where)
    holds = code.condition(condition)
    return code.function("time, key, row", [*code.opening(row_may_be_none=True), *holds.lines, f"return {holds.text}"])


def projector(
    expressions: Sequence[Expression], relation: Relation, context: Context, where: str, *, position: int = 2
) -> Project:
    """Compiles an evaluator for whole batches: the values of every entry, None where its row is None.

    `position` is the position of the row in the entry: 2 for an event's row or a change's new row, 3 for its old row.
    """
    code = CodeBuilder(relation, context, where)
    values = code.values(expressions)
    return code.function(
        "batch",
        [
            "out = []",
            "append = out.append",
            "for entry in batch:",
            f"    row = entry[{position}]",
            "    if row is None:",
            "        append(None)",
            "        continue",
            "    time = entry[0]",
            "    key = entry[1]",
            *indented([*code.opening(), *values.lines]),
            f"    append({values.text})",
            "return out",
        ],
    )
