"""Queries that somebody wants to stop rather than go on without a record: their problems are no dead letters."""

from __future__ import annotations

from headrace.errors import QueryFailed
from headrace.plan.chain.contract import Problem
from headrace.plan.nodes import Query


def check(problem: Problem, query: Query) -> None:
    """Raise if the query must not go on over this problem."""
    setting = dict(query.strict).get(problem.code)
    if setting is not None:
        reason = " ".join(problem.reason.split())  # in one line: errors of Spark's workers come as text
        raise QueryFailed(
            f"query {query.id} ended at a record that it cannot use ({problem.code}): {reason}",
            where=problem.where,
            fix=f"set {setting} to false: such records then go to the dead letters",
        )
