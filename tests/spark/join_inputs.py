"""Two streams to be joined: rows of topics with a schema and the same as JSON, in one order of arrival."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from headrace.contracts import Append
from headrace.plan.chain.records import RawRecord
from headrace.schema import Schema
from tests.spark.native_runner import raw_append

Arrival = tuple[str, Mapping[str, Any] | None, int]
"""A topic, a row's columns (None: deleted) and its time."""

STREAMS = (
    "CREATE STREAM a (id STRING KEY, x BIGINT, u STRING) WITH (kafka_topic='a', format='JSON', partitions=1);"
    "CREATE STREAM b (id STRING KEY, y DOUBLE, w STRING) WITH (kafka_topic='b', format='JSON', partitions=1);"
)
SCHEMAS = {
    "a": Schema.parse("id string key, x bigint, u string"),
    "b": Schema.parse("id string key, y double, w string"),
}


def arrivals(seed: int, count: int, *, spread: int = 1_000, lag: int = 0, keys: int = 3) -> list[Arrival]:
    """Rows of both topics, whose times go up by and by, and often back; the right ones `lag` behind the left."""
    dice = np.random.default_rng(seed)
    found: list[Arrival] = []
    for i in range(count):
        topic = str(dice.choice(["a", "b"]))
        time = int(max(i * spread + dice.integers(-12 * spread, spread) - (lag if topic == "b" else 0), 0))
        found.append((topic, None if dice.random() < 0.05 else _row(topic, dice, keys), time))
    return found


def _row(topic: str, dice: np.random.Generator, keys: int) -> dict[str, Any]:
    names = SCHEMAS[topic].names
    number = int(dice.integers(9)) if topic == "a" else float(dice.integers(9))
    cells = (f"k{dice.integers(keys)}", number, f"u{dice.integers(keys)}")
    row: dict[str, Any] = dict(zip(names, cells, strict=True))
    if dice.random() < 0.1:
        row[str(dice.choice(names))] = None
    return row


def as_records(rows: Sequence[Arrival]) -> list[tuple[str, RawRecord]]:
    return [(topic, _record(row, time)) for topic, row, time in rows]


def _record(row: Mapping[str, Any] | None, time: int) -> RawRecord:
    if row is None:
        return RawRecord(None, None, time)
    value = {name.upper(): item for name, item in row.items() if name != "id"}
    return RawRecord(None if row["id"] is None else orjson.dumps(row["id"]), orjson.dumps(value), time)


def typed_appends(rows: Sequence[Arrival]) -> list[Append]:
    """One for each run of rows of one topic."""
    return [Append(topic, batch(topic, list(run))) for topic, run in groupby(rows, key=lambda row: row[0])]


def raw_appends(rows: Sequence[Arrival]) -> list[Append]:
    return [raw_append(list(run)) for _, run in groupby(as_records(rows), key=lambda item: item[0])]


def batch(topic: str, rows: Sequence[Arrival]) -> pa.RecordBatch:
    schema = SCHEMAS[topic]
    columns = [pa.array([row and row[field.name] for _, row, _ in rows], field.type) for field in schema.fields]
    times = pa.array([time for _, _, time in rows], pa.int64())
    deleted = pa.array([row is None or None for _, row, _ in rows], pa.bool_())
    return pa.RecordBatch.from_arrays([*columns, times, deleted], [*schema.names, "$timestamp", "$deleted"])
