"""Cases push-*: many clients run EMIT CHANGES while rows are appended one by one at a fixed rate.

Another process appends directly to the log. A row says when it was to be appended; latency counts from then until a
subscriber has it. A row that not every subscriber receives is an error.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from bench.harness.case import Outcome, Work
from bench.harness.latency import SECOND, Schedule, SystemTimer, millis_since, send_on
from bench.tables.serve_http1 import Http1Connection
from bench.tables.serve_server import Server, server
from headrace.contracts import Append
from headrace.log.embedded import EmbeddedLog
from headrace.record import Record

_STREAM = """
CREATE STREAM clicks (id INT KEY, page STRING, at BIGINT)
  WITH (kafka_topic='clicks', format='JSON', partitions=1);
"""
_SILENCE = 60.0


def pushed(work: Work) -> Outcome:
    with server(work.folder / "data") as target:
        target.ksql(_STREAM)
        return asyncio.run(_measured(target, work))


async def _measured(target: Server, work: Work) -> Outcome:
    numbers = [n % work["distinct_queries"] for n in range(work["subscribers"])]
    readers = [await _subscribed(target.port, number) for number in numbers]
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        loop = asyncio.get_running_loop()
        appending = loop.run_in_executor(pool, _append, str(work.folder / "data"), dict(work.settings))
        async with asyncio.timeout(work["warmup_seconds"] + work["seconds"] + _SILENCE):
            latencies = await asyncio.gather(*(_read(reader, work) for reader in readers))
        await appending
    all_latencies = [value for values in latencies for value in values]
    return Outcome(len(all_latencies), work["seconds"], all_latencies)


async def _subscribed(port: int, number: int) -> Any:
    """The parts of a response after the first, which names the columns. The result of every query is all rows."""
    connection = await Http1Connection.open(port)
    query = f"SELECT id, at FROM clicks WHERE page <> 'page {number}' EMIT CHANGES;"
    parts = connection.parts("/query-stream", json.dumps({"sql": query}).encode())
    await anext(parts)
    return parts


async def _read(parts: Any, work: Work) -> list[float]:
    """Latencies of the rows after the warm-up."""
    first, last = (round(work["rate"] * seconds) for seconds in (work["warmup_seconds"], _whole(work.settings)))
    latencies, seen = list[float](), 0
    async for part in parts:
        now = time.monotonic_ns()
        for line in part.splitlines():
            number, at = json.loads(line)
            if number != seen:
                raise RuntimeError(f"row {number} came, and {seen} was to come")
            seen += 1
            if number >= first:
                latencies.append(millis_since(at, now))
        if seen == last:
            break
    return latencies


def _whole(settings: Mapping[str, Any]) -> float:
    return settings["warmup_seconds"] + settings["seconds"]


def _append(folder: str, settings: Mapping[str, Any]) -> None:
    with closing(EmbeddedLog(Path(folder))) as log:
        timer, count = SystemTimer(), iter(range(1 << 60))

        def send(intended: int) -> None:
            number = next(count)
            value = json.dumps({"PAGE": "home", "AT": intended}).encode()
            log.append([Append("clicks", [Record(value, b"%d" % number)])])

        rate = settings["rate"]
        send_on(Schedule(timer.now() + SECOND, rate, round(rate * _whole(settings))), send, timer)
