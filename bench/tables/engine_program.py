"""Our side of table `engine`: KSQL text, run by `Program` on a log.

A first program over fewer rows warms Spark up, the second is timed: from its statements until every query has done all
there is to read. The way a query runs is asked for and looked up afterwards: a figure is never that of another way.
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
    """The way that the case asks for (`check_way` sees to it that it was), results as columns where the log has them.
    Record by record every change is sent, as peers do."""
    sized = {"query_max_batch_rows": work["batch_rows"], "spark_driver_memory": Size(work["spark_memory_mb"] << 20)}
    way = "auto" if work["way"] == "native" else work["way"]
    asked = {
        "query_execution_mode": way,
        "query_emit": "per-record" if way == "record" else "per-batch",
        "query_sink_topics": "typed",
    }
    return Settings.of(
        storage_data=work.folder / "data", storage_maintenance_interval=timedelta(0), **{**sized, **asked, **more}
    )


def not_there(what: str) -> None:
    """The side ends here, and says so: without a figure."""
    sys.exit(f"not there yet: {what}")


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
    """Seconds for one program over a topic, and where Spark says they went."""
    started = time.perf_counter()
    with started_program(log, settings, work, topic, out, partitions) as program:
        guarded(lambda: program.wait(until_idle=True))
        seconds = time.perf_counter() - started
        check_way(program, work["way"])
        return seconds, {"batches": float(batches(program)), **durations()}


def started_program(log: Log, settings: Settings, work: Work, topic: str, out: str, partitions: int = 1) -> Program:
    program = Program(log, settings, name=f"bench-{out}")
    guarded(lambda: program.execute(script(work["query"], topic, out, partitions)))
    return program


def guarded(deed: Callable[[], object]) -> None:
    """What the engine refuses in so many words is not there yet; any other failure is one."""
    try:
        deed()
    except HeadraceError as error:
        if error.code in ("unsupported", "not-supported"):
            not_there(str(error))
        raise


def look(program: Program) -> None:
    """Raises what a query has died of."""
    for running in program.running.values():
        if (failure := running.failure()) is not None:
            raise failure


def check_way(program: Program, way: str) -> None:
    for running in program.running.values():
        if running.execution_mode != way:
            not_there(f"the {way} way for this query: it ran the {running.execution_mode} way")


def batches(program: Program) -> int:
    return sum(running.progress.batches for running in program.running.values())


def durations() -> dict[str, float]:
    """Medians over the batches of what Spark says about each: where the time goes, in ms.

    Spark reports a batch a moment after its results are there.
    """
    deadline = time.monotonic() + _PATIENCE
    while not any(found["numInputRows"] for found in recent()) and time.monotonic() < deadline:
        time.sleep(0.02)
    spent = [found["durationMs"] for found in recent() if found["numInputRows"]]
    names = dict.fromkeys(name for batch in spent for name in batch)
    return {f"spark_{name}_ms": median(batch.get(name, 0) for batch in spent) for name in names}


def recent() -> list[Any]:
    """Spark's reports about the queries that run now."""
    spark = SparkSession.getActiveSession()
    return [report for query in (spark.streams.active if spark else ()) for report in query.recentProgress]
