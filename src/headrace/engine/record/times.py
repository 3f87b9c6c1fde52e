"""When a batch was begun, for plans that ask what time it is: Spark notes it with the batch, and repeats it with it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from headrace.plan.nodes import Query
from headrace.plan.rewriting import draws

_COLUMN = "batch_time"


def with_batch_time(rows: DataFrame, query: Query) -> DataFrame:
    """The rows; with the time of their batch only if somebody asks for it."""
    return rows.withColumn(_COLUMN, f.unix_millis(f.current_timestamp())) if draws(query.sink) else rows


def batch_time(rows: Any) -> int | None:
    """In a task: the time that `with_batch_time` gave, in ms; None if it gave none. Rows come from pandas or Arrow."""
    is_arrow = isinstance(rows, pa.RecordBatch)
    if _COLUMN not in (rows.schema.names if is_arrow else rows.columns):
        return None
    return int(rows[_COLUMN][0].as_py() if is_arrow else rows[_COLUMN].iloc[0])
