"""Task slots of Spark's: a realtime query holds one for every partition that it reads, as long as it runs.

One that gets none would wait for ever and say nothing, so it is refused before.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace.errors import BadSetting

_held: WeakKeyDictionary[StreamingQuery, int] = WeakKeyDictionary()


def check(spark: SparkSession, query: str, wanted: int) -> None:
    """Raises BadSetting if so many slots are not left."""
    there = spark.sparkContext.defaultParallelism
    taken = sum(count for running, count in _held.items() if running.isActive)
    if wanted + taken > there:
        raise BadSetting(
            f"query {query} cannot run in real time: its topic has {wanted} partitions, each of which holds a slot of "
            f"Spark's as long as it runs, and {there - taken} of {there} are free",
            fix=f'set "spark_master" to local[{wanted + taken}] or more; there may be more slots than cores',
        )


def hold(running: StreamingQuery, count: int) -> None:
    """A query has begun; its slots are free again when it is no longer active."""
    _held[running] = count
