"""Case append-to-consumer: from the time a record should be sent until a consumer in another process holds it.

The record carries its intended send time by the monotonic clock, which all processes of the machine share.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException

from bench.harness.case import Outcome, Work
from bench.harness.latency import Schedule, SystemTimer, millis_since, send_on
from bench.harness.measure import stopwatch
from bench.harness.workers import Gate, run_workers
from bench.tables import log_kafka
from headrace.contracts import Ack, Subscription, TopicSpec
from headrace.log.embedded import EmbeddedLog
from headrace.record import Record

_TOPIC = "latency"
_STAMP = struct.Struct("<q")
_SILENCE = 20.0  # seconds without a record after which some must be lost
_FIRST = 50  # records before the schedule begins: the first ones of a process load libraries, for seconds
_LEAD = 500_000_000  # nanoseconds from the start until the first record is due


def embedded(work: Work) -> Outcome:
    with closing(EmbeddedLog(work.folder / "log")) as log:
        log.create_topic(_TOPIC, TopicSpec())
    return _run(work, _embedded, str(work.folder / "log"))


def kafka(work: Work) -> Outcome:
    topic = log_kafka.create_topic(work)
    outcome = _run(work, _kafka, work.services["kafka"], topic)
    log_kafka.delete_topic(work, topic)
    return outcome


def _run(work: Work, role: Callable[..., Any], *arguments: Any) -> Outcome:
    """Worker 0 sends, worker 1 receives, each in its own process."""
    with stopwatch() as watch:
        _, latencies = run_workers(role, 2, dict(work.settings), *arguments, processes=True)
    extra = {"cpu_seconds": watch.cpu_seconds}
    return Outcome(len(latencies), len(latencies) / work["rate"], latencies, extra)


def _embedded(index: int, gate: Gate, settings: Mapping[str, Any], path: str) -> list[float]:
    with closing(EmbeddedLog(Path(path))) as log:
        return (_embedded_send, _embedded_receive)[index](log, gate, settings)


def _embedded_send(log: EmbeddedLog, gate: Gate, settings: Mapping[str, Any]) -> list[float]:
    with closing(log.producer(ack=Ack.ALL)) as producer:
        _send(lambda value: producer.send(_TOPIC, Record(value)), producer.flush, gate, settings)
    return []


def _embedded_receive(log: EmbeddedLog, gate: Gate, settings: Mapping[str, Any]) -> list[float]:
    with closing(log.consumer("bench", Subscription((_TOPIC,)))) as reader:
        while not reader.assignment:
            reader.poll(timedelta(milliseconds=10))

        def poll() -> list[bytes]:
            return [v for batch in reader.poll(timedelta(seconds=1)) for v in batch.rows.column("value").to_pylist()]

        return _receive(poll, reader.commit, gate, settings)


def _kafka(index: int, gate: Gate, settings: Mapping[str, Any], servers: str, topic: str) -> list[float]:
    return (_kafka_send, _kafka_receive)[index](servers, topic, gate, settings)


def _kafka_send(servers: str, topic: str, gate: Gate, settings: Mapping[str, Any]) -> list[float]:
    sender = log_kafka.producer(servers, **settings["producer"])

    def send(value: bytes) -> None:
        sender.produce(topic, value=value)
        sender.poll(0)

    _send(send, sender.flush, gate, settings)
    return []


def _kafka_receive(servers: str, topic: str, gate: Gate, settings: Mapping[str, Any]) -> list[float]:
    with closing(log_kafka.consumer(servers, topic, f"{topic}-group")) as reader:

        def poll() -> list[bytes]:
            message = reader.poll(1)
            if message is None:
                return []
            if message.error():
                raise KafkaException(message.error())
            return [message.value() or b""]

        return _receive(poll, lambda: None, gate, settings)  # the client commits by itself


def _counts(settings: Mapping[str, Any]) -> tuple[int, int]:
    """All records, and those of the warm-up among them."""
    rate, warmup = settings["rate"], settings["warmup_seconds"]
    return round(rate * (warmup + settings["seconds"])), round(rate * warmup)


def _send(
    send: Callable[[bytes], object], flush: Callable[[], object], gate: Gate, settings: Mapping[str, Any]
) -> None:
    timer, rest = SystemTimer(), bytes(settings["value_bytes"] - _STAMP.size)
    for _ in range(_FIRST):
        send(_STAMP.pack(0) + rest)
        flush()
    gate.wait()
    schedule = Schedule(timer.now() + _LEAD, settings["rate"], _counts(settings)[0])
    send_on(schedule, lambda intended: send(_STAMP.pack(intended) + rest), timer)
    flush()


def _receive(
    poll: Callable[[], Sequence[bytes]], commit: Callable[[], object], gate: Gate, settings: Mapping[str, Any]
) -> list[float]:
    """Latencies after the warm-up, in order of arrival; commits once a second, as a patient consumer does."""
    total, warmup = _counts(settings)
    latencies: list[float] = []
    came = 0
    while came < _FIRST:
        came += len(poll())
    gate.wait()
    last_record_at = committed = time.monotonic()
    while len(latencies) < total:
        values = poll()
        now = time.monotonic_ns()
        latencies += [millis_since(_STAMP.unpack_from(value)[0], now) for value in values]
        last_record_at = now / 1e9 if values else last_record_at
        if now / 1e9 - last_record_at > _SILENCE:
            raise RuntimeError(f"of {total} records only {len(latencies)} came")
        if now / 1e9 - committed > 1:
            commit()
            committed = now / 1e9
    return latencies[warmup:]
