"""Executes pull queries: on a table from its view, on a stream from its topic by the chain.

No Spark is needed. The result on a table reflects one state of the view, which it names; the result on a stream covers
the topic from its beginning to its end at the start of the query.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from headrace.contracts import Log
from headrace.control.serving.limits import QueryLimits
from headrace.control.serving.materialized_tables import MaterializedTables
from headrace.control.serving.prepared import PreparedPullQuery
from headrace.control.serving.result_rows import ResultRow, ResultRowWriter
from headrace.control.serving.transient_query import TransientQuery
from headrace.plan.actions import TransientSelect
from headrace.plan.relations import Kind
from headrace.settings import Settings
from headrace.views.contract import ViewState
from headrace.views.pull_query import PullQuery, sort_and_limit


@dataclass(frozen=True)
class PullResult:
    """Rows in batches; `state` is that of the table's view, None for a stream."""

    state: ViewState | None
    batches: Iterator[list[ResultRow]]


class PullQueries:
    def __init__(self, log: Log, tables: MaterializedTables, settings: Settings) -> None:
        self._log, self._tables, self.settings = log, tables, settings

    @contextmanager
    def execute(self, select: TransientSelect) -> Iterator[PullResult]:
        """Execute a query; read the result inside the context."""
        rows = ResultRowWriter(select)
        if select.query.sources[0].relation.kind is Kind.STREAM:
            limits = QueryLimits(self.settings)
            results = limits.within_time(self._read_stream(select))
            entries = sort_and_limit(select.query.sink.relation, results, select.order, select.limit)
            yield PullResult(None, limits.render(rows, entries))
            return
        with self._execute_on_view(PullQuery(select.query, order=select.order, limit=select.limit), rows) as result:
            yield result

    def execute_prepared(self, prepared: PreparedPullQuery) -> AbstractContextManager[PullResult]:
        """Execute a prepared query."""
        return self._execute_on_view(prepared.pull, prepared.rows)

    @contextmanager
    def _execute_on_view(self, pull: PullQuery, rows: ResultRowWriter) -> Iterator[PullResult]:
        limits = QueryLimits(self.settings)
        with pull.over(self._tables.view(pull.source.name), limits.within_time) as result:
            yield PullResult(result.state, limits.render(rows, result.batches))

    def _read_stream(self, select: TransientSelect) -> Iterator[list]:
        query = TransientQuery(self._log, select.query, from_beginning=True, bounded=True)
        while (entries := query.step()) is not None:
            yield entries
