"""Third-party clients with the real server: ksqlDB's client from PyPI (over HTTP/2), and curl."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ksqldb import KSQLdbClient

from headrace.control.node import Node
from headrace.log.embedded import EmbeddedLog
from headrace.serve.application import application
from headrace.serve.http.server import Server
from headrace.settings import Settings
from tests.unit.control.test_node import Nowhere

ORDERS = "CREATE STREAM orders (id INT KEY, item STRING) WITH (kafka_topic='orders', format='JSON', partitions=1);"
EARLIEST = {"auto.offset.reset": "earliest"}


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    with (
        EmbeddedLog(tmp_path / "data") as log,
        Node(log, Settings.of(storage_data=log.folder), isolation=Nowhere()) as node,
        Server(application(node)).running() as server,
    ):
        yield server.address


def test_the_ksqldb_client_executes_statements_and_pull_queries(address: str) -> None:
    client = KSQLdbClient(address)
    assert client.ksql(ORDERS)[0]["commandStatus"]["status"] == "SUCCESS"
    assert client.get_properties()
    told = client.inserts_stream("orders", [{"ID": n, "ITEM": f"i{n}"} for n in range(3)])
    assert [(one["status"], one["seq"]) for one in told] == [("ok", 0), ("ok", 1), ("ok", 2)]
    names, *rows = client.query_sync("SELECT * FROM orders;")
    assert names["columnNames"] == ["ID", "ITEM"]
    assert rows == [[0, "i0"], [1, "i1"], [2, "i2"]]


def test_the_ksqldb_client_runs_a_push_query(address: str) -> None:
    client = KSQLdbClient(address)
    client.ksql(ORDERS)

    async def watched() -> list[Any]:
        found: list[Any] = []
        async for line in client.query_async("SELECT item FROM orders EMIT CHANGES;", EARLIEST, timeout=None):
            found.append(line)
            if len(found) == 1:
                rows = [{"ID": n, "ITEM": f"i{n}"} for n in range(3)]
                await asyncio.to_thread(client.inserts_stream, "orders", rows)
            if len(found) == 4:
                assert await asyncio.to_thread(client.close_query, found[0]["queryId"])
        return found[1:]

    assert asyncio.run(watched()) == [["i0"], ["i1"], ["i2"]]


@pytest.mark.parametrize("version", ["--http1.1", "--http2", "--http2-prior-knowledge"])
def test_curl_executes_statements_and_queries(address: str, version: str) -> None:
    def asked(path: str, body: Any) -> str:
        command = ["curl", "-sS", "--max-time", "60", version, f"{address}{path}", "-d", json.dumps(body)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert json.loads(asked("/ksql", {"ksql": ORDERS + "INSERT INTO orders VALUES (1, 'x');"}))
    assert json.loads(asked("/query", {"ksql": "SELECT item FROM orders;"}))[1] == {"row": {"columns": ["x"]}}
    limited = {"sql": "SELECT id FROM orders EMIT CHANGES LIMIT 1;", "properties": EARLIEST}
    assert asked("/query-stream", limited).splitlines()[1] == "[1]"
