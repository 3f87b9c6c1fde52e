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
    def answered(self, ask: TransientSelect) -> Iterator[PullResult]:
        """Execute a query; read the result inside the context."""
        rows = ResultRowWriter(ask)
        if ask.query.sources[0].relation.kind is Kind.STREAM:
            allowance = QueryLimits(self.settings)
            followed = allowance.in_time(self._followed(ask))
            entries = sort_and_limit(ask.query.sink.relation, followed, ask.order, ask.limit)
            yield PullResult(None, map(rows.of, allowance.counted(entries)))
            return
        with self._asked(PullQuery(ask.query, order=ask.order, limit=ask.limit), rows) as pulled:
            yield pulled

    def prepared(self, question: PreparedPullQuery) -> AbstractContextManager[PullResult]:
        """Execute a prepared query."""
        return self._asked(question.pull, question.rows)

    @contextmanager
    def _asked(self, pull: PullQuery, rows: ResultRowWriter) -> Iterator[PullResult]:
        allowance = QueryLimits(self.settings)
        with pull.over(self._tables.view(pull.source.name), allowance.in_time) as answer:
            yield PullResult(answer.state, map(rows.of, allowance.counted(answer.batches)))

    def _followed(self, ask: TransientSelect) -> Iterator[list]:
        follower = TransientQuery(self._log, ask.query, from_beginning=True, to_the_end=True)
        while (entries := follower.step()) is not None:
            yield entries
