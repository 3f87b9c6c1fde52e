"""Spark reads the embedded log: every type, one total order, bounded batches, during maintenance."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from headrace.contracts import Append, TopicSpec
from headrace.engine.io.embedded_source import read_batch, read_stream, register_source
from headrace.log.embedded import EmbeddedLog
from headrace.log.stored_rows import from_records
from headrace.record import Record
from headrace.schema import Schema
from tests.spark.conftest import drain

NUMBERS = TopicSpec(partitions=2, schema=Schema.parse("id bigint key, word string"))


def numbers(start: int, end: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"id": np.arange(start, end), "word": [f"w{n}" for n in range(start, end)]})


def collected(batches: list[list[int]]) -> object:
    """A sink that notes the ids of each batch."""
    return lambda rows, batch: batches.append(sorted(row.id for row in rows.select("id").collect()))


def test_registered_sources_are_reused_within_a_session(spark: SparkSession) -> None:
    names = {register_source(spark) for _ in range(100)}
    assert len(names) < 100  # Spark keeps them for ever
    later = spark.newSession()
    assert names.isdisjoint({register_source(later) for _ in range(100)})


def test_every_type_is_read(spark: SparkSession, log: EmbeddedLog) -> None:
    text = (
        "flag boolean, small int, big bigint, f float, d double, s string, b bytes, day date, at timestamp, "
        "price decimal(10,2), tags array<string>, points map<string,int>, place struct<city string, zip int>"
    )
    row = {
        "flag": True,
        "small": 1,
        "big": 2**40,
        "f": 0.5,
        "d": 0.25,
        "s": "text",
        "b": b"\x00\xff",
        "day": date(2026, 1, 2),
        "at": datetime(2026, 1, 2, 3, 4, 5, 678000, UTC),
        "price": Decimal("12.30"),
        "tags": ["a", "b"],
        "points": [("x", 1)],
        "place": {"city": "Oslo", "zip": 150},
    }
    schema = Schema.parse(text)
    log.create_topic("all", TopicSpec(schema=schema))
    log.append([Append("all", pa.RecordBatch.from_pylist([row, dict.fromkeys(row)], schema.arrow))])
    first, second = read_batch(spark, log.folder, ["all"]).orderBy("$offset").select(*row).collect()
    found = first.asDict(recursive=True)
    assert found["at"].replace(tzinfo=UTC) == row["at"]
    assert {**found, "at": None} == {**row, "at": None, "points": {"x": 1}, "b": bytearray(b"\x00\xff")}
    assert set(second.asDict().values()) == {None}


def test_times_and_headers_are_read(spark: SparkSession, log: EmbeddedLog) -> None:
    log.create_topic("raw")
    record = Record(b"v", b"k", (("h", b"1"),), occurred_at=1_000, sent_at=2_000, received_at=62_000)
    log.append([Append("raw", from_records([record]))])
    (row,) = read_batch(spark, log.folder, ["raw"]).collect()
    assert (bytes(row.key), bytes(row.value)) == (b"k", b"v")
    assert row["$timestamp"].replace(tzinfo=UTC) == datetime.fromtimestamp(61, UTC)
    assert [(h.name, bytes(h.value)) for h in row["$headers"]] == [("h", b"1")]
    assert (row["$topic"], row["$partition"], row["$offset"], row["$sequence"]) == ("raw", 0, 0, 1)


def test_several_topics_are_read_in_total_order(spark: SparkSession, log: EmbeddedLog) -> None:
    log.create_topic("a", NUMBERS)
    log.create_topic("b")
    for turn in range(5):
        log.append([Append("a", numbers(turn, turn + 1))])
        log.append([Append("b", from_records([Record(b"%d" % turn)]))])
    rows = read_batch(spark, log.folder, ["a", "b"]).orderBy("$sequence").collect()
    assert [row["$sequence"] for row in rows] == list(range(1, 11))
    assert [row["$topic"] for row in rows] == ["a", "b"] * 5
    assert [row.a.id if row.a else int(row.b.value) for row in rows] == [n for n in range(5) for _ in "ab"]


def test_batches_are_bounded_and_available_now_stops_at_the_end(
    spark: SparkSession, log: EmbeddedLog, tmp_path: Path
) -> None:
    log.create_topic("n", NUMBERS)
    for start in range(0, 1000, 50):
        log.append([Append("n", numbers(start, start + 50))])
    batches: list[list[int]] = []
    drain(read_stream(spark, log.folder, ["n"], max_rows=300), collected(batches), tmp_path / "c")
    assert sorted(n for batch in batches for n in batch) == list(range(1000))
    assert len(batches) >= 4
    assert max(len(batch) for batch in batches) <= 300


def test_a_query_resumes_from_its_checkpoint(spark: SparkSession, log: EmbeddedLog, tmp_path: Path) -> None:
    log.create_topic("n", NUMBERS)
    batches: list[list[int]] = []
    for start in (0, 10, 20):
        log.append([Append("n", numbers(start, start + 10))])
        drain(read_stream(spark, log.folder, ["n"]), collected(batches), tmp_path / "c")
    assert [min(batch) for batch in batches] == [0, 10, 20]
    assert sorted(n for batch in batches for n in batch) == list(range(30))


def test_other_topics_cause_no_batches(spark: SparkSession, log: EmbeddedLog, tmp_path: Path) -> None:
    log.create_topic("n", NUMBERS)
    log.create_topic("noise")
    log.append([Append("n", numbers(0, 10))])
    batches: list[list[int]] = []
    drain(read_stream(spark, log.folder, ["n"]), collected(batches), tmp_path / "c")
    log.append([Append("noise", from_records([Record(b"x")] * 100))])
    drain(read_stream(spark, log.folder, ["n"]), collected(batches), tmp_path / "c")
    assert len(batches) == 1


def test_merging_between_batches_does_not_affect_a_query(spark: SparkSession, log: EmbeddedLog, tmp_path: Path) -> None:
    log.create_topic("n", NUMBERS)
    batches: list[list[int]] = []
    for start in range(0, 60, 20):
        for n in range(start, start + 20):
            log.append([Append("n", numbers(n, n + 1))])
        drain(read_stream(spark, log.folder, ["n"], max_rows=7), collected(batches), tmp_path / "c")
        report = log.maintenance.run()
        assert report
        assert report.merged
    assert sorted(n for batch in batches for n in batch) == list(range(60))


def test_removed_rows_raise_an_error(spark: SparkSession, log: EmbeddedLog, tmp_path: Path) -> None:
    log.create_topic("n", TopicSpec(schema=NUMBERS.schema))
    log.append([Append("n", numbers(0, 10))])
    batches: list[list[int]] = []
    drain(read_stream(spark, log.folder, ["n"]), collected(batches), tmp_path / "c")
    log.append([Append("n", numbers(10, 20))])
    log.append([Append("n", numbers(20, 30))])
    log.truncate("n", 0, 20)
    with pytest.raises(StreamingQueryException, match="offset-lost"):
        drain(read_stream(spark, log.folder, ["n"]), collected(batches), tmp_path / "c")
    drain(read_stream(spark, log.folder, ["n"], lost="earliest"), collected(batches), tmp_path / "c")
    assert batches == [list(range(10)), list(range(20, 30))]


def test_rows_removed_before_the_start_are_skipped(spark: SparkSession, log: EmbeddedLog, tmp_path: Path) -> None:
    log.create_topic("n", NUMBERS)
    log.append([Append("n", numbers(0, 40))])
    end = log.bounds("n")[0].end
    log.append([Append("n", numbers(40, 50))])
    log.truncate("n", 0, end)
    left = sorted(n for p in log.bounds("n") for n in stored_ids(log, p))
    batches: list[list[int]] = []
    drain(read_stream(spark, log.folder, ["n"], max_rows=9), collected(batches), tmp_path / "c")
    assert sorted(n for batch in batches for n in batch) == left
    assert sorted(row.id for row in read_batch(spark, log.folder, ["n"]).collect()) == left


def stored_ids(log: EmbeddedLog, partition: int) -> list[int]:
    return log.read("n", partition, log.bounds("n")[partition].start).rows.column("id").to_pylist()


def test_a_batch_read_stops_at_a_position(spark: SparkSession, log: EmbeddedLog) -> None:
    log.create_topic("n", NUMBERS)
    log.append([Append("n", numbers(0, 10))])
    position = log.head(["n"])
    log.append([Append("n", numbers(10, 20))])
    rows = read_batch(spark, log.folder, ["n"], upto=position, columns=["id"])
    assert sorted(row.id for row in rows.collect()) == list(range(10))
