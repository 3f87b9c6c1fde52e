"""The API over running queries: reads see earlier writes through two queries; dead letters are replayed."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

from headrace.control.node import Node
from headrace.log.embedded import EmbeddedLog
from headrace.serve.application import application
from headrace.serve.http.server import Server
from tests import memory_and_spark
from tests.spark.test_node import wait_until
from tests.unit.serve.api.conftest import Client

STATEMENTS = """
CREATE STREAM orders (id INT KEY, city STRING, amount INT) WITH (kafka_topic='orders', format='JSON');
CREATE STREAM large AS SELECT * FROM orders WHERE amount > 10;
CREATE TABLE sales AS SELECT city, SUM(amount) AS total FROM large GROUP BY city;
"""


def order(number: int, amount: Any) -> dict[str, Any]:
    return {"key": str(number), "value": {"CITY": "Rom", "AMOUNT": amount}}


def test_writes_are_read_through_queries_and_dead_letters_listed(tmp_path: Path) -> None:
    settings = memory_and_spark.settings(tmp_path)
    with (
        EmbeddedLog(settings.storage.data, settings) as log,
        Node(log, settings) as node,
        Server(application(node)).running() as server,
    ):
        ask = Client(server.host, server.port)
        ask.done("POST", "/statements", {"text": STATEMENTS})
        for number in range(1, 6):
            told = ask.done("POST", "/topics/orders/records", [order(number, 100), order(number, 1)])
            path = f"/views/SALES/rows?token={quote(told['token'])}&wait=20s"
            wait_until(lambda path=path: ask("GET", path)[0] == 200)  # Spark may take longer to come up
            assert ask.done("GET", path)["rows"] == [["Rom", 100 * number]]
        queries = {query["name"]: query for query in ask.done("GET", "/queries")}
        assert {query["state"] for query in queries.values()} == {"running"}
        assert queries["CSAS_LARGE_1"]["records"] == 10
        _buried(ask)
        _, metrics, _ = ask.raw("GET", "/metrics")
        assert b'headrace_query_written_total{query="CSAS_LARGE_1"} 5.0\n' in metrics


def _buried(ask: Client) -> None:
    """A record that cannot be read."""
    path = "/dead-letters/LARGE.dead"
    ask.done("POST", "/topics/orders/records", [order(6, "many")])
    wait_until(lambda: ask.done("GET", path)["dead_letters"])
    (dead_letter,) = ask.done("GET", path)["dead_letters"]
    assert (dead_letter["code"], dead_letter["query"], dead_letter["state"]) == ("bad-record", "CSAS_LARGE_1", "open")
    assert ask.done("POST", f"{path}/0/{dead_letter['offset']}/replay")["topic"] == "orders"
    wait_until(lambda: len(ask.done("GET", f"{path}?state=all")["dead_letters"]) == 2)  # it still cannot be read
    assert len(ask.done("GET", path)["dead_letters"]) == 1
