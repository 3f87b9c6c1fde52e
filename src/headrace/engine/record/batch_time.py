"""The start time of a batch, for plans that use the current time: Spark stores it with the batch and repeats it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from headrace.plan.nodes import Query
from headrace.plan.rewrite import calls_nondeterministic

_COLUMN = "batch_time"


def with_batch_time(rows: DataFrame, query: Query) -> DataFrame:
    """The rows, with the time of their batch only if the plan uses it."""
    return (
        rows.withColumn(_COLUMN, f.unix_millis(f.current_timestamp())) if calls_nondeterministic(query.sink) else rows
    )


def batch_time_of(rows: Any) -> int | None:
    """In a task: the time from `with_batch_time`, in ms; None without it. Rows come from pandas or Arrow."""
    is_arrow = isinstance(rows, pa.RecordBatch)
    if _COLUMN not in (rows.schema.names if is_arrow else rows.columns):
        return None
    return int(rows[_COLUMN][0].as_py() if is_arrow else rows[_COLUMN].iloc[0])
