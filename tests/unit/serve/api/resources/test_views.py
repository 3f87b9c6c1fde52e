"""Views over HTTP, and reads that wait for a write."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from headrace.control.node import Node
from tests.unit.control.test_node import CLICKS, COUNTS
from tests.unit.serve.api.conftest import Client

PRICES = (
    "CREATE SOURCE TABLE prices (id INT PRIMARY KEY, price DOUBLE) "
    "WITH (kafka_topic='prices', format='JSON', partitions=2);"
)
PATH = "/views/PRICES/rows"


@pytest.fixture(autouse=True)
def prices(node: Node) -> None:
    node.execute(PRICES)


def written(ask: Client, *rows: tuple[int, float]) -> str:
    records = [{"key": str(id), "value": {"PRICE": price}} for id, price in rows]
    return ask.done("POST", "/topics/prices/records", records)["token"]


def test_a_read_with_the_token_of_a_write_sees_the_write(ask: Client) -> None:
    for number in range(20):
        token = written(ask, (number % 3, number), (7, number))
        told = ask.done("GET", f"{PATH}?token={quote(token)}&where=ID%3D7")
        assert told["rows"] == [[7, float(number)]]
    assert told["columns"] == ["ID", "PRICE"]
    told = ask.done(
        "GET", f"{PATH}?select=id,price&where=price%3E0&order=price+desc,id+desc&limit=2&token={quote(token)}"
    )
    assert told == {"rows": [[7, 19.0], [1, 19.0]], "columns": ["ID", "PRICE"], "position": told["position"]}
    (view,) = ask.done("GET", "/views")
    assert (view["name"], view["topic"], view["columns"], view["failure"]) == (
        "PRICES",
        "prices",
        ["ID", "PRICE"],
        None,
    )
    assert view == ask.done("GET", "/views/prices")
    assert view["position"] == told["position"]


def test_a_read_that_waits_for_a_token_times_out_with_an_error(ask: Client, node: Node) -> None:
    status, told = ask("GET", f"{PATH}?token=prices/0:99&wait=0s")
    assert (status, told["code"], told["where"]) == (503, "view-lagging", "prices/0:99")
    node.execute(CLICKS + COUNTS)  # a query that never begins
    token = ask.done("POST", "/topics/clicks/records", [{"key": "1", "value": {"PAGE": "/"}}])["token"]
    status, told = ask("GET", f"/views/COUNTS/rows?token={token}&wait=100ms")
    assert (status, told["code"]) == (503, "view-lagging")
    assert "CTAS_COUNTS_2" in told["what"]
    assert ask.done("GET", "/views/COUNTS/rows?token=prices/0:1")["rows"] == []  # nothing of that leads there


def test_invalid_view_requests_are_refused(ask: Client) -> None:
    for query, status, code in (
        ("where=nothing%3D1", 400, "column-not-found"),
        ("where=id%3D1+emit+changes", 400, "bad-request"),
        ("where=id%3D1%3B+drop+table+prices", 400, None),
        ("limit=0", 400, "bad-request"),
        ("token=x", 400, "bad-position-token"),
        ("token=prices/0:0&wait=long", 400, "bad-request"),
    ):
        answered, told = ask("GET", f"{PATH}?{query}")
        assert (answered, told["code"]) == (status, code or told["code"]), query
    assert ask("GET", "/views/nothing")[1]["code"] == "unknown-view"
    assert ask("GET", "/views/nothing/rows")[0] == 404
    assert [view["name"] for view in ask.done("GET", "/views")] == ["PRICES"]
