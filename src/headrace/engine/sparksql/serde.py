"""Decodes records to rows of a frame at the start of a native run, and encodes rows to records at its end.

Both use the formats' own serdes, in Python: they define what a payload means. A record that cannot be read or written
is left out; the chain reports such records, a native run only computes the result.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from headrace.engine.sparksql.column_types import column_type, natural_sql, quote_name, to_column
from headrace.engine.sparksql.frames import (
    BOUNDS,
    ORDER,
    frame_columns,
    key_columns,
    python_function,
    row_tuples,
    value_columns,
)
from headrace.engine.sparksql.record_frames import headers_of
from headrace.plan.chain.contract import Problem
from headrace.plan.chain.records import Decoder, Encoder, RawRecord
from headrace.plan.nodes import Sink, Source
from headrace.plan.relations import Relation
from headrace.plan.serialization import deserialize_plan, serialize_plan
from headrace.schema import Field


def decode_records(records: DataFrame, source: Source) -> DataFrame:
    """The source's rows among records of `record_frames.INPUT`."""
    mine = records.where(f.col("topic") == source.topic)
    call = python_function(RecordDecoder(serialize_plan(source)), _row_type(source.relation))
    read = mine.withColumn("row", call("key", "value", "time", "headers", "partition", "offset"))
    row = [f.col(f"row.{name}").alias(name) for name in row_columns(source.relation)]
    place = f.array().cast("array<int>").alias("place")
    return read.where("row.time is not null").select("sequence", place, *row, "headers")


def row_columns(relation: Relation) -> list[str]:
    """The frame's columns of the row itself: its time, key and values."""
    return ["time", *key_columns(relation), *value_columns(relation)]


def _row_type(relation: Relation) -> pa.DataType:
    fields = [("time", pa.int64()), ("keyed", pa.bool_())]
    fields += [(f"k{i}", column_type(field.type)) for i, field in enumerate(relation.key)]
    fields += [(bound, pa.int64()) for bound in (BOUNDS if relation.window else ())]
    fields += [("valued", pa.bool_())]
    return pa.struct(fields + [(f"v{i}", column_type(field.type)) for i, field in enumerate(relation.value)])


@dataclass(frozen=True)
class RecordDecoder:
    """In a worker: decodes payloads; a row without a time stands for a record that cannot be read."""

    source: bytes

    def __call__(self, *columns: pa.Array) -> pa.Array:
        relation, decoder = _decoder(self.source)
        events = [_event(decoder, record) for record in zip(*(c.to_pylist() for c in columns), strict=True)]
        return pa.StructArray.from_arrays(list(row_arrays(events, relation)), fields=list(_row_type(relation)))


@lru_cache(64)
def _decoder(data: bytes) -> tuple[Relation, Decoder]:
    source = deserialize_plan(data)
    return source.relation, Decoder(source)


def _event(decoder: Decoder, record: tuple[Any, ...]) -> tuple[int | None, Any, Any]:
    key, value, time, headers, partition, offset = record
    event = decoder.decode(RawRecord(key, value, time, headers_of(headers), partition, offset))
    return (None, None, None) if isinstance(event, Problem) else event


def row_arrays(events: list[Any], relation: Relation) -> Iterator[pa.Array]:
    """Events as the columns of `row_columns`."""
    yield pa.array([time for time, _, _ in events], pa.int64())
    yield pa.array([key is not None for _, key, _ in events], pa.bool_())
    for i, field in enumerate(relation.key):
        yield to_column([key and key[i] for _, key, _ in events], field.type)
    for bound in (0, 1) if relation.window else ():
        yield pa.array([key and key[-1][bound] for _, key, _ in events], pa.int64())
    yield pa.array([row is not None for _, _, row in events], pa.bool_())
    for i, field in enumerate(relation.value):
        yield to_column([row and row[i] for _, _, row in events], field.type)


# -- results --------------------------------------------------------------------------------------------------------

_RECORD = pa.struct([("time", pa.int64()), ("key", pa.binary()), ("value", pa.binary())])


def encode_rows(rows: DataFrame, sink: Sink) -> DataFrame:
    """The records for the sink's topic: topic, key, value, time, headers, and their order."""
    call = python_function(RecordEncoder(serialize_plan(sink)), _RECORD)(*row_columns(sink.relation))
    made = rows.withColumn("record", call).where("record.time is not null")
    fields = [f.col(f"record.{name}").alias(name) for name in ("key", "value", "time")]
    return made.select(f.lit(sink.topic).alias("topic"), *fields, "headers", *ORDER)


@dataclass(frozen=True)
class RecordEncoder:
    """In a worker: encodes rows; one without a time cannot be written."""

    sink: bytes

    def __call__(self, *columns: pa.Array) -> pa.Array:
        sink = deserialize_plan(self.sink)
        encoder, given = Encoder(sink), dict(zip(row_columns(sink.relation), columns, strict=True))
        keys = row_tuples(given, "k", sink.relation, "keyed")
        rows = row_tuples(given, "v", sink.relation, "valued")
        made = [encoder.encode(event) for event in zip(given["time"].to_pylist(), keys, rows, strict=True)]
        records = [r if isinstance(r, RawRecord) else None for r in made]
        return pa.array([r and {"time": r.time, "key": r.key, "value": r.value} for r in records], _RECORD)


def with_natural_types(rows: DataFrame, relation: Relation) -> DataFrame:
    """The rows with the relation's own names and Spark's own types, and the bounds of their windows."""
    fields = {f"k{i}": c for i, c in enumerate(relation.key)} | {f"v{i}": c for i, c in enumerate(relation.value)}
    return rows.selectExpr(
        *(_natural(name, fields[name]) if name in fields else name for name in frame_columns(relation))
    )


def _natural(name: str, field: Field) -> str:
    return f"{natural_sql(name, field.type)} as {quote_name(field.name)}"
