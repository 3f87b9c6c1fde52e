"""Case fan-out: Arrow batches are published once and read by five subscribers, each a group of its own.

Published per second counts until the publisher has its last acknowledgement; delivered per second counts all
subscribers' records until the slowest has its last one.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import closing
from datetime import timedelta
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from bench.harness.case import Outcome, Work
from bench.harness.latency import SECOND
from bench.harness.workers import Gate, run_workers
from bench.tables.log_records import batches, pool
from headrace.contracts import Ack, Append, Consumer, Subscription, TopicSpec
from headrace.log.embedded import EmbeddedLog

_TOPIC = "fanout"
_SILENCE = 20.0  # seconds without a record after which some must be lost


def embedded(work: Work) -> Outcome:
    with closing(EmbeddedLog(work.folder / "log")) as log:
        log.create_topic(_TOPIC, TopicSpec())
        target = str(work.folder / "log") if work["processes"] else log
        crew = 1 + work["subscribers"]
        times = run_workers(_role, crew, target, dict(work.settings), str(work.folder), processes=work["processes"])
    count = _batches(work.settings) * work["batch_rows"]
    start, published = times[0]
    delivered = max(end for _, end in times[1:])
    delivered_rate = count * work["subscribers"] / ((delivered - start) / SECOND)
    return Outcome(count, (published - start) / SECOND, extra={"delivered_rate": delivered_rate})


def _batches(settings: Mapping[str, Any]) -> int:
    return settings["records"] // settings["batch_rows"]


def _role(index: int, gate: Gate, log: Any, settings: Mapping[str, Any], folder: str) -> tuple[int, int]:
    """When the worker's measured part began and ended, by the monotonic clock."""
    role = _publish if index == 0 else _subscribe
    if not isinstance(log, str):
        return role(index, gate, log, settings, folder)
    with closing(EmbeddedLog(Path(log))) as own:
        return role(index, gate, own, settings, folder)


def _publish(index: int, gate: Gate, log: EmbeddedLog, settings: Mapping[str, Any], folder: str) -> tuple[int, int]:
    pairs = pool(Work(settings, Path(folder)))
    turns = cycle([[Append(_TOPIC, rows)] for rows in batches(pairs, settings["batch_rows"])])
    for appends in islice(turns, settings["warmup_batches"]):
        log.append(appends, ack=Ack(settings["ack"]))
    gate.wait()  # until all subscribers are ready
    gate.wait()  # and have read the warm-up
    start = time.monotonic_ns()
    for appends in islice(turns, _batches(settings)):
        log.append(appends, ack=Ack(settings["ack"]))
    return start, time.monotonic_ns()


def _subscribe(index: int, gate: Gate, log: EmbeddedLog, settings: Mapping[str, Any], folder: str) -> tuple[int, int]:
    with closing(log.consumer(f"subscriber-{index}", Subscription((_TOPIC,)))) as reader:
        gate.wait()
        _read(reader, 0, settings["warmup_batches"] * settings["batch_rows"])
        gate.wait()
        start = time.monotonic_ns()
        first = settings["warmup_batches"] * settings["batch_rows"]
        _read(reader, first, first + _batches(settings) * settings["batch_rows"])
        end = time.monotonic_ns()
        reader.commit()
    return start, end


def _read(reader: Consumer, offset: int, until: int) -> None:
    """Read up to an offset; a gap or a long silence is an error, for only what was delivered may count."""
    last_rows_at = time.monotonic()
    while offset < until:
        for batch in reader.poll(timedelta(seconds=1), max_records=until - offset):
            if batch.rows.column("$offset")[0].as_py() != offset:
                raise RuntimeError(f"expected offset {offset}, got {batch.rows.column('$offset')[0]}")
            offset, last_rows_at = batch.next_offset, time.monotonic()
        if time.monotonic() - last_rows_at > _SILENCE:
            raise RuntimeError(f"nothing came after offset {offset} of {until}")
