"""Case pull: clients read one row at a time of a table with many keys, over connections that stay open.

Two phases. As fast as it goes: the rate. Then paced: each client follows a schedule, and latency counts from the
intended time, so that a stall counts.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from bench.harness.case import Outcome, Work
from bench.harness.latency import SECOND, Schedule, millis_since
from bench.tables.serve_http1 import Http1Connection
from bench.tables.serve_http2 import Stream
from bench.tables.serve_server import Server, server, until
from headrace.contracts import Append, TopicSpec
from headrace.log.embedded import EmbeddedLog
from headrace.record import Record

_TABLE = """
CREATE SOURCE TABLE accounts (id STRING PRIMARY KEY, name STRING, amount BIGINT)
  WITH (kafka_topic='accounts', key_format='KAFKA', value_format='JSON');
"""
_AT_ONCE = 10_000

Request = Callable[[bytes], Awaitable[bytes]]
"""Sends a body to `/query-stream` and returns the response."""


def http1(work: Work) -> Outcome:
    with _filled(work.folder, work["keys"]) as target:
        return asyncio.run(_over_wires(target, work))


def http2(work: Work) -> Outcome:
    """All clients on one connection, each with a stream of its own."""
    with _filled(work.folder, work["keys"]) as target:
        return asyncio.run(_over_streams(target, work))


@contextmanager
def _filled(folder: Path, keys: int) -> Iterator[Server]:
    with closing(EmbeddedLog(folder / "data")) as log:
        log.create_topic("accounts", TopicSpec())
        for start in range(0, keys, _AT_ONCE):
            log.append([Append("accounts", [_record(n) for n in range(start, min(start + _AT_ONCE, keys))])])
    with server(folder / "data") as target:
        target.ksql(_TABLE)
        until(lambda: bool(target.rows(f"SELECT * FROM accounts WHERE id = 'k{keys - 1}';")), "the table is filled")
        yield target


def _record(n: int) -> Record:
    return Record(json.dumps({"NAME": f"name {n}", "AMOUNT": n}).encode(), b"k%d" % n)


async def _over_wires(target: Server, work: Work) -> Outcome:
    connections = [await Http1Connection.open(target.port) for _ in range(work["clients"])]
    return await _measured(
        [lambda body, connection=connection: connection.request("/query-stream", body) for connection in connections],
        work,
    )


async def _over_streams(target: Server, work: Work) -> Outcome:
    stream = await Stream.open(target.port)
    return await _measured([lambda body: stream.request("/query-stream", body)] * work["clients"], work)


async def _measured(requests: list[Request], work: Work) -> Outcome:
    await asyncio.gather(*(_closed(request, work["keys"], work["warmup_seconds"]) for request in requests))
    counts = await asyncio.gather(*(_closed(request, work["keys"], work["seconds"]) for request in requests))
    start = time.monotonic_ns()
    paced = await asyncio.gather(*(_paced(request, i, start, work) for i, request in enumerate(requests)))
    return Outcome(sum(counts), work["seconds"], [value for values in paced for value in values])


async def _closed(request: Request, keys: int, seconds: float) -> int:
    end, count = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        await _pull(request, keys)
        count += 1
    return count


async def _paced(request: Request, index: int, start: int, work: Work) -> list[float]:
    """Clients take turns."""
    rate, latencies = work["paced_rate"], list[float]()
    own = rate / work["clients"]
    for intended in Schedule(start + round(index * SECOND / rate), own, round(own * work["seconds"])):
        await asyncio.sleep((intended - time.monotonic_ns()) / SECOND)
        await _pull(request, work["keys"])
        latencies.append(millis_since(intended, time.monotonic_ns()))
    return latencies


async def _pull(request: Request, keys: int) -> None:
    n = random.randrange(keys)
    answer = await request(b'{"sql":"SELECT * FROM accounts WHERE id = \'k%d\';"}' % n)
    if b'\n["k%d",' % n not in answer:
        raise RuntimeError(f"key k{n} is not in the answer: {answer.decode()}")
