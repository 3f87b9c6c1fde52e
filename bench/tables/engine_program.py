"""Our side of table `engine`: KSQL text, run by `Program` on a log.

A first program over fewer rows warms Spark up. The second is timed, from its statements until every query has read
all its input. Each run checks that the query ran in the execution mode of its case.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from statistics import median
from typing import Any

from pyspark.sql import SparkSession

from bench.harness.case import Outcome, Work
from bench.harness.steady import Outputs
from bench.tables import engine_results as results
from bench.tables.engine_queries import script
from bench.tables.engine_rows import FILLERS, PARTITIONS, expected, kafka_topic, make_topic
from headrace.contracts import Log
from headrace.control.program import Program
from headrace.engine.spark.session import spark_session
from headrace.errors import HeadraceError
from headrace.log.embedded import EmbeddedLog
from headrace.log.kafka.jars import spark_jars
from headrace.log.kafka.log import KafkaLog
from headrace.settings import Settings, Size

_PATIENCE = 5.0  # seconds


def settings_of(work: Work, **more: Any) -> Settings:
    """The execution mode of the case (see `check_execution_mode`), and typed results where the log has them.

    In record mode every change is written, as the peers do.
    """
    sized = {"query_max_batch_rows": work["batch_rows"], "spark_driver_memory": Size(work["spark_memory_mb"] << 20)}
    mode = work["execution_mode"]
    by_mode = {
        "query_execution_mode": "auto" if mode == "native" else mode,
        "query_emit": "per-record" if mode == "record" else "per-batch",
        "query_sink_topics": "typed",
    }
    return Settings.of(
        storage_data=work.folder / "data", storage_maintenance_interval=timedelta(0), **{**sized, **by_mode, **more}
    )


def unsupported(what: str) -> None:
    """Ends the side without a figure."""
    sys.exit(f"not supported: {what}")


def embedded(work: Work) -> Outcome:
    """Over a topic of the embedded log, typed or raw as `source` says."""
    settings = settings_of(work)
    with closing(EmbeddedLog(settings.storage.data, settings)) as log:
        fill = FILLERS[work["source"]]
        fill(log, "warming", work["warmup_records"], work["users"])
        fill(log, "clicks", work["records"], work["users"])
        run(log, settings, work, "warming", "warmed")
        seconds, extra = run(log, settings, work, "clicks", "results")
        results.check(work["query"], results.in_log(log, "results"), _expected(work))
    return Outcome(work["records"], seconds, extra=extra)


def kafka(work: Work) -> Outcome:
    """Over JSON in Kafka, into Kafka."""
    servers = work.services["kafka"]
    settings = settings_of(work, storage_log="kafka", kafka_bootstrap_servers=servers)
    sizes, outs = (work["warmup_records"], work["records"]), ("warmed", "results")
    topics = [kafka_topic(servers, rows, work["users"]) for rows in sizes]
    run_id = work.folder.name
    for out in outs:
        make_topic(servers, f"{run_id}-{out}")
    spark_session(settings, "bench", jars=spark_jars(settings))
    with closing(KafkaLog(settings)) as log:
        run(log, settings, work, topics[0], f"{run_id}-warmed", PARTITIONS)
        seconds, extra = run(log, settings, work, topics[1], f"{run_id}-results", PARTITIONS)
    results.check(work["query"], results.in_kafka(servers, f"{run_id}-results"), _expected(work))
    return Outcome(work["records"], seconds, extra=extra)


def _expected(work: Work) -> int:
    return expected(work["query"], work["records"], work["users"])


def run(
    log: Log, settings: Settings, work: Work, topic: str, out: str, partitions: int = 1
) -> tuple[float, dict[str, float]]:
    """Seconds for one program over a topic; the steady rate, and the durations that Spark reports."""
    started = time.perf_counter()
    with started_program(log, settings, work, topic, out, partitions) as program:
        return finished(program, work, started)


def finished(program: Program, work: Work, started: float) -> tuple[float, dict[str, float]]:
    """Waits until the program has read all its input."""
    outputs = Outputs()
    exit_if_unsupported(
        lambda: program.wait(until_idle=True, on_poll=lambda: outputs.note(time.perf_counter(), processed(program)))
    )
    seconds = time.perf_counter() - started
    check_execution_mode(program, work["execution_mode"])
    return seconds, {**outputs.metrics(), "batches": float(batches(program)), **durations()}


def processed(program: Program) -> int:
    """Input records of the batches that are done."""
    return sum(running.progress.records for running in program.running.values())


def started_program(log: Log, settings: Settings, work: Work, topic: str, out: str, partitions: int = 1) -> Program:
    program = Program(log, settings, name=f"bench-{out}")
    exit_if_unsupported(lambda: program.execute(script(work["query"], topic, out, partitions)))
    return program


def exit_if_unsupported(action: Callable[[], object]) -> None:
    """A feature that the engine refuses as unsupported is missing; any other failure is one."""
    try:
        action()
    except HeadraceError as error:
        if error.code in ("unsupported", "not-supported"):
            unsupported(str(error))
        raise


def raise_failure(program: Program) -> None:
    """Raises the error of a query that failed."""
    for running in program.running.values():
        if (failure := running.failure()) is not None:
            raise failure


def check_execution_mode(program: Program, mode: str) -> None:
    for running in program.running.values():
        if running.execution_mode != mode:
            unsupported(f"execution mode {mode} for this query: it ran in {running.execution_mode}")


def batches(program: Program) -> int:
    return sum(running.progress.batches for running in program.running.values())


def durations() -> dict[str, float]:
    """Medians over the batches of the durations that Spark reports, in ms.

    Spark reports a batch shortly after its results are written.
    """
    deadline = time.monotonic() + _PATIENCE
    while not any(progress["numInputRows"] for progress in recent()) and time.monotonic() < deadline:
        time.sleep(0.02)
    durations_by_batch = [progress["durationMs"] for progress in recent() if progress["numInputRows"]]
    names = dict.fromkeys(name for batch in durations_by_batch for name in batch)
    return {f"spark_{name}_ms": median(batch.get(name, 0) for batch in durations_by_batch) for name in names}


def recent() -> list[Any]:
    """Spark's reports about the running queries."""
    spark = SparkSession.getActiveSession()
    return [report for query in (spark.streams.active if spark else ()) for report in query.recentProgress]
