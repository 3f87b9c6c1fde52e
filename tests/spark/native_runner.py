"""Sales: rows of a topic with a schema and the same as JSON, and plans over them run in memory and natively."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
from pyspark.sql import SparkSession

from headrace.contracts import Append, dead_letter_topic
from headrace.engine.log_adapter import log_adapter_for
from headrace.engine.native.compiler import compile_native_query
from headrace.engine.query import ensure_topic
from headrace.engine.task_report import TaskReport
from headrace.log.embedded import EmbeddedLog
from headrace.plan.chain.pipeline import Pipeline
from headrace.plan.chain.records import RawRecord
from headrace.plan.nodes import Query
from headrace.plan.relations import Kind
from headrace.plan.steps import Context, Problem
from headrace.schema import Schema
from headrace.settings import Settings
from headrace.testing.world import World
from tests import memory_and_spark
from tests.spark.conftest import drain, forget_last_commit

Row = tuple[Mapping[str, Any] | None, int]
"""A row's columns (None: deleted) and its time."""

SALES = (
    "CREATE STREAM sales (shop STRING KEY, item STRING, amount BIGINT, price DOUBLE, tags ARRAY<STRING>,"
    " at STRUCT<x INT, y STRING>) WITH (kafka_topic='sales', format='JSON', partitions=1);"
)
SCHEMA = "shop string key, item string, amount bigint, price double, tags array<string>, at struct<x int, y string>"
SETTINGS = Settings.of(query_max_batch_rows=9)


def planned(statements: str) -> Query:
    world = World(live=False)
    world.execute(statements)
    return list(world.running.values())[-1].query


def sales(seed: int, count: int, *, nulls: bool = True, spread: int = 1_000) -> list[Row]:
    """Rows whose times go up by and by, and often back."""
    dice = np.random.default_rng(seed)
    rows: list[Row] = []
    for i in range(count):
        row = {
            "shop": str(dice.choice(["oslo", "rome", "bonn"])),
            "item": f"i{dice.integers(4)}",
            "amount": int(dice.integers(-5, 9)) if dice.random() > 0.1 else (1 << 63) - 1,
            "price": float(dice.integers(0, 100)) / 4,
            "tags": [str(t) for t in dice.integers(0, 3, dice.integers(0, 3))],
            "at": {"x": int(dice.integers(5)), "y": "y"},
        }
        if nulls and dice.random() < 0.2:
            row[str(dice.choice(list(row)))] = None
        deleted = nulls and dice.random() < 0.05
        rows.append((None if deleted else row, int(max(i * spread + dice.integers(-6 * spread, spread), 0))))
    return rows


def typed_batch(rows: Sequence[Row]) -> pa.RecordBatch:
    schema = Schema.parse(SCHEMA)
    columns = [pa.array([row and row[f.name] for row, _ in rows], f.type) for f in schema.fields]
    more = [pa.array([time for _, time in rows], pa.int64()), pa.array([row is None or None for row, _ in rows])]
    return pa.RecordBatch.from_arrays([*columns, *more], [*schema.names, "$timestamp", "$deleted"])


def as_records(rows: Sequence[Row]) -> list[tuple[str, RawRecord]]:
    """The same as JSON, for the chain."""
    found: list[tuple[str, RawRecord]] = []
    for row, time in rows:
        if row is None:
            found.append(("sales", RawRecord(None, None, time)))
            continue
        value = {k.upper(): v for k, v in row.items() if k != "shop"}
        value["AT"] = value["AT"] and {k.upper(): v for k, v in value["AT"].items()}
        key = None if row["shop"] is None else orjson.dumps(row["shop"])
        found.append(("sales", RawRecord(key, orjson.dumps(value), time)))
    return found


@dataclass
class Found:
    written: list[memory_and_spark.Output]
    dead: Counter[str]
    reports: list[TaskReport] = dataclass_field(default_factory=list)


def in_memory(query: Query, records: Sequence[tuple[str, RawRecord]]) -> Found:
    dead: Counter[str] = Counter()

    def report(problem: Problem) -> None:
        dead[problem.code] += 1

    written = Pipeline(query, Context(report=report)).run(records)
    return Found([(r.key, r.value, r.time) for r in written], dead)


def natively(
    spark: SparkSession,
    log: EmbeddedLog,
    query: Query,
    pieces: Sequence[Sequence[Append]],
    folder: Path,
    given_settings: Settings = SETTINGS,
    *,
    forget: bool = False,
) -> Found:
    sink, reports = query.sink.topic, list[TaskReport]()
    for topic in (sink, dead_letter_topic(sink)):
        ensure_topic(log, topic)
    for piece in pieces:
        for append in piece:
            log.append([append])
        flow = compile_native_query(
            spark, log, query, log_adapter_for(log, given_settings), folder, "run", lambda _, more: reports.extend(more)
        )
        drain(flow.rows, flow.write, folder / "spark", flow.mode)
        if forget:
            forget_last_commit(folder / "spark")
    letters = log.read(dead_letter_topic(sink), 0, 0, max_records=100_000).records()
    dead = Counter((letter.record.header("code") or b"").decode() for letter in letters)
    return Found(memory_and_spark.written(log, sink), dead, reports)


def assert_same(query: Query, found: Found, wanted: Found) -> None:
    assert found.dead == wanted.dead
    if query.sink.relation.kind is Kind.STREAM:
        assert memory_and_spark.by_key(found.written) == memory_and_spark.by_key(wanted.written)
    else:
        assert last(found.written) == last(wanted.written)


def last(written: Sequence[memory_and_spark.Output]) -> dict[Any, Any]:
    return {key: (value, time) for key, value, time in written}


def halves(rows: Sequence[Any]) -> list[Sequence[Any]]:
    cut = len(rows) // 2
    return [rows[:cut], rows[cut:]]


def in_order(log: EmbeddedLog, rows: Sequence[Row], partitions: int) -> list[tuple[str, RawRecord]]:
    """The records as the log has put them in order: an append to several partitions is sorted by them."""
    if partitions == 1:
        return as_records(rows)
    placed = [
        (row, row["$sequence"])
        for p, (start, _) in log.bounds("sales").items()
        for row in log.read("sales", p, start, max_records=10_000).rows.to_pylist()
    ]
    ordered = [row for row, _ in sorted(placed, key=lambda item: item[1])]
    names = Schema.parse(SCHEMA).names
    return as_records([(None if r["$deleted"] else {n: r[n] for n in names}, r["$timestamp"]) for r in ordered])


def raw_append(records: Sequence[tuple[str, RawRecord]]) -> Append:
    columns = {
        "key": pa.array([r.key for _, r in records], pa.binary()),
        "value": pa.array([r.value for _, r in records], pa.binary()),
        "$timestamp": pa.array([r.time for _, r in records], pa.int64()),
    }
    return Append(records[0][0], pa.RecordBatch.from_pydict(columns))
