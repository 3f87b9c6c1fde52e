"""Case overload: clients ask for ten times what the server can do, while one user goes on as before.

That user pulls single rows at a fixed rate, and a probe asks for the server's health. First they are alone. Then come
anonymous clients without any pause: writers, pulls, heavy pulls, push queries, HTTP/2 streams that are reset at once,
and clients that read nothing of a large result. They run in processes of lower priority, a kind in each, so that the
server is measured and not its clients. Each of their requests must be answered or refused; none may wait until it times
out.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing, contextmanager, suppress
from multiprocessing import get_context
from pathlib import Path

import psutil
from h2.config import H2Configuration
from h2.connection import H2Connection

from bench.harness.case import Outcome, Work
from bench.harness.latency import SECOND, Schedule, millis_since, percentile
from bench.harness.measure import MB
from bench.tables.serve_http1 import Http1Connection, Refused
from bench.tables.serve_server import PROGRAM, Server, server, until

_STATEMENTS = """
CREATE STREAM orders (id INT KEY, text STRING) WITH (kafka_topic='orders', format='JSON', partitions=1);
CREATE SOURCE TABLE accounts (id INT PRIMARY KEY, text STRING)
  WITH (kafka_topic='accounts', format='JSON', partitions=1);
CREATE TABLE filler (id INT PRIMARY KEY, text STRING) WITH (kafka_topic='accounts', format='JSON');
"""
_PULL = b'{"sql": "SELECT * FROM accounts WHERE id = 1;"}'
_SCAN = b'{"sql": "SELECT * FROM accounts;"}'
_HEAVY = b'{"sql": "SELECT TRANSFORM(GENERATE_SERIES(1, 60), x => GENERATE_SERIES(1, 1000000)) FROM accounts;"}'
_PUSH = b'{"sql": "SELECT * FROM orders EMIT CHANGES;"}'
_INSERTS = b"\n".join([b'{"target": "ORDERS"}', *(b'{"ID": %d, "TEXT": "some text"}' % n for n in range(1_000))])
_TIMEOUT = 30.0  # seconds: a request without a response by then has timed out
_NICE = 10
OK, REFUSED, TIMED_OUT, CLOSED = "ok", "refused", "timed_out", "closed"


def overload(work: Work) -> Outcome:
    folder = work.folder / "data"
    with server(folder) as target:
        _fill(target, work["rows"])
        token = _user(folder, "steady")
        alone, _ = asyncio.run(_measured(target, token, work))
        with _memory(target) as peak_growth, ProcessPoolExecutor(len(_CROWDS), get_context("spawn")) as pool:
            crowds = [
                pool.submit(_crowd, target.port, kind, round(work[kind]), float(work["seconds"])) for kind in _CROWDS
            ]
            beside, health = asyncio.run(_measured(target, token, work))
            counts = sum((crowd.result() for crowd in crowds), Counter[str]())
            drain_seconds = _drained(target, token, alone)
        extra = {
            "health_p99_ms": _p99(health),
            "pull_p99_ms": _p99(beside),
            "pull_alone_p99_ms": _p99(alone),
            "pull_p99_ratio": _p99(beside) / _p99(alone),
            "growth_mb": peak_growth[0] / MB,
            "drain_seconds": drain_seconds,
            **{name: float(counts[name]) for name in (OK, REFUSED, TIMED_OUT, CLOSED)},
        }
    return Outcome(len(beside), work["seconds"], health, extra)


def _fill(target: Server, rows: int) -> None:
    target.ksql(_STATEMENTS)
    for start in range(0, rows, 1_000):
        lines = [
            b'{"target": "FILLER"}',
            *(b'{"ID": %d, "TEXT": "%s"}' % (n, b"x" * 100) for n in range(start, start + 1_000)),
        ]
        target.text("/inserts-stream", b"\n".join(lines).decode())
    until(lambda: bool(target.rows(f"SELECT * FROM accounts WHERE id = {rows - 1};")), "the table is filled")


def _user(folder: Path, name: str) -> str:
    """A token of a new user who may read."""
    command = [sys.executable, "-c", PROGRAM, "--data", str(folder)]
    subprocess.run(
        [*command, "user", "add", name, "--no-password", "--role", "reader"], check=True, capture_output=True
    )
    created = subprocess.run([*command, "token", "create", name], check=True, capture_output=True, text=True)
    return created.stdout.strip()


# -- the steady user ------------------------------------------------------------------------------------------------


async def _measured(target: Server, token: str, work: Work) -> tuple[list[float], list[float]]:
    """Latencies of the user's pulls, and of the probe."""
    user = await Http1Connection.open(target.port, {"authorization": f"Bearer {token}"})
    probe = await Http1Connection.open(target.port)
    return await asyncio.gather(
        _paced(lambda: user.request("/query-stream", _PULL), work["pull_rate"], work["seconds"]),
        _paced(lambda: probe.request("/healthcheck", b"", method="GET"), work["health_rate"], work["seconds"]),
    )


async def _paced(request: Callable[[], Awaitable[bytes]], rate: int, seconds: float) -> list[float]:
    latencies = list[float]()
    for intended in Schedule(time.monotonic_ns(), rate, round(rate * seconds)):
        await asyncio.sleep((intended - time.monotonic_ns()) / SECOND)
        async with asyncio.timeout(_TIMEOUT):
            await request()
        latencies.append(millis_since(intended, time.monotonic_ns()))
    return latencies


def _p99(latencies: Sequence[float]) -> float:
    return percentile(sorted(latencies), 0.99)


def _drained(target: Server, token: str, alone: Sequence[float]) -> float:
    """Seconds until the user's pulls take no longer than twice what they took before."""
    began, bound = time.monotonic(), 2 * _p99(alone)

    async def median() -> float:
        user = await Http1Connection.open(target.port, {"authorization": f"Bearer {token}"})
        return percentile(sorted(await _paced(lambda: user.request("/query-stream", _PULL), 100, 0.5)), 0.5)

    until(lambda: asyncio.run(median()) < bound, "the server has drained")
    return time.monotonic() - began


@contextmanager
def _memory(target: Server) -> Iterator[list[int]]:
    """The peak growth of the server's own memory, in bytes, at the end."""
    process, done = psutil.Process(target.pid), threading.Event()
    before, growth = process.memory_info().rss, [0]

    def watch() -> None:
        while not done.wait(0.2):
            growth[0] = max(growth[0], process.memory_info().rss - before)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield growth
    finally:
        done.set()
        thread.join()


# -- the crowd ------------------------------------------------------------------------------------------------------


_REQUESTS = {
    "writers": ("/inserts-stream", _INSERTS),
    "pulls": ("/query-stream", _PULL),
    "heavy": ("/query-stream", _HEAVY),
    "scans": ("/query-stream", _SCAN),
    "pushes": ("/query-stream", _PUSH),
}
_CROWDS = (*_REQUESTS, "resets", "slow")
"""Each in a process of its own: one that is busy with its own computing must not hold back the others."""


def _crowd(port: int, kind: str, clients: int, seconds: float) -> Counter[str]:
    os.nice(_NICE)
    return asyncio.run(_crowded(port, kind, clients, seconds))


async def _crowded(port: int, kind: str, clients: int, seconds: float) -> Counter[str]:
    counts, end = Counter[str](), time.monotonic() + seconds
    await asyncio.gather(*(_one_of(kind, port, end, counts) for _ in range(clients)))
    return counts


def _one_of(kind: str, port: int, end: float, counts: Counter[str]) -> Awaitable[None]:
    if kind == "resets":
        return _reset(port, end)
    if kind == "slow":
        return _reads_nothing(port, end)
    return _client(port, *_REQUESTS[kind], end, counts)


async def _client(port: int, path: str, body: bytes, end: float, counts: Counter[str]) -> None:
    """One request after another. A refused client comes back at once, whatever the response says."""
    while (left := end - time.monotonic()) > 0:
        counts[await _outcome(port, path, body, left)] += 1


async def _outcome(port: int, path: str, body: bytes, left: float) -> str:
    try:
        async with asyncio.timeout(_TIMEOUT if body != _PUSH else left):
            with closing(await Http1Connection.open(port)) as connection:
                await connection.request(path, body)
        return OK
    except Refused as error:
        return REFUSED if error.status in (400, 429, 503) else CLOSED
    except TimeoutError:
        return OK if body == _PUSH else TIMED_OUT
    except (OSError, asyncio.IncompleteReadError):
        return CLOSED


async def _reset(port: int, end: float) -> None:
    """Opens streams and resets them at once, a hundred at a time."""
    while time.monotonic() < end:
        with suppress(OSError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            drain = asyncio.ensure_future(reader.read())
            connection = H2Connection(H2Configuration(header_encoding=None))
            connection.initiate_connection()
            while time.monotonic() < end and not drain.done():
                _reset_streams(connection)
                writer.write(connection.data_to_send())
                await writer.drain()
            writer.close()
            drain.cancel()


def _reset_streams(connection: H2Connection) -> None:
    head = [(b":method", b"GET"), (b":path", b"/info"), (b":scheme", b"http"), (b":authority", b"127.0.0.1")]
    for _ in range(100):
        stream = connection.get_next_available_stream_id()
        connection.send_headers(stream, head, end_stream=True)
        connection.reset_stream(stream)


async def _reads_nothing(port: int, end: float) -> None:
    """Asks for the whole table and reads nothing."""
    while time.monotonic() < end:
        with suppress(OSError), closing(socket.create_connection(("127.0.0.1", port), timeout=5)) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            head = f"POST /query-stream HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {len(_SCAN)}\r\n\r\n"
            connection.sendall(head.encode() + _SCAN)
            await asyncio.sleep(min(20.0, max(0.0, end - time.monotonic())))
        await asyncio.sleep(0.1)
