"""Reserves Spark's task slots: a realtime query occupies one for every partition that it reads, as long as it runs.

A query without slots would wait for ever without an error, so it is refused before it starts.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace.errors import BadSetting

_held: WeakKeyDictionary[StreamingQuery, int] = WeakKeyDictionary()


def check_free_slots(spark: SparkSession, query: str, wanted: int) -> None:
    """Raises BadSetting if fewer slots than wanted are free."""
    there = spark.sparkContext.defaultParallelism
    taken = sum(count for running, count in _held.items() if running.isActive)
    if wanted + taken > there:
        raise BadSetting(
            f"query {query} cannot run in realtime mode: its topic has {wanted} partitions, each of which "
            f"occupies a Spark task slot while the query runs, and only {there - taken} of {there} are free",
            fix=f'set "spark.master" to local[{wanted + taken}] or more; more slots than cores are allowed',
        )


def reserve_slots(running: StreamingQuery, count: int) -> None:
    """Reserves the slots of a started query; they are free again when it is no longer active."""
    _held[running] = count
