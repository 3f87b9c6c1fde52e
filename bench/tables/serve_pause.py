"""Case pause: a query is paused in the middle of a batch of a minute and more, while clients work on other things.

Clients pull rows, insert rows, list and describe streams, each at a fixed rate: first while the batch runs, then while
the query is asked to pause. At the end, with the batch still in progress, `headrace down` stops the server.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench.harness.case import Outcome, Work
from bench.harness.latency import SECOND, Schedule, millis_since, percentile
from bench.tables.serve_http1 import Http1Connection
from bench.tables.serve_server import PROGRAM, Server, server, until

_STATEMENTS = """
CREATE STREAM lines (id INT KEY, line STRING) WITH (kafka_topic='lines', format='JSON', partitions=1);
CREATE TABLE totals AS SELECT id, COUNT(*) AS total FROM lines GROUP BY id;
CREATE STREAM slow AS SELECT id, REGEXP_EXTRACT('(a|aa)+$', line) AS ending FROM lines;
CREATE STREAM orders (id INT KEY, amount BIGINT) WITH (kafka_topic='orders', format='JSON', partitions=1);
"""
_SLOW_LINE = "a" * 64 + "!"  # the pattern tries for half a second, its limit
_TOTAL = "SELECT * FROM totals WHERE id = 1;"


@dataclass(frozen=True)
class Kind:
    """One kind of request, sent at a rate by a client of its own."""

    path: str
    body: bytes
    rate: int


_KINDS: Mapping[str, Kind] = {
    "pull": Kind("/query-stream", b'{"sql": "%s"}' % _TOTAL.encode(), 100),
    "insert": Kind("/ksql", b'{"ksql": "INSERT INTO orders (id, amount) VALUES (1, 2);"}', 20),
    "statement": Kind("/ksql", b'{"ksql": "LIST STREAMS;"}', 10),
    "describe": Kind("/ksql", b'{"ksql": "DESCRIBE slow EXTENDED;"}', 10),
}


def pause(work: Work) -> Outcome:
    folder = work.folder / "data"
    with server(folder, query_stop_timeout="60s") as target:
        target.ksql(_STATEMENTS)
        _insert(target, "x", 1)
        until(lambda: len(target.rows(_TOTAL)) == 1, "the first row is counted")
        _begin_batch(target, work["slow_rows"])
        alone = asyncio.run(_load(target, work["seconds"]))
        beside, pause_ms = asyncio.run(_paused(target, work["seconds"]))
        down_seconds = _down(folder, work["down_seconds"])
    ratios = {f"{name}_p99_ratio": _p99(beside[name]) / _p99(alone[name]) for name in _KINDS}
    latencies = [one for values in beside.values() for one in values]
    extra = {"pause_ms": pause_ms, "p99_ratio": max(ratios.values()), "down_seconds": down_seconds, **ratios}
    return Outcome(len(latencies), work["seconds"], latencies, extra)


def _insert(target: Server, line: str, rows: int) -> None:
    target.ksql(f"INSERT INTO lines (id, line) VALUES (1, '{line}');" * rows)


def _begin_batch(target: Server, rows: int) -> None:
    before = _worker_seconds(target)
    _insert(target, _SLOW_LINE, rows)
    until(lambda: _worker_seconds(target) > before + 3.0, "the batch has begun")


def _worker_seconds(target: Server) -> float:
    """Processor time of the Python processes below the server."""
    children = psutil.Process(target.pid).children(recursive=True)
    return sum(sum(one.cpu_times()[:2]) for one in children if one.name().startswith("python"))


async def _paused(target: Server, seconds: float) -> tuple[Mapping[str, list[float]], float]:
    """The load's latencies, and the milliseconds of a PAUSE at its start."""
    (slow,) = (one["name"] for one in target.get("/api/v1/queries") if "SLOW" in one["name"])
    connection = await Http1Connection.open(target.port, {"authorization": f"Bearer {target.secret}"})

    async def paused() -> float:
        began = time.monotonic_ns()
        await connection.request("/ksql", b'{"ksql": "PAUSE %s;"}' % slow.encode())
        return millis_since(began, time.monotonic_ns())

    latencies, pause_ms = await asyncio.gather(_load(target, seconds), paused())
    state = next(one["state"] for one in target.get("/api/v1/queries") if one["name"] == slow)
    if state != "pausing":
        raise RuntimeError(f"the batch is too short: the query is {state}")
    return latencies, pause_ms


async def _load(target: Server, seconds: float) -> Mapping[str, list[float]]:
    results = await asyncio.gather(*(_client(target, kind, seconds) for kind in _KINDS.values()))
    return dict(zip(_KINDS, results, strict=True))


async def _client(target: Server, kind: Kind, seconds: float) -> list[float]:
    connection, latencies = await Http1Connection.open(target.port), list[float]()
    for intended in Schedule(time.monotonic_ns(), kind.rate, round(kind.rate * seconds)):
        await asyncio.sleep((intended - time.monotonic_ns()) / SECOND)
        await connection.request(kind.path, kind.body)
        latencies.append(millis_since(intended, time.monotonic_ns()))
    return latencies


def _p99(latencies: Sequence[float]) -> float:
    return percentile(sorted(latencies), 0.99)


def _down(folder: Path, timeout: int) -> float:
    began = time.monotonic()
    command = [sys.executable, "-c", PROGRAM, "--data", str(folder), "down", "--timeout", str(timeout)]
    subprocess.run(command, check=False, capture_output=True, timeout=10 * timeout)
    return time.monotonic() - began
