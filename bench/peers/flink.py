"""Flink SQL over clicks in Kafka or in Parquet files: filter, keyed count, windowed count.

Configured for speed wherever Flink has a choice: state on the heap, object reuse, mini-batches with two-phase
aggregates, windows that emit once. A first run over fewer rows warms the JVM up; the second is timed, from
the submission until the job has ended and its results are flushed.
"""

import json
import os
import sys
import time
from pathlib import Path

parameters = json.loads(sys.argv[sys.argv.index("--json") + 1])
settings, folder = parameters["settings"], Path(parameters["folder"])

from pyflink.table import EnvironmentSettings, TableEnvironment  # noqa: E402

CONFIG = {
    "parallelism.default": settings["parallelism"],
    "pipeline.jars": ";".join(Path(jar).as_uri() for jar in settings["jars"]),
    "pipeline.object-reuse": "true",
    "execution.checkpointing.interval": "10 s",
    "execution.checkpointing.dir": (folder / "checkpoints").as_uri(),
    "state.backend.type": "hashmap",
    "table.local-time-zone": "UTC",
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "1 s",
    "table.exec.mini-batch.size": "5000",
    "table.optimizer.agg-phase-strategy": "TWO_PHASE",
    "table.exec.source.idle-timeout": "1 s",
}

SOURCES = {
    "kafka": """CREATE TABLE {name} (`user` STRING, page STRING, amount BIGINT,
        `at` TIMESTAMP_LTZ(3) METADATA FROM 'timestamp', WATERMARK FOR `at` AS `at`) WITH (
        'connector' = 'kafka', 'topic' = '{place}', 'properties.bootstrap.servers' = '{servers}',
        'properties.group.id' = '{name}', 'scan.startup.mode' = 'earliest-offset',
        'scan.bounded.mode' = 'latest-offset', 'key.format' = 'raw', 'key.fields' = 'user',
        'value.format' = 'json', 'value.fields-include' = 'EXCEPT_KEY')""",
    "parquet": """CREATE TABLE {name} (`user` STRING, page STRING, amount BIGINT, `at` TIMESTAMP(3),
        WATERMARK FOR `at` AS `at`) WITH (
        'connector' = 'filesystem', 'path' = '{place}', 'format' = 'parquet',
        'parquet.utc-timezone' = 'true')""",
}

COLUMNS = {
    "filter": "`user` STRING, page STRING, amount BIGINT",
    "keyed": "`user` STRING, n BIGINT, total BIGINT, PRIMARY KEY (`user`) NOT ENFORCED",
    "windowed": "`user` STRING, started BIGINT, n BIGINT, total BIGINT",
}

QUERIES = {
    "filter": "SELECT `user`, page, amount * 2 FROM {name} WHERE amount > {least}",
    "keyed": "SELECT `user`, COUNT(*), SUM(amount) FROM {name} GROUP BY `user`",
    "windowed": """SELECT `user`, UNIX_TIMESTAMP(CAST(window_start AS STRING)), COUNT(*), SUM(amount) FROM
        TABLE(TUMBLE(TABLE {name}, DESCRIPTOR(`at`), INTERVAL '{window}' SECOND))
        GROUP BY `user`, window_start, window_end""",
}

_KAFKA_SINK = "'topic' = '{place}', 'properties.bootstrap.servers' = '{servers}'"
SINKS = {
    ("kafka", "keyed"): f"'connector' = 'upsert-kafka', {_KAFKA_SINK}, 'key.format' = 'raw', 'value.format' = 'json'",
    ("kafka", None): f"'connector' = 'kafka', {_KAFKA_SINK}, 'format' = 'json'",
    # A table that changes cannot go to files: Flink is not charged for writing it.
    ("parquet", "keyed"): "'connector' = 'blackhole'",
    ("parquet", None): "'connector' = 'filesystem', 'path' = '{place}', 'format' = 'parquet'",
}


def run(tables: TableEnvironment, name: str, place: str, out: str) -> float:
    """Seconds for one job over the input at `place`."""
    query, source = settings["query"], settings["source"]
    words = {
        "servers": parameters["services"].get("kafka", ""),
        "least": settings["least"],
        "window": settings["window"],
    }
    sink = SINKS.get((source, query)) or SINKS[source, None]
    tables.execute_sql(SOURCES[source].format(name=name, place=place, **words))
    tables.execute_sql(f"CREATE TABLE {name}_out ({COLUMNS[query]}) WITH ({sink.format(place=out, **words)})")
    started = time.perf_counter()
    tables.execute_sql(f"INSERT INTO {name}_out {QUERIES[query].format(name=name, **words)}").wait()
    return time.perf_counter() - started


tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
for key, value in CONFIG.items():
    tables.get_config().set(key, str(value))
warming = run(tables, "warming", *settings["warming"])
seconds = run(tables, "clicks", *settings["measured"])
print(json.dumps({"records": settings["records"], "seconds": seconds, "extra": {"warming_seconds": warming}}))
sys.stdout.flush()
os._exit(0)  # the gateway's threads would delay the exit
