"""Table `log`: the embedded log beside Kafka on the same machine, in one run. Targets: bench/settings/log.toml."""

from __future__ import annotations

from bench.harness.case import OURS, Case, Side, Table
from bench.tables import log_append, log_fanout, log_kafka, log_latency, log_memory, log_single, log_spark

_KAFKA = ("kafka",)
_LZ4 = {"compression_type": "lz4"}
# Large batches and a little patience: what Kafka's documentation advises for throughput.
_BULK = {"linger_ms": 20, "batch_size": 1_000_000, "batch_num_messages": 100_000}
_BULK |= {"queue_buffering_max_messages": 1_000_000, "queue_buffering_max_kbytes": 1_000_000}
_AT_ONCE = {"producer": {"linger_ms": 0}}

TABLE = Table(
    "log",
    "The embedded log beside Kafka",
    (
        Case(
            "spark-scan",
            "Spark scans a typed topic; the peer scans the same rows as JSON in Kafka, by Spark's connector",
            {OURS: Side(log_spark.scan_embedded), "kafka": Side(log_spark.scan_kafka_json, needs=_KAFKA)},
            unit="rows",
        ),
        Case(
            "bulk-append",
            "records in bulk until all are acknowledged; ours are on the disk then, Kafka's in the page cache",
            {
                OURS: Side(log_append.embedded, settings={"partitions": 1, "in_flight": 3}),
                "kafka": Side(
                    log_append.kafka, needs=_KAFKA, settings={"partitions": 1, "producer": {**_BULK, **_LZ4}}
                ),
                "kafka-uncompressed": Side(
                    log_append.kafka, needs=_KAFKA, settings={"partitions": 1, "producer": _BULK}
                ),
                "ours-one-by-one": Side(log_append.embedded, settings={"partitions": 1, "in_flight": 1}),
                "ours-4-partitions": Side(log_append.embedded, settings={"partitions": 4, "in_flight": 3}),
            },
        ),
        Case(
            "single-append-threads",
            "16 producers in threads, each waits for every acknowledgement; p99 is paced, from intended send times",
            {
                OURS: Side(log_single.embedded_threads),
                "kafka": Side(log_single.kafka, needs=_KAFKA, settings={"processes": False, **_AT_ONCE}),
            },
        ),
        Case(
            "single-append-processes",
            "the same with each producer in a process of its own",
            {
                OURS: Side(log_single.embedded_processes),
                "kafka": Side(log_single.kafka, needs=_KAFKA, settings={"processes": True, **_AT_ONCE}),
            },
        ),
        Case(
            "append-to-consumer",
            "open loop: from the intended send time until a consumer in another process holds the record",
            {
                OURS: Side(log_latency.embedded),
                "kafka": Side(log_latency.kafka, needs=_KAFKA, settings=_AT_ONCE),
            },
        ),
        Case(
            "fan-out",
            "Arrow batches published once, read by 5 subscribers; rate is what was published and acknowledged",
            {OURS: Side(log_fanout.embedded)},
        ),
        Case(
            "through-5gb",
            "appended, then consumed by a group; peak_private_mb is RSS without pages of mapped files",
            {OURS: Side(log_memory.embedded)},
        ),
        Case(
            "through-spark",
            "appended, then consumed by Spark; memory of all processes but the JVM",
            {OURS: Side(log_spark.through)},
            outside=("org.apache.spark", "pyspark."),
        ),
    ),
    services={"kafka": log_kafka.kafka},
)
