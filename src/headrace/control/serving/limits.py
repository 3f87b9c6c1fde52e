"""Limits of pull queries: how long one may take, and how many rows and bytes it may create and return."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, TypeVar

from headrace.control.serving.result_rows import ResultRow, ResultRowWriter
from headrace.errors import QueryEnded, QueryTimeLimitExceeded, QueryTooLarge, TooManyRows
from headrace.plan.allowance import QueryAllowance
from headrace.settings import Settings

Item = TypeVar("Item")
_FIX = (
    "restrict the query with WHERE or LIMIT, store its result with CREATE TABLE ... AS SELECT, or raise the setting {}"
)


class QueryLimits:
    """The limits of one query, which starts now. A setting of 0 means no limit."""

    def __init__(self, settings: Settings) -> None:
        self._seconds, self._max_rows = settings.query.pull_timeout.total_seconds(), settings.query.pull_max_rows
        self._max_bytes = settings.query.pull_max_bytes
        self._allowance = QueryAllowance(self._max_bytes)
        self._began = time.monotonic()

    def end(self, reason: QueryEnded) -> None:
        """End the query with an error; called by any thread."""
        self._allowance.ended = reason

    def render(self, rows: ResultRowWriter, batches: Iterator[list[Any]]) -> Iterator[list[ResultRow]]:
        """Compute and render batches within the limits of rows and bytes."""
        return self._within_bytes(self._allowance.over(map(rows.render, self._within_rows(batches))))

    def within_time(self, batches: Iterator[Item]) -> Iterator[Item]:
        """Pass on the batches that a query reads until the time limit, which also applies if no row matches."""
        for batch in batches:
            if self._allowance.ended is not None:
                raise self._allowance.ended
            if self._seconds and time.monotonic() - self._began > self._seconds:
                raise QueryTimeLimitExceeded(
                    f"the query took more than {self._seconds:g} s", fix=_FIX.format("query.pull_timeout")
                )
            self._allowance.begin_batch()
            yield batch

    def _within_rows(self, batches: Iterator[list[Item]]) -> Iterator[list[Item]]:
        count = 0
        for batch in batches:
            count += len(batch)
            if self._max_rows and count > self._max_rows:
                raise TooManyRows(
                    f"the result has more than {self._max_rows} rows", fix=_FIX.format("query.pull_max_rows")
                )
            yield batch

    def _within_bytes(self, batches: Iterator[list[ResultRow]]) -> Iterator[list[ResultRow]]:
        """Pass on rendered rows until the limit of the result's size."""
        size = 0
        for batch in batches:
            size += sum(len(row.text) for row in batch)
            if self._max_bytes and size > self._max_bytes:
                raise QueryTooLarge(
                    f"the result has more than {self._max_bytes >> 20} MB", fix=_FIX.format("query.pull_max_bytes")
                )
            yield batch
