"""Cases single-append-*: sixteen producers, each sends one record, waits for its acknowledgement, sends the next.

Two phases. As fast as it goes: the total rate, and how fairly it is shared (slowest producer over mean). Then paced:
each producer follows a schedule, and latency counts from the intended time, so that a stall counts.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

from bench.harness.case import Outcome, Work
from bench.harness.latency import SECOND, Schedule, SystemTimer, millis_since, percentiles, send_on
from bench.harness.workers import Gate, run_workers
from bench.tables import log_kafka
from bench.tables.log_records import records
from headrace.contracts import Ack, Append, TopicSpec
from headrace.log.embedded import EmbeddedLog
from headrace.record import Record

_TOPIC = "single"
_FIRST = 20  # records before anything is timed: the first ones of a process load libraries, for seconds
Send = Callable[[bytes, bytes], object]
"""Sends a key and a value, and returns when they are durable."""


@dataclass(frozen=True)
class Share:
    """What one producer did: acknowledged records, and latencies in milliseconds of both phases."""

    count: int
    closed: list[float]
    paced: list[float]


def embedded_threads(work: Work) -> Outcome:
    """All producers in one process, over one open log."""
    with closing(_log(work)) as log:
        return _outcome(run_workers(_thread, work["producers"], log, dict(work.settings), processes=False), work)


def embedded_processes(work: Work) -> Outcome:
    """Each producer in a process of its own, which opens the log for itself."""
    _log(work).close()
    arguments = (str(work.folder / "log"), dict(work.settings))
    return _outcome(run_workers(_process, work["producers"], *arguments, processes=True), work)


def kafka(work: Work) -> Outcome:
    """Producers of confluent-kafka, in threads or processes as the settings say."""
    topic = log_kafka.create_topic(work)
    arguments = (work.services["kafka"], topic, dict(work.settings))
    shares = run_workers(_kafka, work["producers"], *arguments, processes=work["processes"])
    log_kafka.delete_topic(work, topic)
    return _outcome(shares, work)


def _log(work: Work) -> EmbeddedLog:
    log = EmbeddedLog(work.folder / "log")
    log.create_topic(_TOPIC, TopicSpec())
    return log


def _thread(index: int, gate: Gate, log: EmbeddedLog, settings: Mapping[str, Any]) -> Share:
    def send(key: bytes, value: bytes) -> object:
        return log.append([Append(_TOPIC, [Record(value, key)])], ack=Ack.ALL)

    return _phases(send, index, gate, settings)


def _process(index: int, gate: Gate, path: str, settings: Mapping[str, Any]) -> Share:
    with closing(EmbeddedLog(Path(path))) as log:
        return _thread(index, gate, log, settings)


def _kafka(index: int, gate: Gate, servers: str, topic: str, settings: Mapping[str, Any]) -> Share:
    sender = log_kafka.producer(servers, **settings["producer"])
    return _phases(lambda k, v: log_kafka.send_and_wait(sender, topic, v, k), index, gate, settings)


def _phases(send: Send, index: int, gate: Gate, settings: Mapping[str, Any]) -> Share:
    pairs = records(1000, settings["value_bytes"], seed=index)
    for pair in pairs[:_FIRST]:
        send(*pair)
    gate.wait()
    closed = _closed(send, pairs, settings["warmup_seconds"], settings["seconds"])
    gate.wait()
    paced = _paced(send, pairs, index, settings)
    return Share(len(closed), closed, paced)


def _closed(send: Send, pairs: list[tuple[bytes, bytes]], warmup: float, seconds: float) -> list[float]:
    start = time.monotonic_ns()
    first, last = start + round(warmup * SECOND), start + round((warmup + seconds) * SECOND)
    turns, latencies = cycle(pairs), list[float]()
    before = start
    while before < last:
        send(*next(turns))
        now = time.monotonic_ns()
        if first <= now < last:
            latencies.append(millis_since(before, now))
        before = now
    return latencies


def _paced(send: Send, pairs: list[tuple[bytes, bytes]], index: int, settings: Mapping[str, Any]) -> list[float]:
    timer, rate = SystemTimer(), settings["paced_rate"]
    own = rate / settings["producers"]
    count = round(own * (settings["warmup_seconds"] + settings["seconds"]))
    # Producers take turns: all at the same instant would be a different, burstier load.
    schedule = Schedule(timer.now() + round(index * SECOND / rate), own, count)
    cut = schedule.cut(settings["warmup_seconds"])
    turns, latencies = cycle(pairs), list[float]()

    def send_one(intended: int) -> None:
        send(*next(turns))
        if intended >= cut:
            latencies.append(millis_since(intended, timer.now()))

    send_on(schedule, send_one, timer)
    return latencies


def _outcome(shares: list[Share], work: Work) -> Outcome:
    counts = [share.count for share in shares]
    if not any(counts):
        raise RuntimeError(f"no record was acknowledged within {work['seconds']} s")
    closed = percentiles([value for share in shares for value in share.closed])
    extra = {
        "fairness": min(counts) / statistics.mean(counts),
        "slowest_producer_rate": min(counts) / work["seconds"],
        **{f"closed_{name}": value for name, value in closed.items()},
    }
    paced = [value for share in shares for value in share.paced]
    return Outcome(sum(counts), work["seconds"], paced, extra)
