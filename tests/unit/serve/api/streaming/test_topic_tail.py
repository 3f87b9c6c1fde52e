"""Topics followed live: server-sent events and WebSockets."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from threading import Event
from typing import Any

import pytest

from headrace.contracts import Append, TopicSpec
from headrace.log.embedded import EmbeddedLog
from headrace.record import Record
from headrace.schema import Schema
from headrace.serve.api.streaming import append_signal, page_cache, topic_tail, transport
from tests.unit.serve.api.conftest import Client
from tests.unit.serve.api.websocket_client import Socket

PATH = "/api/v1/topics/raw/tail"


@pytest.fixture(autouse=True)
def topics(log: EmbeddedLog) -> None:
    log.create_topic("raw")


def append(log: EmbeddedLog, *values: str) -> None:
    log.append([Append("raw", [Record(value.encode()) for value in values])])


Events = Callable[[], tuple[str, str, Any]]
"""Gives the next event: its name, its id, its data."""


@contextmanager
def events(ask: Client, path: str = PATH, **headers: str) -> Iterator[Events]:
    connection = http.client.HTTPConnection(ask.host, ask.port, timeout=30)
    connection.request("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    assert (answer.status, answer.getheader("content-type")) == (200, "text/event-stream; charset=utf-8")

    def following() -> tuple[str, str, Any]:
        fields = dict[str, str]()
        while (line := answer.readline().decode().rstrip("\n")) or not fields:
            name, _, text = line.partition(": ")
            fields[name] = text
        return fields.get("event", ""), fields.get("id", ""), json.loads(fields["data"])

    try:
        yield following
    finally:
        answer.close()
        connection.close()


def values(records: list[Any]) -> list[str]:
    return [record["value"] for record in records]


def test_records_arrive_when_appended_with_the_position_to_resume_from(ask: Client, log: EmbeddedLog) -> None:
    append(log, "before")
    with events(ask) as following:
        assert following() == ("position", "raw/0:1", "raw/0:1")
        append(log, "a", "b")
        name, place, records = following()
        assert (name, place, values(records)) == ("records", "raw/0:3", ["a", "b"])
    append(log, "meanwhile")
    with events(ask, last_event_id=place) as following:
        following()
        assert values(following()[2]) == ["meanwhile"]
    with events(ask, f"{PATH}?from=beginning") as following:
        following()
        assert values(following()[2]) == ["before", "a", "b", "meanwhile"]


def test_added_partitions_are_followed(ask: Client, log: EmbeddedLog) -> None:
    with events(ask) as following:
        following()
        log.alter_topic("raw", partitions=2)
        log.append([Append("raw", [Record(b"new")], 1)])
        _, place, records = following()
        assert (place, values(records)) == ("raw/0:0,raw/1:1", ["new"])


def test_many_clients_tail_a_topic_from_different_positions(ask: Client, log: EmbeddedLog) -> None:
    append(log, *"ab")
    with ExitStack() as stack:
        late = [stack.enter_context(events(ask)) for _ in range(5)]
        early = [stack.enter_context(events(ask, f"{PATH}?from=raw/0:1")) for _ in range(5)]
        for following in (*late, *early):
            following()
        assert [values(following()[2]) for following in early] == [["b"]] * 5
        for letter in "cd":
            append(log, letter)
            assert [values(following()[2]) for following in (*late, *early)] == [[letter]] * 10


def test_a_tail_ends_when_its_topic_is_recreated(ask: Client, log: EmbeddedLog) -> None:
    append(log, "a")
    with events(ask) as following:
        following()
        log.delete_topic("raw")
        log.create_topic("raw")
        append(log, "b", "c")
        name, _, told = following()
        assert (name, told["code"]) == ("error", "unknown-topic")


def test_added_columns_are_sent(ask: Client, log: EmbeddedLog) -> None:
    log.create_topic("typed", TopicSpec(schema=Schema.parse("id bigint key")))
    with events(ask, "/api/v1/topics/typed/tail") as following:
        following()
        log.alter_topic("typed", schema=Schema.parse("id bigint key, name string"))
        ask.done("POST", "/topics/typed/records", [{"id": 1, "name": "x"}])
        (row,) = following()[2]
        assert (row["id"], row["name"]) == (1, "x")


def test_records_are_sent_over_a_websocket(ask: Client, log: EmbeddedLog) -> None:
    with Socket(ask.host, ask.port, PATH) as socket:
        assert socket.message() == {"records": [], "next": "raw/0:0"}
        append(log, "a")
        told = socket.message()
        assert (values(told["records"]), told["next"]) == (["a"], "raw/0:1")
        log.delete_topic("raw")
        assert socket.message()["error"]["code"] == "unknown-topic"
        assert socket.message() is None


def test_a_websocket_is_refused_with_a_reason(ask: Client) -> None:
    with Socket(ask.host, ask.port, "/api/v1/topics/nothing/tail") as socket:
        assert (socket.status, json.loads(socket.refused)["code"]) == (404, "unknown-topic")
    with Socket(ask.host, ask.port, PATH, [("origin", "http://elsewhere.example")]) as socket:
        assert (socket.status, json.loads(socket.refused)["code"]) == (403, "foreign-origin")


def test_an_invalid_tail_is_an_error_response_and_no_event(ask: Client) -> None:
    assert ask("GET", "/topics/nothing/tail")[1]["code"] == "unknown-topic"
    assert ask("GET", "/topics/raw/tail?from=raw/0:x")[1]["code"] == "bad-position-token"


def test_a_tail_that_lags_too_far_ends_with_an_error(
    ask: Client, log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_tail, "MAX_LAG", 2)
    append(log, *"abcdef")
    monkeypatch.setattr(page_cache, "MAX_PAGE_RECORDS", 3)
    with events(ask, f"{PATH}?from=beginning") as following:  # who begins far back may take the time
        following()
        assert [values(following()[2]) for _ in range(2)] == [["a", "b", "c"], ["d", "e", "f"]]
        append(log, *"ghijklm")
        name, _, told = following()
        if name == "records":  # a page that was being looked for when they came
            assert values(told) == ["g", "h", "i"]
            name, _, told = following()
        assert (name, told["code"]) == ("error", "slow-consumer")
        assert told["where"] in ("raw/0:6", "raw/0:9")
    with events(ask) as following:
        following()
        log.truncate("raw", 0, 13)
        append(log, "n")
        assert values(following()[2]) == ["n"]
        log.delete_topic("raw")
        assert following()[2]["code"] == "unknown-topic"


def test_the_number_of_tails_is_limited(ask: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(append_signal, "MAX_READERS", 1)
    with events(ask) as following:
        following()
        status, told = ask("GET", "/topics/raw/tail")
        assert (status, told["code"]) == (503, "too-many-readers")
        _, _, headers = ask.raw("GET", PATH)
        assert headers["retry-after"] == "1"


def test_a_client_that_does_not_read_is_disconnected(
    ask: Client, log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = Event()
    monkeypatch.setattr(transport, "STALL_TIMEOUT", 0.5)
    held = topic_tail.TopicTail.pages

    async def watched(self: topic_tail.TopicTail) -> Any:
        try:
            async for page in held(self):
                yield page
        finally:
            gone.set()

    monkeypatch.setattr(topic_tail.TopicTail, "pages", watched)
    append(log, *["x" * 500_000] * 40)
    with socket.create_connection((ask.host, ask.port)) as tcp:
        tcp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        tcp.sendall(f"GET {PATH}?from=beginning HTTP/1.1\r\nHost: {ask.host}\r\n\r\n".encode())
        assert gone.wait(30)
