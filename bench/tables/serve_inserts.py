"""Cases insert-*: rows come over HTTP, many in each request, and are durable when they are acknowledged."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable

import pyarrow as pa

from bench.harness.case import Outcome, Work
from bench.tables.serve_http1 import Http1Connection
from bench.tables.serve_server import Server, server

_STREAM = """
CREATE STREAM orders (id STRING KEY, item STRING, amount BIGINT, price DOUBLE)
  WITH (kafka_topic='orders', format='JSON', partitions=1);
"""
ARROW = "application/vnd.apache.arrow.stream"
Send = Callable[[Http1Connection], Awaitable[None]]
"""Sends one batch and waits for its acknowledgement."""


def lines(work: Work) -> Outcome:
    """`/inserts-stream`: lines of JSON, each acknowledged."""
    rows = (_row(n) for n in range(work["batch_rows"]))
    body = b"\n".join([b'{"target": "ORDERS"}', *(json.dumps(row).encode() for row in rows)])

    async def send(connection: Http1Connection) -> None:
        response = await connection.request("/inserts-stream", body)
        if (count := response.count(b'"ok"')) != work["batch_rows"]:
            raise RuntimeError(f"{count} of {work['batch_rows']} rows were taken: {response[:500]!r}")

    return _measured(send, work)


def arrow(work: Work) -> Outcome:
    """`/api/v1/topics/orders/records`: the records of the same rows as columns."""
    rows = [_row(n) for n in range(work["batch_rows"])]
    keys = [json.dumps(row.pop("ID")).encode() for row in rows]
    batch = pa.record_batch({"key": keys, "value": [json.dumps(row).encode() for row in rows]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    body = sink.getvalue().to_pybytes()

    async def send(connection: Http1Connection) -> None:
        response = json.loads(await connection.request("/api/v1/topics/orders/records", body, ARROW))
        if response["records"] != work["batch_rows"]:
            raise RuntimeError(f"{response}")

    return _measured(send, work)


def _row(n: int) -> dict[str, object]:
    return {"ID": f"o{n}", "ITEM": f"item {n % 100}", "AMOUNT": n, "PRICE": n / 4}


def _measured(send: Send, work: Work) -> Outcome:
    with server(work.folder / "data") as target:
        target.ksql(_STREAM)
        return asyncio.run(_sent(target, send, work))


async def _sent(target: Server, send: Send, work: Work) -> Outcome:
    connections = [await Http1Connection.open(target.port) for _ in range(work["clients"])]
    await asyncio.gather(
        *(_until(send, connection, time.monotonic() + work["warmup_seconds"]) for connection in connections)
    )
    start = time.monotonic()
    counts = await asyncio.gather(*(_until(send, connection, start + work["seconds"]) for connection in connections))
    return Outcome(sum(counts) * work["batch_rows"], time.monotonic() - start)


async def _until(send: Send, connection: Http1Connection, end: float) -> int:
    count = 0
    while time.monotonic() < end:
        await send(connection)
        count += 1
    return count
