"""Latency in table `engine`: from the time a click should be appended until a consumer has its result.

Clicks go out on a schedule (open loop) from another thread than the query. Each carries its intended time as its page.
No two clicks of a batch have the same user, so that no result combines several clicks.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import timedelta
from typing import Any

from confluent_kafka import KafkaException
from pyspark.sql import functions as fn

from bench.harness.case import Outcome, Work
from bench.harness.latency import Schedule, SystemTimer, millis_since, send_on
from bench.tables import engine_program as ours
from bench.tables import log_kafka
from bench.tables.engine_rows import SCHEMA, make_topic
from headrace.contracts import Ack, Append, Subscription, TopicSpec
from headrace.engine.spark.session import spark_session
from headrace.log.embedded import EmbeddedLog
from headrace.log.kafka.jars import spark_jars
from headrace.log.kafka.log import KafkaLog
from headrace.log.stored_rows import from_records
from headrace.record import Record
from headrace.settings import Settings

Send = Callable[[bytes, bytes], object]
Poll = Callable[[], Sequence[bytes | None]]
_SILENCE = 90.0  # seconds without a result after which some must be lost; a first batch may take long


def micro_batch(work: Work) -> Outcome:
    """Our query on the embedded log; Spark reports the durations of each batch."""
    settings = ours.settings_of(work, query_sink_topics="raw")
    with closing(EmbeddedLog(settings.storage.data, settings)) as log:
        log.create_topic("clicks", TopicSpec(schema=SCHEMA) if work["source"] == "typed" else TopicSpec())
        with ours.started_program(log, settings, work, "clicks", "results") as program:
            reader = log.consumer("bench", Subscription(("results",)))

            def send(user: bytes, value: bytes) -> None:
                log.append([Append("clicks", from_records([Record(value, user)]))], ack=Ack.ALL)

            def poll() -> list[bytes | None]:
                ours.raise_failure(program)
                batches = reader.poll(timedelta(seconds=1))
                return [value for batch in batches for value in batch.rows.column("value").to_pylist()]

            with closing(reader):
                latencies = _measured(work, send, poll)
            ours.check_execution_mode(program, work["execution_mode"])
            return Outcome(len(latencies), len(latencies) / work["rate"], latencies, ours.durations())


def realtime_by_hand(work: Work) -> Outcome:
    """Spark's real-time trigger from Kafka to Kafka, written by hand."""
    servers, name = work.services["kafka"], work.folder.name
    for topic in (f"{name}-clicks", f"{name}-results"):
        make_topic(servers, topic)
    # A slot for each source partition for as long as the query lives, beside those that Spark needs for itself.
    settings = ours.settings_of(work, spark_master="local[4]")
    spark = spark_session(settings, "bench real time", jars=spark_jars(settings))
    raw = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers)
    raw = raw.option("subscribe", f"{name}-clicks").option("startingOffsets", "earliest").load()
    click = fn.from_json(raw.value.cast("string"), "page string, amount bigint").alias("click")
    doubled = fn.to_json(fn.struct("click.page", (fn.col("click.amount") * 2).alias("doubled"))).alias("value")
    writing = raw.select("key", click).select("key", doubled).writeStream.format("kafka").outputMode("update")
    writing = writing.option("kafka.bootstrap.servers", servers).option("topic", f"{name}-results")
    writing = writing.option("checkpointLocation", str(work.folder / "checkpoint"))
    query = writing.trigger(realTime=_checkpoint_interval(settings)).start()  # pyright: ignore[reportCallIssue]
    try:
        with _kafka(servers, name) as (send, poll):
            latencies = _measured(work, send, poll)
    except Exception as error:
        raise query.exception() or error from error
    finally:
        query.stop()
    return Outcome(len(latencies), len(latencies) / work["rate"], latencies)


def _checkpoint_interval(settings: Settings) -> str:
    return f"{settings.query.realtime_checkpoint_interval.total_seconds():g} seconds"


def realtime(work: Work) -> Outcome:
    """Ours: the same as a statement, with the real-time trigger."""
    servers, name = work.services["kafka"], work.folder.name
    for topic in (f"{name}-clicks", f"{name}-results"):
        make_topic(servers, topic)
    settings = ours.settings_of(
        work,
        storage_log="kafka",
        kafka_bootstrap_servers=servers,
        query_execution_mode="realtime",
        spark_master="local[4]",
    )
    with closing(KafkaLog(settings)) as log:
        partitions = log.topic(f"{name}-clicks").partitions
        with (
            ours.started_program(log, settings, work, f"{name}-clicks", f"{name}-results", partitions) as program,
            _kafka(servers, name, lambda: ours.raise_failure(program)) as (send, poll),
        ):
            latencies = _measured(work, send, poll)
            ours.check_execution_mode(program, work["execution_mode"])
    return Outcome(len(latencies), len(latencies) / work["rate"], latencies)


@contextmanager
def _kafka(servers: str, name: str, check: Callable[[], None] = lambda: None) -> Iterator[tuple[Send, Poll]]:
    """To and from the topics of a case; while no result arrives, `check` raises the error of a query that failed."""
    sender = log_kafka.producer(servers, linger_ms=0)
    reader = log_kafka.consumer(servers, f"{name}-results", f"{name}-group")

    def send(user: bytes, value: bytes) -> None:
        sender.produce(f"{name}-clicks", value=value, key=user)
        sender.poll(0)

    def poll() -> list[bytes | None]:
        message = reader.poll(1)
        if message is None:
            check()
            return []
        if message.error():
            raise KafkaException(message.error())
        return [message.value()]

    with closing(reader):
        yield send, poll
        sender.flush()


def _measured(work: Work, send: Send, poll: Poll) -> list[float]:
    """Latencies after the warm-up, in ms. Waits for a first click, since some parts start with the first record."""
    timer = SystemTimer()
    _send(send, work, 0, 0)
    _arrived(poll, 1)
    total, warmup = round(work["rate"] * (work["warmup_seconds"] + work["seconds"])), work["warmup_seconds"]
    schedule = Schedule(timer.now(), work["rate"], total)
    numbers = iter(range(1, total + 1))
    sending = threading.Thread(
        target=send_on, args=(schedule, lambda intended: _send(send, work, next(numbers), intended), timer), daemon=True
    )
    sending.start()
    arrived = _arrived(poll, total)
    sending.join()
    return [millis_since(intended, at) for intended, at in arrived if intended >= schedule.cut(warmup)]


def _send(send: Send, work: Work, number: int, intended: int) -> None:
    send(b"user-%07d" % (number % work["users"]), b'{"page":"%d","amount":15}' % intended)


def _arrived(poll: Poll, count: int) -> list[tuple[int, int]]:
    """For each result its intended time and its arrival."""
    came: list[tuple[int, int]] = []
    last_result_at = time.monotonic()
    while len(came) < count:
        values, now = poll(), time.monotonic_ns()
        came += [(_page(json.loads(value)), now) for value in values if value is not None]
        last_result_at = now / 1e9 if values else last_result_at
        if now / 1e9 - last_result_at > _SILENCE:
            raise RuntimeError(f"of {count} results only {len(came)} came")
    return came


def _page(row: dict[str, Any]) -> int:
    return int(row.get("page") or row["PAGE"])
