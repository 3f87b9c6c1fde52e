"""Statements and queries over HTTP, with queries that never start."""

from __future__ import annotations

from headrace.control.node import Node
from tests.unit.control.test_node import CLICKS, COUNTS
from tests.unit.serve.api.conftest import Client


def test_statements_are_executed_with_their_results(ask: Client) -> None:
    told = ask.done("POST", "/statements", {"text": CLICKS + COUNTS + "LIST STREAMS;"})["done"]
    assert [(one["action"], one["source"], one["query"], one["number"]) for one in told] == [
        ("create_source", "CLICKS", None, 0),
        ("create_source", "COUNTS", "CTAS_COUNTS_1", 1),
        ("metadata_query", None, None, None),
    ]
    assert [stream["name"] for stream in told[2]["answer"]["streams"]] == ["CLICKS"]
    body = {"text": "CREATE STREAM c AS SELECT * FROM ${s};", "variables": {"s": "clicks"}}
    ask.done("POST", "/statements", body | {"properties": {"auto.offset.reset": "latest"}})
    kept = ask.done("GET", "/statements")
    assert [one["number"] for one in kept] == [0, 1, 2]
    assert kept[2]["properties"] == {"auto.offset.reset": "latest"}
    assert kept[2]["failure"] is None


def test_an_error_lists_the_statements_executed_before_it(ask: Client) -> None:
    status, told = ask("POST", "/statements", {"text": CLICKS + "CREATE STREAM x AS SELECT nothing FROM clicks;"})
    assert (status, told["status"], told["code"]) == (400, 400, "column-not-found")
    assert [one["source"] for one in told["done"]] == ["CLICKS"]
    assert ask("POST", "/statements", {"text": 1})[1]["code"] == "bad-request"
    assert ask("POST", "/statements", {"text": "x;", "variables": {"a": 1}})[1]["code"] == "bad-request"
    assert ask("POST", "/statements", {"txt": "x;"})[1]["fix"] == 'did you mean "text"?'


def test_queries_are_shown_paused_resumed_restarted_and_terminated(ask: Client, node: Node) -> None:
    node.execute(CLICKS + COUNTS)
    path = "/queries/CTAS_COUNTS_1"
    assert [one["name"] for one in ask.done("GET", "/queries")] == ["CTAS_COUNTS_1"]
    told = ask.done("GET", path)
    assert (told["sink"], told["topic"], told["sources"]) == ("COUNTS", "COUNTS", ["CLICKS"])
    assert ask.done("POST", f"{path}/pause")["state"] == "paused"
    assert node.supervisor.paused == {"CTAS_COUNTS_1"}
    assert ask.done("POST", f"{path}/resume")["state"] in ("starting", "failed")
    while not (told := ask.done("GET", path))["failure"]:
        pass
    assert (told["state"], told["failure"]["code"]) == ("failed", "log-busy")
    assert told["next_try_seconds"] is not None
    assert ask.done("POST", f"{path}/restart")["name"] == "CTAS_COUNTS_1"
    assert ask("DELETE", path) == (204, None)
    assert node.supervisor.queries == {}
    assert ask.done("GET", "/status")["queries"] == []


def test_an_unknown_query_is_refused(ask: Client) -> None:
    for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/pause"), ("POST", "/resume"), ("POST", "/restart")):
        status, told = ask(method, f"/queries/nothing{path}")
        assert (status, told["code"]) == (404, "unknown-query")
