"""Raw records as Spark rows: the input and the output of a batch run.

A record's `sequence` is its position in the total order of the input. In the output, `sequence` says how far the input
had been read, and `index` counts from there: sorted by both, results have the order of one uninterrupted run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from headrace.plan.chain.contract import Problem
from headrace.plan.chain.records import Headers, RawRecord

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))

INPUT = pa.schema(
    [
        ("query", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("sequence", pa.int64()),
        ("time", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADERS),
    ]
)
"""Records of the topics that `query` reads."""

OUTPUT = pa.schema(
    [
        ("query", pa.string()),
        ("sequence", pa.int64()),
        ("index", pa.int32()),
        ("topic", pa.string()),
        ("time", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADERS),
        ("problem", pa.struct([("code", pa.string()), ("reason", pa.string()), ("where", pa.string())])),
    ]
)
"""Records for the query's sink; where `problem` is set, a record or value that could not be used."""

OUTPUT_SPARK = from_arrow_schema(OUTPUT)


def records_frame(spark: SparkSession, inputs: Iterable[tuple[str, str, RawRecord]]) -> DataFrame:
    """Records in memory, each with its query and its topic, in order of arrival."""
    return spark.createDataFrame(input_table(inputs))


def input_table(inputs: Iterable[tuple[str, str, RawRecord]]) -> pa.Table:
    rows = [
        (query, topic, r.partition, r.offset, sequence, r.time, r.key, r.value, header_items(r.headers))
        for sequence, (query, topic, r) in enumerate(inputs)
    ]
    return rows_table(rows, INPUT)


def rows_table(rows: Sequence[Sequence[Any]], schema: pa.Schema) -> pa.Table:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    return pa.table([pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema)


def raw_records(rows: pa.Table) -> list[tuple[int, str, RawRecord]]:
    """Sequence, topic and record of every row of INPUT, in order of arrival."""
    ordered = rows.take(pc.sort_indices(rows["sequence"]))
    names = ("sequence", "topic", "key", "value", "time", "headers", "partition", "offset")
    return [
        (sequence, topic, RawRecord(key, value, time, headers_of(headers), partition, offset))
        for sequence, topic, key, value, time, headers, partition, offset in zip(
            *(ordered[name].to_pylist() for name in names), strict=True
        )
    ]


def header_items(headers: Headers) -> list[dict[str, Any]]:
    return [{"key": key, "value": value} for key, value in headers]


def headers_of(items: Sequence[Mapping[str, Any]] | None) -> Headers:
    return tuple((item["key"], item["value"]) for item in items or ())


def output_row(query: str, place: tuple[int, int], topic: str, item: RawRecord | Problem) -> tuple[Any, ...]:
    """A row of OUTPUT. A problem includes its record's bytes where they are available."""
    if isinstance(item, RawRecord):
        return (query, *place, topic, item.time, item.key, item.value, header_items(item.headers), None)
    problem = {"code": item.code, "reason": item.reason, "where": item.where}
    return (query, *place, None, item.time, _bytes(item.key), _bytes(item.row), None, problem)


def _bytes(value: Any) -> bytes | None:
    return value if isinstance(value, bytes) else None
