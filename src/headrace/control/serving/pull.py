"""Executes pull queries: on a table from its view, on a stream from its topic by the chain.

No Spark is needed. The result on a table reflects one state of the view, which it names; the result on a stream covers
the topic from its beginning to its end at the start of the query. Key lookups run in this process, all else in a pull
worker if there are any.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from headrace.contracts import Log
from headrace.control.serving.limits import QueryLimits
from headrace.control.serving.materialized_tables import MaterializedTables
from headrace.control.serving.prepared import PreparedPullQuery
from headrace.control.serving.processes import Process, Processes, ProcessKind
from headrace.control.serving.pull_execution import PullResult, execute_on_stream, execute_on_view
from headrace.control.serving.pull_protocol import PullRequest
from headrace.control.serving.pull_workers import PullWorkers
from headrace.control.serving.result_rows import ResultRow, ResultRowWriter
from headrace.plan.actions import TransientSelect
from headrace.plan.nodes import Query
from headrace.plan.relations import Kind
from headrace.plan.serialization import Setup, no_setup, serialize_plan
from headrace.settings import Settings
from headrace.views.pull_query import PullQuery

__all__ = ["PullQueries", "PullResult"]


class PullQueries:
    def __init__(
        self,
        log: Log,
        tables: MaterializedTables,
        settings: Settings,
        processes: Processes,
        workers: PullWorkers | None = None,
        setup_of: Callable[[Query], Setup] = lambda query: no_setup,
    ) -> None:
        self._log, self._tables, self.settings = log, tables, settings
        self._processes, self._workers, self._setup_of = processes, workers, setup_of

    def needs_worker(self, select: TransientSelect) -> bool:
        """Whether a pull worker executes the query, for which it may have to wait."""
        if self._workers is None:
            return False
        return select.query.sources[0].relation.kind is Kind.STREAM or _pull_query(select).is_heavy

    @contextmanager
    def execute(self, select: TransientSelect, begun: Callable[[Process], object] = id) -> Iterator[PullResult]:
        """Execute a query; read the result inside the context. `begun` gets the process that it is listed as."""
        with self._processes.running(ProcessKind.PULL, select) as process:
            begun(process)
            with self._execution(select, process) as result:
                yield PullResult(result.state, _counted(result.batches, process))

    def execute_prepared(self, prepared: PreparedPullQuery) -> AbstractContextManager[PullResult]:
        """Execute a prepared query."""
        self._tables.check(prepared.select.query.sources[0])
        view = self._tables.view(prepared.pull.source.name)
        return execute_on_view(prepared.pull, prepared.rows, view, QueryLimits(self.settings))

    def _execution(self, select: TransientSelect, process: Process) -> AbstractContextManager[PullResult]:
        limits = QueryLimits(self.settings)
        process.on_kill(limits.end)
        if select.query.sources[0].relation.kind is Kind.STREAM:
            if self._workers is not None:
                return self._workers.execute(self._request(select), process)
            return nullcontext(execute_on_stream(self._log, select, limits))
        self._tables.check(select.query.sources[0])
        pull = _pull_query(select)
        if self._workers is not None and pull.is_heavy:
            return self._workers.execute(self._request(select, pull.source.name), process)
        return execute_on_view(pull, ResultRowWriter(select), self._tables.view(pull.source.name), limits)

    def _request(self, select: TransientSelect, table: str | None = None) -> PullRequest:
        location = None if table is None else self._tables.location(table)
        return PullRequest(serialize_plan(select), self._setup_of(select.query), location, self.settings)


def _pull_query(select: TransientSelect) -> PullQuery:
    return PullQuery(select.query, order=select.order, limit=select.limit)


def _counted(batches: Iterable[list[ResultRow]], process: Process) -> Iterator[list[ResultRow]]:
    for batch in batches:
        process.count(len(batch), sum(len(row.text) for row in batch))
        yield batch
