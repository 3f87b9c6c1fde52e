"""Programs on Spark: the effect of a script's statements on its queries, across restarts, with a manual clock."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.clock import ManualClock
from headrace.control.program import Program
from headrace.engine.checkpoint import Checkpoint
from headrace.errors import AssertFailed, HeadraceError, PlanChanged
from headrace.log.embedded import EmbeddedLog
from headrace.settings import Settings
from tests import memory_and_spark
from tests.faults.engine.driver_process import python_workers

NUMBERS = "CREATE STREAM numbers (id INT KEY, n INT) WITH (kafka_topic='numbers', format='JSON');\n"
SUMS = "CREATE TABLE sums AS SELECT id, SUM(n) AS total FROM numbers GROUP BY id;\n"
BIG = "CREATE STREAM big AS SELECT * FROM numbers WHERE n > 10;\n"
FINAL = (
    "CREATE TABLE final AS SELECT id, COUNT(*) AS n FROM numbers WINDOW TUMBLING (SIZE 10 SECONDS, GRACE PERIOD 0 "
    "SECONDS) GROUP BY id EMIT FINAL;\n"
)


@pytest.fixture
def log(settings: Settings) -> Iterator[EmbeddedLog]:
    with EmbeddedLog(settings.storage.data, settings) as opened:
        yield opened


def insert(*numbers: int) -> str:
    return "".join(f"INSERT INTO numbers VALUES (1, {n});\n" for n in numbers)


def values(log: EmbeddedLog, topic: str) -> list[dict | None]:
    return [json.loads(value) if value else None for _, value, _ in memory_and_spark.written(log, topic)]


def run(log: EmbeddedLog, settings: Settings, text: str, name: str = "program") -> Program:
    with Program(log, settings, name=name) as program:
        program.execute(text)
        program.wait(until_idle=True)
    return program


def test_a_program_run_again_resumes_and_repeats_no_insert(log: EmbeddedLog, settings: Settings) -> None:
    chained = NUMBERS + BIG + "CREATE TABLE count AS SELECT id, COUNT(*) AS c FROM big GROUP BY id;\n"
    first = run(log, settings, chained + insert(5, 20, 30))
    assert (first.inserts.written, first.inserts.skipped) == (3, 0)
    again = run(log, settings, chained + insert(5, 20, 30, 40))
    assert (again.inserts.written, again.inserts.skipped) == (1, 3)
    assert values(log, "COUNT") == [{"C": 1}, {"C": 2}, {"C": 3}]
    assert sum(running.progress.records for running in again.running.values()) == 2


def test_empty_topics_are_idle(log: EmbeddedLog, settings: Settings) -> None:
    program = run(log, settings, NUMBERS + BIG + SUMS)
    assert [running.progress.batches for running in program.running.values()] == [0, 0]


def test_asserts_wait_for_results(log: EmbeddedLog, settings: Settings) -> None:
    script = NUMBERS + SUMS + insert(20) + "ASSERT VALUES sums (id, total) VALUES (1, 20);\n" + insert(22)
    assert run(log, settings, script + "ASSERT VALUES sums (id, total) VALUES (1, 42);").interpreter.assertions == 2
    with pytest.raises(AssertFailed):
        run(log, settings, script + "ASSERT VALUES sums (id, total) VALUES (1, 43);")


def test_latest_starts_at_the_end_also_after_a_restart(log: EmbeddedLog, settings: Settings) -> None:
    script = NUMBERS + insert(20) + "SET 'auto.offset.reset' = 'latest';\n" + BIG
    run(log, settings, script)
    manifest = Checkpoint(settings.storage.data / "checkpoints" / "program" / "CSAS_BIG_0").manifest
    assert manifest is not None
    assert manifest.start == {"sequence": log.head(["numbers"])}
    memory_and_spark.append(log, "numbers", "1", '{"N": 30}', 0)  # while it is not running, and before its first batch
    run(log, settings, script)
    assert values(log, "BIG") == [{"N": 30}]


# -- queries that end, pause and change -----------------------------------------------------------------------------


def test_a_replaced_query_keeps_its_state(log: EmbeddedLog, settings: Settings) -> None:
    run(log, settings, NUMBERS + SUMS + insert(1, 2))
    changed = "CREATE OR REPLACE TABLE sums AS SELECT id, SUM(n) AS total FROM numbers WHERE n < 100 GROUP BY id;\n"
    for _ in range(2):  # a run that reads both statements has only the second one work
        run(log, settings, NUMBERS + SUMS + insert(1, 2) + changed + insert(500, 4))
    assert values(log, "SUMS") == [{"TOTAL": 1}, {"TOTAL": 3}, {"TOTAL": 7}]


def test_a_renamed_query_keeps_its_checkpoint(log: EmbeddedLog, settings: Settings) -> None:
    run(log, settings, NUMBERS + SUMS + insert(1))
    renamed = SUMS.replace("CREATE TABLE sums", "CREATE OR REPLACE TABLE sums WITH (QUERY_ID='newer')")
    program = run(log, settings, NUMBERS + SUMS + insert(1) + renamed + insert(4))
    assert list(program.running) == ["NEWER"]
    assert values(log, "SUMS") == [{"TOTAL": 1}, {"TOTAL": 5}]


def test_an_incompatible_plan_is_refused(log: EmbeddedLog, settings: Settings) -> None:
    run(log, settings, NUMBERS + SUMS + insert(1))
    with pytest.raises(PlanChanged, match="CTAS_SUMS_0 has changed"):
        run(log, settings, NUMBERS + SUMS.replace("SUM(n)", "MAX(n)"))
    run(log, settings, NUMBERS + SUMS + insert(1, 2))
    assert values(log, "SUMS") == [{"TOTAL": 1}, {"TOTAL": 3}]


def test_a_terminated_query_leaves_no_checkpoint_and_starts_over(log: EmbeddedLog, settings: Settings) -> None:
    with Program(log, settings) as program:
        program.execute(NUMBERS + BIG + insert(20))
        program.wait(until_idle=True)
        program.execute("TERMINATE CSAS_BIG_0; DROP STREAM big DELETE TOPIC;")
        assert not (settings.storage.data / "checkpoints" / "program" / "CSAS_BIG_0").exists()
        program.execute(BIG)  # the same id, batches that are numbered from 0 again
        program.wait(until_idle=True)
    assert values(log, "BIG") == [{"N": 20}]


def test_a_paused_query_processes_nothing(log: EmbeddedLog, settings: Settings) -> None:
    with Program(log, settings) as program:
        program.execute(NUMBERS + BIG + insert(20))
        program.wait(until_idle=True)
        program.execute("PAUSE CSAS_BIG_0;" + insert(30))
        program.wait(until_idle=True)
        assert values(log, "BIG") == [{"N": 20}]
        program.execute("RESUME CSAS_BIG_0;")
        program.wait(until_idle=True)
    assert values(log, "BIG") == [{"N": 20}, {"N": 30}]


def test_two_programs_have_separate_queries(log: EmbeddedLog, settings: Settings) -> None:
    run(log, settings, NUMBERS + BIG + insert(20), "a")
    run(log, settings, NUMBERS + BIG, "b")  # the same id, the same topics
    assert values(log, "BIG") == [{"N": 20}, {"N": 20}]


# -- ends -----------------------------------------------------------------------------------------------------------


def test_a_failed_query_stops_the_program_with_its_error(log: EmbeddedLog, settings: Settings) -> None:
    with Program(log, settings) as program:
        program.execute(NUMBERS + SUMS + BIG + insert(20))
        program.wait(until_idle=True)
        log.delete_topic("BIG")
        program.execute(insert(30))
        with pytest.raises(HeadraceError) as failed:
            program.wait()
    assert failed.value.code in ("unknown-topic", "unexpected-failure", "task-failed")
    assert not any(running.is_active for running in program.running.values())


def test_stopping_completes_the_current_batch_only(log: EmbeddedLog, tmp_path: Path, spark: SparkSession) -> None:
    settings = memory_and_spark.settings(tmp_path, query_max_batch_rows=1)
    script = NUMBERS + SUMS + insert(*range(40))
    with Program(log, settings) as program:
        program.execute(script)
        (running,) = program.running.values()
        program.wait(on_poll=lambda: program.stopping.set() if running.progress.batches else None)
    done = Checkpoint(running.folder).last_committed()
    assert running.progress.batches == done + 1  # every batch that was computed is noted as done
    assert len(values(log, "SUMS")) == running.progress.records < 40
    run(log, memory_and_spark.settings(tmp_path), script)
    assert [value and value["TOTAL"] for value in values(log, "SUMS")] == [sum(range(n + 1)) for n in range(40)]


# -- time -----------------------------------------------------------------------------------------------------------


def test_windows_close_on_idle_input_and_after_a_restart(log: EmbeddedLog, settings: Settings) -> None:
    clock = ManualClock(1_000_000_000)
    script = NUMBERS + FINAL
    with Program(log, settings, clock=clock) as program:
        program.execute(script)
        memory_and_spark.append(log, "numbers", "1", '{"N": 1}', 2_000)
        memory_and_spark.append(log, "numbers", "1", '{"N": 1}', 12_000)  # closes the first window
        program.wait(until_idle=True)
        assert values(log, "FINAL") == [{"N": 1}]
    clock.advance(timedelta(seconds=5))
    with Program(log, settings, clock=clock) as program:
        program.execute(script)
        program.wait(until_idle=True)
        assert values(log, "FINAL") == [{"N": 1}]  # event time is 17,000
        clock.advance(timedelta(seconds=3))
        program.wake()
        (running,) = program.running.values()
        program.wait(on_poll=lambda: program.stopping.set() if log.bounds("FINAL")[0].end == 2 else None)
        assert running.progress.late == 0
    assert [time for _, _, time in memory_and_spark.written(log, "FINAL")] == [2_000, 12_000]


def test_a_query_that_loses_its_processes_is_restarted(log: EmbeddedLog, settings: Settings) -> None:
    with Program(log, settings) as program:
        program.execute(NUMBERS + SUMS + insert(1))
        program.wait(until_idle=True)
        for process in python_workers(os.getpid()):
            process.kill()
        program.execute(insert(2))
        program.wait(until_idle=True)
    assert values(log, "SUMS") == [{"TOTAL": 1}, {"TOTAL": 3}]
