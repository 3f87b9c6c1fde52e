"""DISTINCT in native mode: Spark stores the rows that have passed, and drops rows that are equal to one of them.

Of equal rows in one batch Spark's operator would keep any. So it gets only the first of them: equal rows go to one
task, which finds the one with the lowest position in the order of arrival. The state of a window is removed when the
window has closed; lateness is decided before, as for aggregates (see `compiler`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from headrace.engine.native.task_spec import WindowSpec
from headrace.engine.sparksql.frames import frame_columns, key_columns
from headrace.engine.sparksql.operators import compile_node, distinct_rows
from headrace.plan import nodes as n
from headrace.plan.relations import Relation


@dataclass(frozen=True)
class StreamingDistinct(n.Distinct):
    """DISTINCT whose state persists across batches."""

    hops: WindowSpec | None = None


@compile_node.register
def _(node: StreamingDistinct, rows: DataFrame) -> DataFrame:
    compared, by = distinct_rows(node, rows)
    if node.hops is not None:
        size = node.hops.size
        compared = compared.selectExpr("*", f"timestamp_millis(time - time % {size} + {size}) as closes")
        by = [*by, "closes"]
    firsts = compared.repartition(*by).mapInArrow(first_of_batch(by), compared.schema)
    if node.hops is not None:
        firsts = firsts.withWatermark("closes", f"{node.hops.size + node.hops.grace} milliseconds")
    return firsts.dropDuplicates(by).select(*frame_columns(node.relation))


def first_of_batch(by: Sequence[str]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """In a task: the first rows of a batch with their values. No two rows have the same position."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        batches_read = list(batches)
        if batches_read:
            rows = pa.Table.from_batches(batches_read)
            firsts = rows.group_by(list(by)).aggregate([("sequence", "min")])["sequence_min"]
            yield from rows.filter(pc.is_in(rows["sequence"], firsts)).to_batches()

    return run


# -- in order -------------------------------------------------------------------------------------------------------

_HASH, *_ORDER = "$hash", "$sequence", "$place"


def order_columns(relation: Relation) -> tuple[str, ...]:
    """Columns by which the results of a key are put in the order in which the chain would emit them."""
    return (f"hash({', '.join(key_columns(relation))}) as `{_HASH}`", *(f"{name[1:]} as `{name}`" for name in _ORDER))


def order_rows(rows: DataFrame) -> DataFrame:
    """Sorts a batch of results by key: Spark's operator emits rows in any order."""
    return rows.repartition(f.col(_HASH)).sortWithinPartitions(*_ORDER).drop(_HASH, *_ORDER)
