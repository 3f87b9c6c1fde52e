"""Executes a pull query in the current process: in the server, or in a pull worker."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from headrace.contracts import Log
from headrace.control.serving.limits import QueryLimits
from headrace.control.serving.result_rows import ResultRow, ResultRowWriter
from headrace.plan.actions import TransientSelect
from headrace.views.contract import ViewReader, ViewState
from headrace.views.pull_query import PullQuery, sort_and_limit


@dataclass(frozen=True)
class PullResult:
    """Rows in batches; `state` is that of the table's view, None for a stream."""

    state: ViewState | None
    batches: Iterator[list[ResultRow]]


@contextmanager
def execute_on_view(
    pull: PullQuery, rows: ResultRowWriter, view: ViewReader, limits: QueryLimits
) -> Iterator[PullResult]:
    """Read the result inside the context."""
    with pull.over(view, limits.within_time) as result:
        yield PullResult(result.state, limits.render(rows, result.batches))


def execute_on_stream(log: Log, select: TransientSelect, limits: QueryLimits) -> PullResult:
    """Covers the topic from its beginning to its present end."""
    results = limits.within_time(_read_stream(log, select))
    entries = sort_and_limit(select.query.sink.relation, results, select.order, select.limit)
    return PullResult(None, limits.render(ResultRowWriter(select), entries))


def _read_stream(log: Log, select: TransientSelect) -> Iterator[list]:
    # imports Spark's library, which a worker that reads views does not need
    from headrace.control.serving.transient_query import TransientQuery

    query = TransientQuery(log, select.query, from_beginning=True, bounded=True)
    while (entries := query.step()) is not None:
        yield entries
