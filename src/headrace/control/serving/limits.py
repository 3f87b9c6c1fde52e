"""Limits of pull queries: how long one may take, and how many rows it may return."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TypeVar

from headrace.errors import QueryTimeLimitExceeded, TooManyRows
from headrace.settings import Settings

Item = TypeVar("Item")
_FIX = (
    "restrict the query with WHERE or LIMIT, store its result with CREATE TABLE ... AS SELECT, or raise the setting {}"
)


class QueryLimits:
    """The limits of one query, which starts now. A setting of 0 means no limit."""

    def __init__(self, settings: Settings) -> None:
        self._seconds, self._max_rows = settings.query.pull_timeout.total_seconds(), settings.query.pull_max_rows
        self._began = time.monotonic()

    def within_time(self, batches: Iterator[Item]) -> Iterator[Item]:
        """Pass on batches until the time limit, which also applies if no row matches."""
        for batch in batches:
            if self._seconds and time.monotonic() - self._began > self._seconds:
                raise QueryTimeLimitExceeded(
                    f"the query took more than {self._seconds:g} s", fix=_FIX.format("query.pull_timeout")
                )
            yield batch

    def within_rows(self, batches: Iterator[list[Item]]) -> Iterator[list[Item]]:
        count = 0
        for batch in batches:
            count += len(batch)
            if self._max_rows and count > self._max_rows:
                raise TooManyRows(
                    f"the result has more than {self._max_rows} rows", fix=_FIX.format("query.pull_max_rows")
                )
            yield batch
