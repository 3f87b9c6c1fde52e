"""The operator of the record way, as Spark knows it.

When a query begins, Spark makes a process only to ask which state there will be, and waits for it. So nothing is
imported here, and nothing of the query unpacked, before there are rows: with all of it that takes twice as long.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle, TimerValues

if TYPE_CHECKING:
    from headrace.engine.record.operator import Finish
    from headrace.engine.record.work import Work


class PageOperator(StatefulProcessor):
    """All queries' operator; `work` makes it one query's."""

    def __init__(self, work: Work, finish: Finish) -> None:
        self._query = cloudpickle.dumps((work, finish))

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._map = handle.getMapState("buckets", "store string, bucket int", "data binary")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: TimerValues) -> Iterator[Any]:
        del timerValues
        from headrace.engine.record.operator import run_page

        work, finish = cloudpickle.loads(self._query)
        yield run_page(work, finish, self._map, int(key[0]), list(rows)).to_pandas()

    def close(self) -> None:
        """Nothing is held between batches."""
