"""The operator of the record mode, as registered with Spark.

When a query starts, Spark starts a process only to ask for its state variables, and waits for it. So nothing is
imported here, and nothing of the query is deserialized, before there are rows: that would take twice as long.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle, TimerValues

if TYPE_CHECKING:
    from headrace.engine.record.chain_operator import Finish
    from headrace.engine.record.task_spec import RecordTaskSpec


@lru_cache(64)
def _loaded(query: bytes) -> tuple[RecordTaskSpec, Finish]:
    """Once in a worker, not for each key group and batch: the user's code is deserialized and executed by this."""
    return cloudpickle.loads(query)


class KeyGroupProcessor(StatefulProcessor):
    """The operator of all queries; `spec` specifies the query."""

    def __init__(self, spec: RecordTaskSpec, finish: Finish) -> None:
        self._query = cloudpickle.dumps((spec, finish))

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._map = handle.getMapState("buckets", "store string, bucket int", "data binary")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: TimerValues) -> Iterator[Any]:
        del timerValues
        from headrace.engine.record.chain_operator import run_key_group

        spec, finish = _loaded(self._query)
        yield run_key_group(spec, finish, self._map, int(key[0]), list(rows)).to_pandas()

    def close(self) -> None:
        """No resources are held between batches."""
