"""Compares what a query should have written with what it has written, in one Spark job.

Of a table the last row of each key counts: the changes in between depend on how the input was cut into batches, and a
deletion of a key that does not exist has no effect. Of a stream every record counts, and how many times it occurs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

MISSING, EXTRA, DIFFERENT = "missing", "more", "other"


@dataclass(frozen=True)
class Difference:
    """One difference: `expected` and `found` are a value and its time, or None if there is none.

    `times` is by how many occurrences a record is missing or too many.
    """

    kind: str
    key: bytes | None
    expected: tuple[bytes | None, int] | None
    found: tuple[bytes | None, int] | None
    times: int = 1


@dataclass(frozen=True)
class ComparisonResult:
    """`rows` were compared: keys of a table, or records of a stream; `counts` are the differences by kind."""

    rows: int
    counts: Mapping[str, int]
    shown: tuple[Difference, ...]


def compare_results(
    expected: DataFrame, actual: DataFrame, *, table: bool, only_missing: bool, show: int
) -> ComparisonResult:
    """Compares rows of `recompute.RESULTS`; with `only_missing`, others write to the topic as well."""
    both = expected.withColumn("side", f.lit(1)).unionByName(actual.withColumn("side", f.lit(-1)))
    compared = (_tables if table else _streams)(both).persist()
    try:
        rows = compared.count() if table else compared.agg(f.sum("expected_times")).first()[0] or 0  # type: ignore[index]
        differences = compared.where(f.col("kind") == MISSING) if only_missing else compared.where("kind is not null")
        counts = {row.kind: row.n for row in differences.groupBy("kind").agg(f.sum("times").alias("n")).collect()}
        return ComparisonResult(rows, counts, tuple(map(_difference, differences.limit(show).collect())))
    finally:
        compared.unpersist()


def _tables(both: DataFrame) -> DataFrame:
    """By key, the last row of either side."""
    row = f.struct("at", "value", "time")
    last = both.groupBy("key").agg(
        f.max(f.when(f.col("side") == 1, row)).alias("expected"), f.max(f.when(f.col("side") == -1, row)).alias("found")
    )
    sides = last.select("key", *(_without_position(side).alias(side) for side in ("expected", "found")))
    same = f.col("expected").eqNullSafe(f.col("found"))
    kind = (
        f.when(same, None)
        .when(f.col("found").isNull(), MISSING)
        .when(f.col("expected").isNull(), EXTRA)
        .otherwise(DIFFERENT)
    )
    known = sides.where("expected is not null or found is not null")
    return known.select("key", "expected", "found", f.lit(1).alias("times"), kind.alias("kind"))


def _without_position(side: str) -> Column:
    """The row without its position; null if it is deleted."""
    value = f.col(f"{side}.value")
    return f.when(value.isNotNull(), f.struct(value.alias("value"), f.col(f"{side}.time").alias("time")))


def _streams(both: DataFrame) -> DataFrame:
    """By record, its number of occurrences on either side."""
    counted = both.groupBy("key", "value", "time").agg(
        f.sum("side").alias("over"), f.sum(f.when(f.col("side") == 1, 1).otherwise(0)).alias("expected_times")
    )
    kind = f.when(f.col("over") > 0, MISSING).when(f.col("over") < 0, EXTRA)
    row = f.struct("value", "time")
    return counted.select(
        "key",
        f.when(f.col("over") > 0, row).alias("expected"),
        f.when(f.col("over") < 0, row).alias("found"),
        f.abs("over").alias("times"),
        "expected_times",
        kind.alias("kind"),
    )


def _difference(row) -> Difference:
    expected, actual = (None if side is None else (_bytes(side.value), side.time) for side in (row.expected, row.found))
    return Difference(row.kind, _bytes(row.key), expected, actual, row.times)


def _bytes(value: bytearray | None) -> bytes | None:
    return None if value is None else bytes(value)
