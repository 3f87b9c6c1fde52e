"""Table `engine`: queries on Spark, compared with Flink, Quix Streams, Faust and hand-written PySpark in one run.

Workloads, targets and limits of memory: bench/settings/engine.toml.
"""

from __future__ import annotations

from collections.abc import Mapping

from bench.harness.case import OURS, Case, Side, Table
from bench.harness.steady import NOTE
from bench.tables import (
    engine_latency,
    engine_parquet,
    engine_peers,
    engine_program,
    engine_record,
    engine_spark,
    log_kafka,
)

_KAFKA = ("kafka",)
_QUERIES = {
    "filter": "a condition and a computed column",
    "keyed": "count and sum per user",
    "windowed": "count and sum per user and minute",
}
_PLACES: Mapping[str, tuple[str, Mapping[str, Side]]] = {
    "typed": (
        "a typed embedded topic; Flink reads the same rows as JSON in Kafka, PySpark by hand the same topic",
        {
            OURS: Side(engine_program.embedded, settings={"source": "typed"}),
            "flink": Side(engine_peers.flink_kafka, needs=_KAFKA),
            "pyspark": Side(engine_spark.embedded),
        },
    ),
    "parquet": (
        "the same Parquet files for all",
        {
            OURS: Side(engine_parquet.parquet),
            "flink": Side(engine_peers.flink_parquet),
            "pyspark": Side(engine_spark.parquet),
        },
    ),
    "kafka": (
        "JSON in Kafka, the same topic for both",
        {
            OURS: Side(engine_program.kafka, needs=_KAFKA),
            "flink": Side(engine_peers.flink_kafka, needs=_KAFKA),
        },
    ),
}


def _with(side: Side, query: str) -> Side:
    return Side(side.run, needs=side.needs, settings={**side.settings, "query": query})


def _query_cases() -> tuple[Case, ...]:
    return tuple(
        Case(f"{query}-{place}", f"{what}: {where}", {name: _with(side, query) for name, side in sides.items()})
        for place, (where, sides) in _PLACES.items()
        for query, what in _QUERIES.items()
    )


_RECORD_CASES = (
    Case(
        "count-kafka",
        "a count per key in record mode, every change written, from the same topic in Kafka",
        {
            OURS: Side(engine_program.kafka, needs=_KAFKA),
            "quix": Side(engine_peers.quix, needs=_KAFKA),
            "faust": Side(engine_peers.faust, needs=_KAFKA),
        },
    ),
    Case("count-10k-keys", "the same from a typed topic, 10,000 keys", {OURS: Side(engine_record.counted)}),
    Case(
        "count-1m-keys",
        "the same with 1,000,000 keys; small_batch_ms is from the append of 1,000 rows until their results are written",
        {OURS: Side(engine_record.counted)},
    ),
)
_LATENCY_CASES = (
    Case(
        "realtime",
        "element-wise from Kafka to Kafka by the real-time trigger, from the intended send time",
        {
            OURS: Side(engine_latency.realtime, needs=_KAFKA, settings={"query": "pass"}),
            "by-hand": Side(engine_latency.realtime_by_hand, needs=_KAFKA),
        },
    ),
    Case(
        "latency-stateless",
        "from the intended append until a consumer has the result; spark_*_ms is where a batch's time goes",
        {OURS: Side(engine_latency.micro_batch, settings={"query": "pass"})},
    ),
    Case(
        "latency-stateful",
        "the same for a table of counts",
        {OURS: Side(engine_latency.micro_batch, settings={"query": "latest"})},
    ),
)

TABLE = Table(
    "engine",
    "Queries on Spark and their peers",
    (*_query_cases(), *_RECORD_CASES, *_LATENCY_CASES),
    services={"kafka": log_kafka.kafka},
    note=NOTE,
)
