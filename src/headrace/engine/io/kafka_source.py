"""Kafka as a Spark source: read by Spark's connector, one source over all topics, with journalled cuts.

Kafka has no order over topics and partitions. Headrace defines one when a batch is cut: within a batch rows are ordered
by (timestamp, topic, partition, offset), and batches follow each other. Spark stores each cut in its checkpoint before
it runs the batch; the cut is also written to the log, in one transaction with the batch's results, so that a replay can
repeat the cuts after the checkpoint has dropped them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.readwriter import DataFrameReader
from pyspark.sql.streaming.readwriter import DataStreamReader

from headrace.clock import SystemClock
from headrace.contracts import Batch, Log, Topic
from headrace.engine.checkpoint import cuts_topic
from headrace.engine.io.columns import arrow_schema, spark_schema, to_spark
from headrace.errors import QueryFailed
from headrace.log.folded_topic import read_records
from headrace.log.kafka.client import client_options
from headrace.log.kafka.encoding import Message
from headrace.log.kafka.log import KafkaLog
from headrace.log.kafka.transactions import PreparedPart
from headrace.log.stored_rows import from_records, prepare_rows
from headrace.log.topic_spec import ensure_topic
from headrace.record import Record
from headrace.settings import Settings

Offsets = Mapping[str, Mapping[str, int]]  # topic to partition to the next offset to read


@dataclass(frozen=True)
class Cut:
    """One batch of a query: the records between two sets of offsets."""

    batch: int
    start: Offsets
    end: Offsets


def read_stream(
    spark: SparkSession,
    settings: Settings,
    topics: Sequence[Topic],
    *,
    start: str = "earliest",
    max_rows: int | None = None,
    columns: Sequence[str] | None = None,
) -> DataFrame:
    """Reads the topics as a stream. The rows of a batch come in any order: sort by `ORDER` where it matters."""
    return _decoded(stream_messages(spark, settings, topics, start, max_rows), settings, topics, columns)


def stream_messages(
    spark: SparkSession, settings: Settings, topics: Sequence[Topic], start: str, max_rows: int | None
) -> DataFrame:
    """The topics' messages as a stream of batches, as Spark's connector returns them."""
    reader = subscribe(spark.readStream.format("kafka"), settings, topics).options(startingOffsets=start, **_FETCHING)
    if max_rows is not None:
        reader = reader.option("maxOffsetsPerTrigger", str(max_rows))
    return reader.load().drop("timestampType")


def read_cut(
    spark: SparkSession, settings: Settings, topics: Sequence[Topic], cut: Cut, columns: Sequence[str] | None = None
) -> DataFrame:
    """Reads the rows of one cut again, in order."""
    reader = subscribe(spark.read.format("kafka"), settings, topics)
    rows = reader.option("startingOffsets", json.dumps(cut.start)).option("endingOffsets", json.dumps(cut.end)).load()
    return _decoded(rows, settings, topics, columns).orderBy(*ORDER)


ORDER = ("$timestamp", "$topic", "$partition", "$offset")

_FETCHING = {
    # Tasks only fetch existing records. The connector prefetches after them, and the broker would hold that request,
    # and those of the next task behind it, for half a second.
    "kafka.fetch.max.wait.ms": "5",
    # By default the connector takes fetched records in chunks of 500, which costs a third of the time.
    "kafka.max.poll.records": "20000",
}


_Reader = TypeVar("_Reader", DataFrameReader, DataStreamReader)


def subscribe(reader: _Reader, settings: Settings, topics: Sequence[Topic]) -> _Reader:
    return reader.options(
        **{
            "kafka.bootstrap.servers": settings.kafka.bootstrap_servers,
            **{f"kafka.{name}": value for name, value in java_client_options(client_options(settings)).items()},
            "subscribe": ",".join(topic.name for topic in topics),
            "includeHeaders": "true",
            "kafka.isolation.level": "read_committed",
            "failOnDataLoss": "true",
        }
    )


def java_client_options(options: Mapping[str, str]) -> dict[str, str]:
    """Translates librdkafka's security options to those of Kafka's Java client, which Spark uses."""
    remaining = dict(options)
    java: dict[str, str] = {}
    user, password = remaining.pop("sasl.username", None), remaining.pop("sasl.password", None)
    mechanism = remaining.pop("sasl.mechanisms", None) or remaining.pop("sasl.mechanism", None)
    if mechanism:
        java["sasl.mechanism"] = mechanism
    if user is not None and password is not None:
        module = "scram.ScramLoginModule" if (mechanism or "").startswith("SCRAM") else "plain.PlainLoginModule"
        secret = password.replace("\\", "\\\\").replace('"', '\\"')
        java["sasl.jaas.config"] = (
            f'org.apache.kafka.common.security.{module} required username="{user}" password="{secret}";'
        )
    if "ssl.ca.location" in remaining:
        java |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": remaining.pop("ssl.ca.location")}
    return {**remaining, **java}


def _decoded(rows: DataFrame, settings: Settings, topics: Sequence[Topic], columns: Sequence[str] | None) -> DataFrame:
    arrow, topic_list = arrow_schema(topics, columns), list(topics)

    def decode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        log = worker_log(settings)
        for batch in batches:
            for (topic, partition), messages in to_messages(batch).items():
                opened = log.open_messages(topic, partition, messages)
                yield to_spark(Batch(topic, partition, opened, messages[-1].offset + 1), topic_list, arrow)

    return rows.mapInArrow(decode, spark_schema(topics, columns))


def to_messages(batch: pa.RecordBatch) -> dict[tuple[str, int], list[Message]]:
    """Converts the connector's rows to messages. A task mixes Kafka's partitions only in small batches."""
    by_partition: dict[tuple[str, int], list[Message]] = {}
    times = batch.column("timestamp").cast(pa.timestamp("ms", "UTC"), safe=False).cast(pa.int64()).to_pylist()
    names = ("topic", "partition", "offset", "key", "value", "headers")
    columns = [batch.column(name).to_pylist() for name in names]
    for topic, partition, offset, key, value, headers, at in zip(*columns, times, strict=True):
        pairs = [(header["key"], header["value"]) for header in headers or ()]
        by_partition.setdefault((topic, partition), []).append(Message(key, value, at, pairs, offset))
    return by_partition


@cache
def worker_log(settings: Settings) -> KafkaLog:
    """This worker process's connection; it stays open, since workers are reused."""
    return KafkaLog(settings)


class CutJournal:
    """The journal of a query's cuts: a topic of the log, written with the batches themselves (see `kafka_sink`)."""

    def __init__(self, log: Log, query: str, checkpoint: Path) -> None:
        self._log = log
        self._checkpoint = checkpoint
        self.topic = cuts_topic(query)
        ensure_topic(log, self.topic)
        self._place = log.topic(self.topic)

    def part(self, batch: int) -> PreparedPart:
        """The cut of a completed batch, to be written with it."""
        cut = {"batch": batch, "start": self._offsets(batch - 1), "end": self._offsets(batch)}
        rows = from_records([Record(json.dumps(cut).encode())])
        return PreparedPart(self._place, 0, prepare_rows(rows, self._place, SystemClock().now()))

    def _offsets(self, batch: int) -> Any:
        """Reads Spark's checkpoint: one line of offsets per source, after two lines of its own."""
        path = self._checkpoint / ("offsets" if batch >= 0 else "sources/0") / str(max(batch, 0))
        try:
            return json.loads(path.read_text().splitlines()[-1])
        except (OSError, ValueError, IndexError) as error:
            raise QueryFailed(f"the checkpoint lacks the cut of batch {batch}", where=str(path), fix=_FIX) from error

    def read(self) -> Iterator[Cut]:
        """All cuts in order."""
        for stored in read_records(self._log, self.topic):
            yield Cut(**json.loads(stored.value or b"{}"))


_FIX = "do not remove files from a checkpoint; restart the query with an empty checkpoint"
