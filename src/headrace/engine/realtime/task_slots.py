"""Reserves Spark's task slots: a realtime query occupies one for every partition that it reads, as long as it runs.

A query without slots would wait forever without an error, so it is refused before it starts.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace.errors import BadSetting

_held: WeakKeyDictionary[StreamingQuery, int] = WeakKeyDictionary()


def check_free_slots(spark: SparkSession, query: str, partitions: int) -> None:
    """Raises BadSetting if fewer slots than wanted are free."""
    total = spark.sparkContext.defaultParallelism
    occupied = sum(count for running, count in _held.items() if running.isActive)
    if partitions + occupied > total:
        raise BadSetting(
            f"query {query} cannot run in realtime mode: its topic has {partitions} partitions, each of which "
            f"occupies a Spark task slot while the query runs, and only {total - occupied} of {total} are free",
            fix=f'set "spark.master" to local[{partitions + occupied}] or more; more slots than cores are allowed',
        )


def reserve_slots(running: StreamingQuery, count: int) -> None:
    """Reserves the slots of a started query; they are free again when it is no longer active."""
    _held[running] = count
