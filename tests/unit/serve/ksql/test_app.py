"""ksqlDB's REST interface, over a real server and a node whose queries never start."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.control.node import Node
from headrace.log.embedded import EmbeddedLog
from headrace.serve.application import application
from headrace.serve.http.server import Server
from headrace.settings import Settings
from tests.unit.control.test_node import CLICKS, COUNTS, Nowhere


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EmbeddedLog]:
    with EmbeddedLog(tmp_path / "data") as opened:
        yield opened


@pytest.fixture
def address(log: EmbeddedLog) -> Iterator[str]:
    settings = Settings.of(storage_data=log.folder)
    with Node(log, settings, isolation=Nowhere()) as node, Server(application(node)).running() as server:
        yield server.address


def asked(address: str, body: Any = None) -> tuple[int, Any]:
    data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(address, data)) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def done(address: str, text: str, **more: Any) -> list[Any]:
    status, told = asked(f"{address}/ksql", {"ksql": text, **more})
    assert status == 200, told
    return told


def test_statements_are_executed_with_their_results(address: str, log: EmbeddedLog) -> None:
    told = done(address, CLICKS + COUNTS + "SET 'ksql.output.topic.name.prefix' = 'b'; CREATE TYPE p AS STRUCT<x INT>;")
    commands = ["stream/`CLICKS`/create", "table/`COUNTS`/create", "type/`P`/create"]
    assert [one["commandId"] for one in told] == commands
    assert [one["commandStatus"]["message"] for one in told] == [
        "Stream created",
        "Created query with ID CTAS_COUNTS_1",
        "Registered custom type with name 'P'",
    ]
    assert [one["commandSequenceNumber"] for one in told] == [0, 1, 2]
    assert done(address, "INSERT INTO clicks VALUES (1, '${page}');", sessionVariables={"page": "/"}) == []
    assert log.bounds("clicks")[0].end == 1
    told = done(address, "LIST STREAMS; PAUSE CTAS_COUNTS_1; DROP TABLE counts DELETE TOPIC;")
    assert [one["@type"] for one in told] == ["streams", "currentStatus", "currentStatus"]
    assert [stream["name"] for stream in told[0]["streams"]] == ["CLICKS"]
    assert told[2]["commandStatus"]["message"] == "Source `COUNTS` (topic: COUNTS) was dropped."


def test_an_error_lists_the_statements_executed_before_it(address: str) -> None:
    status, told = asked(f"{address}/ksql", {"ksql": CLICKS + "CREATE STREAM x AS SELECT nothing FROM clicks;"})
    assert (status, told["@type"], told["error_code"]) == (400, "statement_error", 40001)
    assert told["code"] == "column-not-found"
    assert [one["commandId"] for one in told["entities"]] == ["stream/`CLICKS`/create"]
    wrong = ({"streamsProperties": [1]}, {"sessionVariables": "a"}, {"sessionVariables": [["a", "b"]]})
    for body in (b"{", b"[]", {"ksql": 3}, *({"ksql": "LIST STREAMS;", **one} for one in wrong)):
        status, told = asked(f"{address}/ksql", body)
        assert (status, told["@type"], told["code"]) == (400, "generic_error", "bad-request")
    status, told = asked(f"{address}/ksql", {"ksql": "RUN SCRIPT '/etc/hosts';"})
    assert (status, told["code"]) == (400, "unsupported")


def test_server_information_is_served(address: str) -> None:
    assert asked(f"{address}/info")[1]["KsqlServerInfo"]["serverStatus"] == "RUNNING"
    assert asked(f"{address}/healthcheck")[1]["isHealthy"] is True
    assert asked(f"{address}/clusterStatus")[1]["clusterStatus"]["server"]["hostAlive"] is True


def test_the_status_of_commands_is_served(address: str) -> None:
    done(address, CLICKS)
    status, told = asked(f"{address}/status")
    assert (status, told) == (200, {"commandStatuses": {"stream/`CLICKS`/create": "SUCCESS"}})
    status, told = asked(f"{address}/status/stream/%60CLICKS%60/create")
    assert (status, told["status"]) == (200, "SUCCESS")
    status, told = asked(f"{address}/status/stream/%60NOTHING%60/create")
    assert (status, told["code"]) == (404, "unknown-command")
