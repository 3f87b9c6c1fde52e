"""Case bulk-append: records per second that are acknowledged as durable when they come in bulk."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import cycle, islice
from typing import Any

from confluent_kafka import KafkaException, Producer

from bench.harness.case import Outcome, Work
from bench.harness.measure import stopwatch
from bench.tables import log_kafka
from bench.tables.log_records import batches, pool
from headrace.contracts import Ack, Append, TopicSpec
from headrace.log.embedded import EmbeddedLog

_TOPIC = "bulk"


def embedded(work: Work) -> Outcome:
    """Arrow batches, `in_flight` at once as Kafka's client has several under way; each is acknowledged by itself."""
    turns = cycle([[Append(_TOPIC, rows)] for rows in batches(pool(work), work["batch_rows"])])
    count = work["records"] // work["batch_rows"]
    with closing(EmbeddedLog(work.folder / "log")) as log:
        log.create_topic(_TOPIC, TopicSpec(partitions=work["partitions"]))
        for appends in islice(turns, work["warmup_batches"]):
            log.append(appends, ack=Ack.ALL)
        with stopwatch() as watch, ThreadPoolExecutor(work["in_flight"]) as pipeline:
            for _ in pipeline.map(lambda appends: log.append(appends, ack=Ack.ALL), islice(turns, count)):
                pass
        stored = sum(end - start for start, end in log.bounds(_TOPIC).values())
    _check(stored, (count + work["warmup_batches"]) * work["batch_rows"])
    return Outcome(count * work["batch_rows"], watch.seconds, extra={"cpu_seconds": watch.cpu_seconds})


def kafka(work: Work) -> Outcome:
    """One producer sends the same records, pipelined as Kafka's clients do it, until all are acknowledged."""
    servers, topic = work.services["kafka"], log_kafka.create_topic(work, work["partitions"])
    turns = _messages(work)
    count = work["records"] // work["batch_rows"]
    errors: list[Any] = []
    sender = log_kafka.producer(servers, **work["producer"], delivery_report_only_error=True)
    _send(sender, topic, islice(turns, work["warmup_batches"]), errors)
    with stopwatch() as watch:
        _send(sender, topic, islice(turns, count), errors)
    _check(log_kafka.stored(servers, topic, work["partitions"]), (count + work["warmup_batches"]) * work["batch_rows"])
    log_kafka.delete_topic(work, topic)
    return Outcome(count * work["batch_rows"], watch.seconds, extra={"cpu_seconds": watch.cpu_seconds})


def _messages(work: Work) -> Iterator[list[dict[str, bytes]]]:
    messages = [{"key": key, "value": value} for key, value in pool(work)]
    rows = work["batch_rows"]
    return cycle([messages[start : start + rows] for start in range(0, len(messages) - rows + 1, rows)])


_QUEUE = 500_000  # records that may wait inside the client


def _send(sender: Producer, topic: str, turns: Iterator[list[dict[str, bytes]]], errors: list[Any]) -> None:
    def delivered(error: Any, _: Any) -> None:
        if error is not None:
            errors.append(error)

    for messages in turns:
        while len(sender) + len(messages) > _QUEUE:
            sender.poll(0.005)
        sender.produce_batch(topic, messages, on_delivery=delivered)
        sender.poll(0)
    sender.flush()
    if errors:
        raise KafkaException(errors[0])


def _check(stored: int, sent: int) -> None:
    if stored != sent:
        raise RuntimeError(f"sent {sent} records, but the log holds {stored}")
