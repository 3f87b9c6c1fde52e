"""Flink, Quix Streams and Faust: each a script under bench/peers, in an environment of its own.

A side fills what the peer reads, starts it, and looks whether its results are right. Flink's connectors are jars, had
once by their Maven coordinates like those of Spark.
"""

from __future__ import annotations

import json
import subprocess
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.harness.case import Outcome, Work
from bench.harness.environments import interpreter
from bench.harness.process import PEERS
from bench.tables import engine_results as results
from bench.tables.engine_queries import WINDOW_SECONDS
from bench.tables.engine_rows import LEAST, PARTITIONS, expected, kafka_topic, make_topic, write_parquet
from headrace.log.kafka.jars import JarSet, _fetch_set  # pyright: ignore[reportPrivateUsage]
from headrace.settings import Settings

# The newest connector is made for Flink 2.2 and runs on 2.3. Reading Parquet needs Hadoop's classes.
FLINK = JarSet(
    "flink-2.3.0",
    (
        (
            "org.apache.flink:flink-sql-connector-kafka:5.0.0-2.2",
            "org.apache.flink:flink-sql-parquet:2.3.0",
            "org.apache.hadoop:hadoop-client-api:3.4.1",
            "org.apache.hadoop:hadoop-client-runtime:3.4.1",
        ),
    ),
    transitive=False,
)


def flink_kafka(work: Work) -> Outcome:
    """JSON in Kafka to JSON in Kafka."""
    servers = work.services["kafka"]
    sizes = _sizes(work)
    places = [(kafka_topic(servers, rows, work["users"]), _out(servers)) for rows in sizes]
    outcome = _flink(work, "kafka", places)
    wanted = expected(work["query"], sizes[1], work["users"])
    results.check(work["query"], results.in_kafka(servers, places[1][1]), wanted)
    return outcome


def flink_parquet(work: Work) -> Outcome:
    """Parquet files to Parquet files; a changing table goes nowhere."""
    names = ("warming", "measured")
    places = [
        (write_parquet(work.folder / name, rows, work["users"]).as_uri(), (work.folder / f"{name}-out").as_uri())
        for name, rows in zip(names, _sizes(work), strict=True)
    ]
    return _flink(work, "parquet", places)


def _sizes(work: Work) -> tuple[int, int]:
    """A slow side takes a share of the records: all are at work equally long, and a start costs all the same."""
    return work["warmup_records"], round(work["records"] * work["share"])


def _flink(work: Work, source: str, places: list[tuple[str, str]]) -> Outcome:
    jars = sorted(_fetch_set(FLINK, FLINK.folder(Settings()), lambda text: None).glob("*.jar"))
    more = {
        "records": _sizes(work)[1],
        "source": source,
        "parallelism": PARTITIONS,
        "jars": [str(jar) for jar in jars],
        "least": LEAST,
        "window": WINDOW_SECONDS,
        "warming": places[0],
        "measured": places[1],
    }
    return _peer("flink", work, more)


def quix(work: Work) -> Outcome:
    return _count("quix", work)


def faust(work: Work) -> Outcome:
    return _count("faust", work)


def _count(name: str, work: Work) -> Outcome:
    """The peer takes `share` of the topic's records: a slow one need not take all to show its rate."""
    servers, take = work.services["kafka"], round(work["records"] * work["share"])
    topic = kafka_topic(servers, work["records"], work["users"])
    more = {"topic": topic, "out": _out(servers), "partitions": PARTITIONS, "take": take}
    outcome = _peer(name, work, more)
    if outcome.records != take:
        raise RuntimeError(f"of {take} records only {outcome.records} were handled")
    return outcome


def _out(servers: str) -> str:
    """A topic of its own for results."""
    name = f"results-{uuid.uuid4().hex[:12]}"
    make_topic(servers, name)
    return name


def _peer(name: str, work: Work, more: Mapping[str, Any]) -> Outcome:
    """Run the script; what it says on standard error is said again if it fails."""
    given = {"settings": {**work.settings, **more}, "folder": str(work.folder), "services": dict(work.services)}
    start = [interpreter(PEERS / f"{name}.txt"), PEERS / f"{name}.py", "--json", json.dumps(given)]
    with (work.folder / f"{name}.err").open("w+") as err:
        done = subprocess.run(start, stdout=subprocess.PIPE, stderr=err, text=True, check=False, cwd=Path.cwd())
    if done.returncode:
        raise RuntimeError((work.folder / f"{name}.err").read_text()[-1500:] or f"ended with {done.returncode}")
    answer = json.loads(done.stdout.strip().splitlines()[-1])
    return Outcome(answer["records"], answer["seconds"], extra=answer["extra"])
