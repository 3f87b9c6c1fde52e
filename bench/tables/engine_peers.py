"""Flink, Quix Streams and Faust: each a script under bench/peers, in its own virtual environment.

A side fills the peer's input, starts the peer, and checks its results. Flink's connectors are jars, downloaded once by
their Maven coordinates like those of Spark.
"""

from __future__ import annotations

import json
import subprocess
import uuid
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.harness.case import Outcome, Work
from bench.harness.environments import interpreter
from bench.harness.process import PEERS
from bench.harness.steady import steady_rate
from bench.tables import engine_results as results
from bench.tables.engine_queries import WINDOW_SECONDS
from bench.tables.engine_rows import LEAST, PARTITIONS, expected, kafka_topic, make_topic, write_parquet
from headrace.log.kafka.jars import JarSet, fetch, installed_jars
from headrace.settings import Settings

# The newest connector is made for Flink 2.2 and runs on 2.3. Reading Parquet needs Hadoop's classes.
FLINK = JarSet(
    "flink-2.3.0",
    (
        "org.apache.flink:flink-sql-connector-kafka:5.0.0-2.2",
        "org.apache.flink:flink-sql-parquet:2.3.0",
        "org.apache.hadoop:hadoop-client-api:3.4.1",
        "org.apache.hadoop:hadoop-client-runtime:3.4.1",
    ),
    transitive=False,
    checksum_folder=Path(__file__).parent,
)


def flink_kafka(work: Work) -> Outcome:
    """JSON in Kafka to JSON in Kafka."""
    servers = work.services["kafka"]
    sizes = (work["warmup_records"], _share(work, "flink"))
    places = [(kafka_topic(servers, rows, work["users"]), _out(servers)) for rows in sizes]
    outcome = _flink(work, "kafka", places, sizes[1])
    out = places[1][1]
    results.check(work["query"], results.in_kafka(servers, out), expected(work["query"], sizes[1], work["users"]))
    steady = steady_rate(outcome.records, results.seconds_in_kafka(servers, out))
    return replace(outcome, extra={**outcome.extra, **steady})


def flink_parquet(work: Work) -> Outcome:
    """Parquet files to Parquet files; the changes of a table are discarded."""
    names = ("warming", "measured")
    places = [
        (write_parquet(work.folder / name, rows, work["users"]).as_uri(), (work.folder / f"{name}-out").as_uri())
        for name, rows in zip(names, (work["warmup_records"], work["records"]), strict=True)
    ]
    return _flink(work, "parquet", places, work["records"])


def _share(work: Work, peer: str) -> int:
    """The records that a peer reads. A slow one reads a share of them, and its steady rate is compared."""
    return round(work["records"] * work["shares"][peer])


def _flink(work: Work, source: str, places: list[tuple[str, str]], records: int) -> Outcome:
    fetch(settings := Settings(), sets=(FLINK,))
    jars = installed_jars(FLINK, settings)
    more = {
        "records": records,
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
    """The peer stops after its share of the topic's records. It times itself from the first record to the last."""
    servers, take = work.services["kafka"], _share(work, name)
    topic = kafka_topic(servers, work["records"], work["users"])
    more = {"topic": topic, "out": _out(servers), "partitions": PARTITIONS, "take": take}
    outcome = _peer(name, work, more)
    if outcome.records != take:
        raise RuntimeError(f"only {outcome.records} of {take} records were processed")
    return replace(outcome, extra={**outcome.extra, **steady_rate(outcome.records, outcome.seconds)})


def _out(servers: str) -> str:
    """A new topic for results. Its records carry the time at which the broker appended them."""
    name = f"results-{uuid.uuid4().hex[:12]}"
    make_topic(servers, name, **{"message.timestamp.type": "LogAppendTime"})
    return name


def _peer(name: str, work: Work, more: Mapping[str, Any]) -> Outcome:
    """Runs the script; if it fails, the error contains the end of its standard error."""
    given = {"settings": {**work.settings, **more}, "folder": str(work.folder), "services": dict(work.services)}
    start = [interpreter(PEERS / f"{name}.txt"), PEERS / f"{name}.py", "--json", json.dumps(given)]
    with (work.folder / f"{name}.err").open("w+") as err:
        done = subprocess.run(start, stdout=subprocess.PIPE, stderr=err, text=True, check=False, cwd=Path.cwd())
    if done.returncode:
        raise RuntimeError((work.folder / f"{name}.err").read_text()[-1500:] or f"ended with {done.returncode}")
    answer = json.loads(done.stdout.strip().splitlines()[-1])
    return Outcome(answer["records"], answer["seconds"], extra=answer["extra"])
