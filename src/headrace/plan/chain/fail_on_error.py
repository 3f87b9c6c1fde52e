"""Fails a query on problems that it is configured to stop on, instead of writing a dead letter."""

from __future__ import annotations

from headrace.errors import QueryFailed
from headrace.plan.nodes import Query
from headrace.plan.steps import Problem


def fail_if_configured(problem: Problem, query: Query) -> None:
    """Raises if the query is configured to stop on this problem."""
    setting = dict(query.strict).get(problem.code)
    if setting is not None:
        reason = " ".join(problem.reason.split())  # on one line: errors of Spark's workers are plain text
        raise QueryFailed(
            f"query {query.id} stopped at a record that it cannot process ({problem.code}): {reason}",
            where=problem.where,
            fix=f"set {setting} to false; such records then go to the dead-letter topic",
        )
