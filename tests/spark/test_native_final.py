"""EMIT FINAL in native mode and in memory: the same windows, each once, at any time of the stream.

Ticks are records of a topic of their own: the chain is told of them where they lie in the log's order.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadMaxRows

from headrace.clock import ManualClock
from headrace.contracts import Append, Batch, TopicSpec, dead_letter_topic
from headrace.control.program import Program
from headrace.engine.execution_mode import NATIVE
from headrace.engine.io.embedded_source import open_view
from headrace.engine.log_adapter import log_adapter_for
from headrace.engine.native.compiler import compile_native_query
from headrace.engine.native.embedded_source import NativeReader
from headrace.engine.native.embedded_source import rows_for_spark as given_rows
from headrace.engine.native.input_rows import decode_batch
from headrace.engine.native.task_spec import WindowSpec, native_task_spec
from headrace.engine.native.watermark import DeadlineTracker, WatermarkState, report_watermark
from headrace.engine.planning.mode import choose_execution
from headrace.engine.planning.native_support import choose_native
from headrace.engine.query import ensure_topic
from headrace.engine.task_report import TaskReport
from headrace.log.embedded import EmbeddedLog
from headrace.log.stored_rows import from_records
from headrace.plan.chain.pipeline import Pipeline
from headrace.plan.chain.records import RawRecord
from headrace.plan.nodes import Query
from headrace.plan.steps import Context
from headrace.record import Record
from headrace.schema import Schema
from headrace.settings import Settings
from tests import memory_and_spark
from tests.spark.conftest import drain, forget_last_commit
from tests.spark.native_runner import (
    SALES,
    SCHEMA,
    Found,
    Row,
    as_records,
    in_memory,
    in_order,
    planned,
    sales,
    typed_batch,
)

TICKS = "__ticks.run"
FINAL = {
    "tumbling": "SELECT shop, COUNT(*) AS n, SUM(amount) AS s, WINDOWSTART AS w FROM sales"
    " WINDOW TUMBLING (SIZE 3 SECONDS, GRACE PERIOD 0 SECONDS) GROUP BY shop EMIT FINAL;",
    "grace": "SELECT shop, item, COUNT(*) AS n, MAX(amount) AS m FROM sales"
    " WINDOW TUMBLING (SIZE 3 SECONDS, GRACE PERIOD 2 SECONDS) GROUP BY shop, item EMIT FINAL;",
    "hopping": "SELECT item, COUNT(*) AS n, LATEST_BY_OFFSET(price) AS p FROM sales"
    " WINDOW HOPPING (SIZE 5 SECONDS, ADVANCE BY 2 SECONDS, GRACE PERIOD 1 SECOND) GROUP BY item EMIT FINAL;",
    "having": "SELECT shop, COUNT(*) AS n FROM sales"
    " WINDOW TUMBLING (SIZE 3 SECONDS) GROUP BY shop HAVING COUNT(*) > 1 EMIT FINAL;",
}


def final(name: str) -> Query:
    return planned(f"{SALES}CREATE TABLE o AS {FINAL[name]}")


def tick(time: int) -> Append:
    return Append(TICKS, from_records([Record(b"", occurred_at=time)]))


def topics(log: EmbeddedLog, partitions: int = 1) -> None:
    log.create_topic("sales", TopicSpec(partitions=partitions, schema=Schema.parse(SCHEMA)))
    for topic in ("O", dead_letter_topic("O"), TICKS):
        ensure_topic(log, topic)


def by_the_chain(query: Query, inputs: Sequence[tuple[str, RawRecord]]) -> Found:
    """Of records, and of ticks among them."""
    dead: Counter[str] = Counter()
    pipe = Pipeline(query, Context(report=lambda problem: dead.update([problem.code])))
    out = [r for topic, raw in inputs for r in (pipe.tick(raw.time) if topic == TICKS else pipe.feed(topic, [raw]))]
    return Found([(r.key, r.value, r.time) for r in out], dead)


def ran(spark: SparkSession, log: EmbeddedLog, query: Query, folder: Path, rows: int, *, ticks: str = TICKS) -> Any:
    reports: list[TaskReport] = []
    given_settings = Settings.of(query_max_batch_rows=rows)
    flow = compile_native_query(
        spark,
        log,
        query,
        log_adapter_for(log, given_settings),
        folder,
        "run",
        lambda _, more: reports.extend(more),
        ticks=ticks,
    )
    assert flow.mode == "append"
    return drain(flow.rows, flow.write, folder / "spark", flow.mode), reports


def dead_letters(log: EmbeddedLog) -> Counter[str]:
    letters = log.read(dead_letter_topic("O"), 0, 0, max_records=100_000).records()
    return Counter((letter.record.header("code") or b"").decode() for letter in letters)


def same(found: Sequence[memory_and_spark.Output], wanted: Sequence[memory_and_spark.Output]) -> None:
    assert sorted(found, key=repr) == sorted(wanted, key=repr)
    assert [end(key) for key, _, _ in found] == sorted(end(key) for key, _, _ in wanted)


def end(key: bytes | None) -> int:
    """A window's start tells it as well."""
    return int.from_bytes((key or b"")[-8:])


# -- beside the chain -----------------------------------------------------------------------------------------------


@pytest.mark.spark
@pytest.mark.parametrize("name", FINAL)
def test_windows_are_emitted_as_in_memory(name: str, spark: SparkSession, log: EmbeddedLog, tmp_path: Path) -> None:
    """In small batches, stopped and gone on with, and the last batch of each run done twice."""
    query, partitions, rows = final(name), 3 if name == "grace" else 1, sales(11, 45, spread=900)
    topics(log, partitions)
    assert choose_native(query, {"sales": log.topic("sales")}, every_change=True).execution_mode == NATIVE
    progress: list[dict] = []
    for part in (rows[:20], rows[20:]):
        for piece in (part[:7], part[7:]):
            log.append([Append("sales", typed_batch(piece))])
        for _ in range(2):
            progress += ran(spark, log, query, tmp_path / "q", 10)[0]
            forget_last_commit(tmp_path / "q" / "spark")
    wanted = in_memory(query, in_order(log, rows, partitions))
    found = memory_and_spark.written(log, "O")
    assert sorted(found, key=repr) == sorted(wanted.written, key=repr)
    assert len(found) > 3
    assert dead_letters(log) == wanted.dead
    assert wanted.dead["late-record"] > 3
    operators = [batch["stateOperators"][0] for batch in progress]
    assert sum(operator["numRowsDroppedByWatermark"] for operator in operators) == 0


@pytest.mark.spark
def test_ticks_close_windows_at_their_position(spark: SparkSession, log: EmbeddedLog, tmp_path: Path) -> None:
    query, folder = final("tumbling"), tmp_path / "q"
    topics(log)
    rows = [(ROW, 1_000), (ROW, 2_000)]
    log.append([Append("sales", typed_batch(rows))])
    _, reports = ran(spark, log, query, folder, 100)
    assert memory_and_spark.written(log, "O") == []
    assert (reports[-1].deadline, reports[-1].follows) == (3_000, False)

    log.append([tick(2_999)])
    assert ran(spark, log, query, folder, 100)[1][-1].deadline == 3_000
    log.append([tick(3_000)])
    _, reports = ran(spark, log, query, folder, 100)
    assert [report.follows for report in reports] == [True, False, False]  # a task, its batch, and one without rows
    assert [report.deadline for report in reports] == [None] * 3
    assert [report.records for report in reports] == [0, 0, 0]
    same(memory_and_spark.written(log, "O"), in_memory(query, as_records([*rows, (ROW, 3_000)])).written)

    log.append([Append("sales", typed_batch([(ROW, 2_500)]))])  # its window is gone
    assert ran(spark, log, query, folder, 100)[1][-1].deadline is None
    assert dead_letters(log) == {"late-record": 1}


@pytest.mark.spark
def test_windows_closed_before_a_crash_are_emitted_with_the_next_tick(
    spark: SparkSession, log: EmbeddedLog, tmp_path: Path
) -> None:
    """The driver dies behind the batch that closes a window, before the one that gives it out."""
    query, folder = final("tumbling"), tmp_path / "q"
    topics(log)
    log.append([Append("sales", typed_batch([(ROW, 1_000), (ROW, 3_500)]))])
    flow = compile_native_query(spark, log, query, log_adapter_for(log, Settings()), folder, "run", ticks=TICKS)

    def dying(rows: Any, batch: int) -> None:
        if batch > 0:
            raise ChildProcessError
        flow.write(rows, batch)

    with pytest.raises(Exception, match="ChildProcessError"):
        drain(flow.rows, dying, folder / "spark", flow.mode)
    for file in ("offsets/1", "offsets/.1.crc"):  # it died before it said that there would be another
        (folder / "spark" / file).unlink(missing_ok=True)
    assert memory_and_spark.written(log, "O") == []
    ran(spark, log, query, folder, 100)
    log.append([tick(0)])  # what a query that goes on is sent
    ran(spark, log, query, folder, 100)
    same(memory_and_spark.written(log, "O"), in_memory(query, as_records([(ROW, 1_000), (ROW, 3_500)])).written)


@pytest.mark.spark
def test_a_sink_with_a_schema_gets_each_window(spark: SparkSession, log: EmbeddedLog, tmp_path: Path) -> None:
    columns = "shop string key, WindowStart bigint key, n bigint, s bigint, w bigint"
    log.create_topic("O", TopicSpec(schema=Schema.parse(columns)))
    topics(log)
    rows: list[Row] = [({**ROW, "shop": f"shop {n % 5}"}, n * 400) for n in range(60)]
    log.append([Append("sales", typed_batch(rows))])
    ran(spark, log, final("tumbling"), tmp_path / "q", 100)
    found = [(row["WindowStart"], row["shop"], row["n"]) for row in log.read("O", 0, 0).rows.to_pylist()]
    assert [start for start, _, _ in found] == [start for start in range(0, 21_000, 3_000) for _ in range(5)]
    counts = Counter((time // 3_000 * 3_000, row["shop"]) for row, time in rows if row)
    assert {(start, shop): n for start, shop, n in found} == {at: n for at, n in counts.items() if at[0] < 21_000}


ROW = {"shop": "oslo", "item": "i", "amount": 1, "price": 1.0, "tags": None, "at": None}


def test_explain_shows_native_mode(log: EmbeddedLog) -> None:
    topics(log)
    known = {name: log.topic(name) for name in ("sales", "O")}
    (line,) = choose_execution(final("hopping"), known, Settings.of(query_emit="per-record"), embedded=True).lines()
    assert line == (
        "runs natively, by Spark's own operators; sends the last result of each window, once; delivered exactly once"
    )


# -- without Spark --------------------------------------------------------------------------------------------------

MADE = st.lists(
    st.one_of(
        st.tuples(st.integers(0, 9_000), st.sampled_from(["i0", "i1", None]), st.sampled_from([True] * 9 + [False])),
        st.integers(0, 12_000),  # a tick
    ),
    min_size=1,
    max_size=30,
)


@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@example(made=[(100, "i0", True), (9_000, None, True)], name="tumbling", cut=9, partitions=1)  # far ahead, but no group
@example(made=[(100, "i0", True), (9_000, "i0", False)], name="hopping", cut=9, partitions=1)
@given(made=MADE, name=st.sampled_from(["tumbling", "hopping"]), cut=st.integers(1, 30), partitions=st.integers(1, 2))
def test_rows_and_clocks_determine_the_closed_windows(
    made: list[Any], name: str, cut: int, partitions: int, tmp_path_factory: Any
) -> None:
    """However the log is cut: what is in the windows that end before the last clock is what the chain gives out."""
    query, inputs = final(name), list[tuple[str, RawRecord]]()
    if name == "tumbling":
        query = planned(f"{SALES}CREATE TABLE o AS {FINAL[name].replace('shop', 'item')}")
    with EmbeddedLog(tmp_path_factory.mktemp("log"), Settings.of(storage_maintenance_interval=timedelta(0))) as log:
        topics(log, partitions)
        for one in made:
            if isinstance(one, int):
                log.append([tick(one)])
                inputs.append((TICKS, RawRecord(None, None, one)))
            else:
                row: Row = ({**ROW, "item": one[1], "shop": one[1]} if one[2] else None, one[0])
                log.append([Append("sales", typed_batch([row]))])
                inputs += as_records([row])
        wanted = {key: orjson.loads(value or b"")["N"] for key, value, _ in by_the_chain(query, inputs).written}
        assert closed(log, query, cut) == wanted


def closed(log: EmbeddedLog, query: Query, cut: int) -> dict[bytes, int]:
    """What the reader gives, put into windows by hand; of those that the clocks say are closed, how much is in them."""
    work, found, ends = native_task_spec(query, "", ticks=TICKS), Counter[bytes](), [0]
    hops = work.hops
    assert hops is not None
    options = {"folder": str(log.folder.resolve()), "topics": json.dumps(["sales", TICKS])}
    reader = NativeReader(options, [log.topic("sales"), log.topic(TICKS)], None, work)
    reader.prepareForTriggerAvailableNow()
    start, offset = reader.initialOffset(), None
    while start != offset:
        start = offset or start
        offset = reader.latestOffset(start, ReadMaxRows(cut))
        before = max(ends)
        for part in reader.partitions(start, offset) if offset != start else ():
            for row in (row for batch in reader.read(part) for row in batch.to_pylist()):
                group = row[work.groups[0] if work.partial is None else "g0"]
                if group is None:
                    ends.append(row["now"])
                    continue
                for first in windows_of(row, hops):
                    assert first + hops.size > before  # else Spark would drop it
                    found[orjson.dumps(group) + first.to_bytes(8)] += row.get("p0", 1)
    reader.view.close()
    open_view.cache_clear()
    return {key: count for key, count in found.items() if end(key) + hops.size <= max(ends)}


def windows_of(row: Any, hops: WindowSpec) -> list[int]:
    """The starts of the row's windows that were open; those of rows that were added up are."""
    now = -(1 << 60) if row["now"] is None else row["now"]
    starts = range(row["time"] // hops.advance * hops.advance, max(row["time"] - hops.size, -1), -hops.advance)
    return [start for start in starts if start + hops.size > now - hops.grace]


def test_rows_in_time_order_are_never_late(log: EmbeddedLog) -> None:
    """As on Kafka, where a task reads a partition in pieces, in the order of its offsets."""
    topics(log)
    work = native_task_spec(final("tumbling"), "", by_time=True, ticks=TICKS)
    log.append([Append("sales", typed_batch([(ROW, 9_000)])), tick(20_000)])
    log.append([Append("sales", typed_batch([(ROW, 4_000)])), Append("sales", typed_batch([(ROW, 100)]))])
    ticks = [log.read(TICKS, 0, 0)]
    batches: list[Batch] = [*ticks, *(log.read("sales", 0, offset, max_records=1) for offset in range(3))]
    before = WatermarkState(now=3_000)
    found = [row for batch in given_rows(batches, log.topic("sales"), work, before, "0") for row in batch.to_pylist()]
    assert [row["time"] for row in found] == [9_000, 4_000, 20_000]
    assert found[-1]["now"] == 18_000


KINDS = [(10, 10, 0), (10, 10, 25), (10, 4, 0), (7, 3, 5), (3, 3, 40)]
"""Size, advance and grace."""


def test_a_time_beyond_sparks_range_becomes_a_dead_letter(log: EmbeddedLog) -> None:
    """As a record's headers on Kafka may say."""
    topics(log)
    work = native_task_spec(final("tumbling"), "", by_time=True)
    records = [Record(b'{"ITEM": "i"}', b'"oslo"', occurred_at=1_000) for _ in range(2)]
    raw = log.create_topic("raw", TopicSpec())
    log.append([Append("raw", from_records(records))])
    batch = log.read("raw", 0, 0)
    at = batch.rows.schema.get_field_index("$timestamp")
    times = pa.array([1_000, 1 << 62])
    rows = decode_batch(Batch("raw", 0, batch.rows.set_column(at, "$timestamp", times), 2), raw, work)
    assert rows.times.tolist() == [1_000]
    assert [(problem.code, problem.time) for problem in rows.problems] == [("bad-time", 1 << 62)]


STEPS = st.lists(st.one_of(st.integers(0, 200), st.lists(st.integers(0, 200), max_size=5)), max_size=20)


@given(hops=st.sampled_from(KINDS), steps=STEPS)
def test_the_next_deadline_is_that_of_the_first_open_window_with_rows(
    hops: tuple[int, int, int], steps: list[Any]
) -> None:
    """Steps are ticks, and rows that come together."""
    size, advance, grace = hops
    every = range(size, 500, advance)
    grid = WindowSpec(*hops)
    work = replace(native_task_spec(final("tumbling"), ""), hops=grid)
    reached, deadlines, now, ends = WatermarkState(), DeadlineTracker(work), -1, set[int]()
    for step in steps:
        before = reached
        if isinstance(step, int):
            reached, now = before.after_tick(step, work), max(now, step)
        else:
            reached, now = before.after_rows(np.array(step, np.int64), work), max([now, *step])
            ends |= {start + size for start in range(0, 201, advance) for t in step if start <= t < start + size}
        report = TaskReport(0)
        report_watermark(report, work, before, reached)
        assert (report.time, reached.now) == (None if now < 0 else now, now)
        assert grid.closed(now) == max((e for e in every if e + grace <= now), default=0)
        (told,) = deadlines.with_deadline([TaskReport.unpacked(report.packed())])
        assert told.deadline == min((e + grace for e in ends if e + grace > now), default=None)


def test_the_widest_gaps_of_many_ranges_are_kept() -> None:
    work = replace(native_task_spec(final("tumbling"), ""), hops=WindowSpec(1, 1, 1_000_000))
    times = np.concatenate([np.arange(0, 200, 2), [1_000, 5_000]])
    found = WatermarkState().after_rows(times, work).open
    assert (len(found), found[0][0], found[-2:]) == (64, 0, ((1_000, 1_000), (5_000, 5_000)))
    assert all(any(first <= time <= last for first, last in found) for time in times.tolist())


# -- a program, with a clock held in the hand -----------------------------------------------------------------------


@pytest.mark.spark
def test_windows_close_on_idle_input(spark: SparkSession, tmp_path: Path) -> None:
    del spark
    config, clock = memory_and_spark.settings(tmp_path, query_execution_mode="auto"), ManualClock(1_000_000_000)
    script = f"{SALES}CREATE TABLE o AS {FINAL['tumbling']}"
    with EmbeddedLog(config.storage.data, config) as log:
        log.create_topic("sales", TopicSpec(schema=Schema.parse(SCHEMA)))
        log.append([Append("sales", typed_batch([(ROW, 1_000), (ROW, 1_500)]))])
        with Program(log, config, clock=clock) as program:
            program.execute(script)
            program.wait(until_idle=True)
            (running,) = program.running.values()
            assert (running.execution_mode, running.progress.deadline) == (NATIVE, 3_000)
            clock.advance(timedelta(seconds=2))
            program.wake()
            program.wait(on_poll=lambda: program.stopping.set() if memory_and_spark.written(log, "O") else None)
        log.append([Append("sales", typed_batch([(ROW, 7_000)]))])
        with Program(log, config, clock=clock) as program:
            program.execute(script)
            program.wait(until_idle=True)
        clock.advance(timedelta(seconds=10))  # while it is not running
        with Program(log, config, clock=clock) as program:
            program.execute(script)
            program.wait(
                on_poll=lambda: program.stopping.set() if len(memory_and_spark.written(log, "O")) == 2 else None
            )
            (running,) = program.running.values()
            program.stopping.clear()
            program.wait(until_idle=True)
            assert running.progress.deadline is None
        counts = [(orjson.loads(value or b"")["N"], time) for _, value, time in memory_and_spark.written(log, "O")]
        assert counts == [(2, 1_500), (1, 7_000)]
