"""Topics over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.control.node import Node
from headrace.log.embedded import EmbeddedLog
from tests.unit.control.test_node import CLICKS
from tests.unit.serve.api.conftest import Client

SCHEMA = "id bigint key, city string"


def test_a_topic_is_created_described_altered_and_deleted(ask: Client, log: EmbeddedLog) -> None:
    made = ask.done("POST", "/topics", {"name": "orders", "options": {"partitions": 2, "schema": SCHEMA}})
    assert (made["name"], made["schema"], len(made["partitions"])) == ("orders", SCHEMA, 2)
    assert made["partitions"][0] == {"partition": 0, "start": 0, "end": 0, "rows": 0, "bytes": 0}
    changes = {"retention_time": "7d", "retention_bytes": 1000, "partitions": 3}
    changed = ask.done("PATCH", "/topics/orders", {"options": changes})
    assert (changed["options"]["retention_time"], changed["options"]["retention_bytes"]) == ("1w", 1000)
    assert (
        ask.done("PATCH", "/topics/orders", {"options": {"retention_time": None}})["options"]["retention_time"] is None
    )
    assert [topic["name"] for topic in ask.done("GET", "/topics")] == ["orders"]
    assert ask("DELETE", "/topics/orders") == (204, None)
    assert log.topics() == []


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("GET", "/topics/nothing", None, 404, "unknown-topic"),
        ("DELETE", "/topics/nothing", None, 404, "unknown-topic"),
        ("GET", "/topics/__statements", None, 404, "unknown-topic"),
        ("DELETE", "/topics/__statements", None, 404, "unknown-topic"),
        ("PATCH", "/topics/__statements", {"options": {"partitions": 2}}, 404, "unknown-topic"),
        ("POST", "/topics", {"name": "__mine"}, 400, "bad-topic-name"),
        ("POST", "/topics", {"name": "a b"}, 400, "bad-topic-name"),
        ("POST", "/topics", {"name": "there"}, 409, "topic-exists"),
        ("POST", "/topics", {"name": 3}, 400, "bad-request"),
        ("POST", "/topics", {}, 400, "bad-request"),
        ("POST", "/topics", [], 400, "bad-request"),
        ("POST", "/topics", b"{", 400, "bad-request"),
        ("POST", "/topics", {"name": "x", "option": {}}, 400, "bad-request"),
        ("POST", "/topics", {"name": "x", "options": {"partitions": "2"}}, 400, "bad-topic-option"),
        ("POST", "/topics", {"name": "x", "options": {"partitions": None}}, 400, "bad-topic-option"),
        ("POST", "/topics", {"name": "x", "options": {"partitions": True}}, 400, "bad-topic-option"),
        ("POST", "/topics", {"name": "x", "options": {"partitioner": "os:system"}}, 400, "bad-topic-option"),
        ("POST", "/topics", {"name": "x", "options": {"retention_time": "soon"}}, 400, "bad-topic-option"),
        ("POST", "/topics", {"name": "x", "options": {"size": 1}}, 400, "bad-topic-option"),
        ("POST", "/topics", {"name": "x", "options": {"schema": "id nothing"}}, 400, "bad-schema"),
        ("PATCH", "/topics/there", {"options": {"schema": "id bigint key"}}, 409, "incompatible-schema"),
        ("POST", "/topics", b" " * (16 << 20) + b"{}", 413, "body-too-large"),
        ("GET", "/topicss", None, 404, "unknown-path"),
        ("PUT", "/topics", None, 405, "unknown-path"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_every_refusal_has_the_same_fields(
    ask: Client, log: EmbeddedLog, method: str, path: str, body: Any, status: int, code: str
) -> None:
    log.create_topic("there")
    answered, told = ask(method, path, body)
    assert (answered, told["status"], told["code"]) == (status, status, code)
    assert set(told) == {"code", "what", "where", "fix", "status"}
    assert [topic.name for topic in log.topics()] == ["there"]


def test_a_topic_of_a_declared_stream_is_not_deleted(ask: Client, node: Node) -> None:
    node.execute(CLICKS)
    status, told = ask("DELETE", "/topics/clicks")
    assert (status, told["code"]) == (409, "topic-in-use")
    node.execute("DROP STREAM clicks;")
    assert ask("DELETE", "/topics/clicks")[0] == 204


def test_a_request_from_another_origin_is_refused(ask: Client) -> None:
    status, told = ask("GET", "/topics", origin="http://elsewhere.example")
    assert (status, told["code"]) == (403, "foreign-origin")
    assert ask("GET", "/topics", origin=f"http://{ask.host}:{ask.port}")[0] == 200
