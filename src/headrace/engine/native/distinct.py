"""DISTINCT natively: Spark remembers what it has let through, and drops rows that are equal to it.

Of equal rows of one batch Spark's operator would keep any. So it gets only the first of them: rows that are equal come
to one task, which finds the one with the lowest place in the order of arrival. What was seen in a window goes when the
window has closed; lateness is decided before, as for aggregates (see `flow`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from headrace.engine.batch.frames import frame_columns
from headrace.engine.batch.native import Rows, compared, native
from headrace.engine.native.work import Hops
from headrace.plan import nodes as n


@dataclass(frozen=True)
class Remembering(n.Distinct):
    """DISTINCT that goes on from batch to batch."""

    hops: Hops | None = None


@native.register
def _(node: Remembering, records: DataFrame) -> Rows:
    made, by = compared(node, records)
    if node.hops is not None:
        size = node.hops.size
        made, by = made.selectExpr("*", f"timestamp_millis(time - time % {size} + {size}) as closes"), [*by, "closes"]
    firsts = made.repartition(*by).mapInArrow(first_of_batch(by), made.schema)
    if node.hops is not None:
        firsts = firsts.withWatermark("closes", f"{node.hops.size + node.hops.grace} milliseconds")
    return Rows(firsts.dropDuplicates(by).select(*frame_columns(node.relation)), node.relation)


def first_of_batch(by: Sequence[str]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """In a task: of the rows of a batch, those that are the first with their values. No two rows have one place."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        there = list(batches)
        if there:
            rows = pa.Table.from_batches(there)
            firsts = rows.group_by(list(by)).aggregate([("sequence", "min")])["sequence_min"]
            yield from rows.filter(pc.is_in(rows["sequence"], firsts)).to_batches()

    return run
