"""Push queries as server-sent events and over a WebSocket."""

from __future__ import annotations

import http.client
import json
from urllib.parse import urlencode

import pytest

from headrace.control.node import Node
from tests.unit.serve.api.conftest import Client
from tests.unit.serve.api.websocket_client import Socket
from tests.wait import wait_until

DECLARED = (
    "CREATE STREAM clicks (page STRING KEY, n INT) WITH (kafka_topic='clicks', format='JSON', partitions=1);"
    "CREATE TABLE pages (page STRING PRIMARY KEY, n INT) WITH (kafka_topic='pages', format='JSON', partitions=1);"
)


@pytest.fixture(autouse=True)
def declared(node: Node) -> None:
    node.execute(DECLARED)


def path(text: str, **more: str) -> str:
    return f"/api/v1/watch?{urlencode({'sql': text, **more})}"


def test_rows_are_sent_over_a_websocket(ask: Client, node: Node) -> None:
    with Socket(ask.host, ask.port, path("SELECT * FROM pages EMIT CHANGES;")) as socket:
        columns = [{"name": "PAGE", "type": "STRING"}, {"name": "N", "type": "INTEGER"}]
        assert socket.message() == {"columns": columns}
        node.execute("INSERT INTO pages VALUES ('/', 1);")
        assert socket.message() == {"changes": [{"row": ["/", 1]}]}
        node.execute("DELETE FROM pages WHERE page = '/';")
        assert socket.message() == {"changes": [{"deleted": ["/", None]}]}
    node.execute("INSERT INTO pages VALUES ('/', 2);")
    wait_until(lambda: not len(node.push_queries))


def test_rows_are_sent_as_events_up_to_the_limit(ask: Client, node: Node) -> None:
    node.execute("INSERT INTO clicks VALUES ('/', 1); INSERT INTO clicks VALUES ('/', 2);")
    connection = http.client.HTTPConnection(ask.host, ask.port, timeout=60)
    connection.request("GET", path("SELECT n FROM clicks EMIT CHANGES LIMIT 2;", **{"from": "beginning"}))
    events = connection.getresponse().read().decode().split("\n\n")
    told = [json.loads(event.removeprefix("data: ")) for event in events if event]
    assert told[0] == {"columns": [{"name": "N", "type": "INTEGER"}]}
    assert [change["row"] for one in told[1:-1] for change in one["changes"]] == [[1], [2]]
    assert told[-1] == {"end": "Limit Reached"}


@pytest.mark.parametrize(
    ("text", "code"),
    [("SELECT * FROM clicks;", "bad-query"), ("SELECT * FROM nothing EMIT CHANGES;", "source-not-found")],
)
def test_invalid_push_queries_are_refused(ask: Client, text: str, code: str) -> None:
    status, told = ask("GET", path(text).removeprefix("/api/v1"))
    assert (status, told["code"]) == (400, code)
    with Socket(ask.host, ask.port, path(text)) as socket:
        assert json.loads(socket.refused)["code"] == code


def test_a_push_query_is_listed_and_can_be_ended(ask: Client, node: Node) -> None:
    with Socket(ask.host, ask.port, path("SELECT * FROM clicks EMIT CHANGES;")) as socket:
        assert "columns" in socket.message()
        status, (process,) = ask("GET", "/processes")
        assert (status, process["kind"], process["text"]) == (200, "push", "SELECT * FROM clicks EMIT CHANGES;")
        assert ask("DELETE", f"/processes/{process['id']}")[0] == 204
        wait_until(lambda: not len(node.push_queries))
    assert ask("GET", "/processes") == (200, [])
    status, told = ask("DELETE", f"/processes/{process['id']}")
    assert (status, told["code"]) == (404, "unknown-process")
