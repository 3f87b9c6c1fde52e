"""Kafka as a Spark sink: exactly once, by lanes of transactional producers.

A query's rows hash to a fixed number of lanes. A lane writes its part of a batch in one transaction that also holds
the batch's number, so a repeat finds it and skips; opening the lane's writer fences a worker that was thought dead.
What is atomic is a lane's part of a batch: one lane, where a whole batch must be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame

from headrace.contracts import Append
from headrace.engine.columns import from_spark
from headrace.engine.kafka_source import Cuts, worker_log
from headrace.errors import WriterFenced
from headrace.log.kafka.log import KafkaLog
from headrace.log.kafka.writer import KafkaWriter
from headrace.settings import Settings

_TRIES = 3


class KafkaSink:
    """Writes a query's batches; pass `write` to `foreachBatch`. The number of lanes belongs to the query for ever."""

    def __init__(self, log: KafkaLog, query: str, topics: Sequence[str], cuts: Cuts, *, lanes: int = 2) -> None:
        self._settings = log.settings
        self._query = query
        self._topics = [log.topic(name) for name in topics]
        self._cuts = cuts
        self._lanes = lanes

    def write(self, rows: DataFrame, batch: int) -> None:
        """Write a batch, once."""
        self._cuts.journal(batch)
        laned = rows.repartition(self._lanes, *self._lane_columns(rows))
        laned.mapInArrow(self._lane(batch), "lane int, rows bigint").collect()

    def _lane_columns(self, rows: DataFrame) -> list[str]:
        """By key, so that a key's rows stay in order; a row without one by all it has, which a repeat gives again."""
        keys = self._topics[0].schema.key if len(self._topics) == 1 else ()
        return [f"`{name}`" for name in (keys or rows.columns)]

    def _lane(self, batch: int) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
        settings, query, topics = self._settings, self._query, list(self._topics)

        def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            context = TaskContext.get()
            lane = context.partitionId() if context else 0
            appends = [Append(topic.name, part) for one in batches for topic, part in from_spark(one, topics)]
            written = write_lane(settings, f"query.{query}.{lane}", batch, appends)
            yield pa.RecordBatch.from_pydict({"lane": pa.array([lane], pa.int32()), "rows": pa.array([written])})

        return write


def write_lane(settings: Settings, name: str, batch: int, appends: Sequence[Append]) -> int:
    """In a task: a lane's rows of a batch, in one transaction."""
    if not appends:
        return 0
    for attempt in range(_TRIES):
        try:
            lane_writer(settings, name).append(batch, appends)
            break
        except WriterFenced:
            # Another worker of this query has the lane since; it is ours again. A replaced driver does not come this
            # far: its cut was refused.
            lane_writer.cache_clear()
            if attempt == _TRIES - 1:
                raise
    return sum(len(append.rows) for append in appends)


@cache
def lane_writer(settings: Settings, name: str) -> KafkaWriter:
    """This worker's producer for a lane; kept, because a cold transaction costs half a second."""
    return worker_log(settings).writer(name)
