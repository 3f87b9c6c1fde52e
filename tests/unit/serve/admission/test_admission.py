from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from headrace.control.node import Node
from headrace.log.embedded import EmbeddedLog
from headrace.serve.admission.work_class import WorkClass, work_limits
from headrace.serve.api.route import AccessLevel, Route
from headrace.serve.application import application
from headrace.serve.http.server import Server
from headrace.settings import Settings
from headrace.settings.sections import ServerSettings
from tests.unit.control.test_node import Nowhere
from tests.unit.serve.api.conftest import Client
from tests.wait import wait_until

FEW = {"server_max_statements_running": 2, "server_max_queued": 4}


@contextmanager
def _blocked(folder: Path) -> Iterator[tuple[Client, threading.Event]]:
    """A server whose statements wait until the event is set."""
    with (
        EmbeddedLog(folder / "data") as log,
        Node(log, Settings.of(storage_data=log.folder, **FEW), isolation=Nowhere()) as node,
    ):
        free, execute = threading.Event(), node.execute

        def waiting(*given: Any, **named: Any) -> None:
            free.wait(60)
            execute(*given, **named)

        node.execute = waiting
        with Server(application(node)).running() as server:
            try:
                yield Client(server.host, server.port), free
            finally:
                free.set()


def _statement(client: Client, path: str) -> tuple[int, dict[str, str], bytes]:
    body = b'{"ksql": "LIST STREAMS;"}' if path == "/ksql" else b'{"text": "LIST STREAMS;"}'
    status, content, headers = client.raw("POST", path, body)
    return status, {name.lower(): value for name, value in headers.items()}, content


def test_statements_that_wait_do_not_stop_health_metrics_and_status(tmp_path: Path) -> None:
    with _blocked(tmp_path) as (client, free), ThreadPoolExecutor(20) as clients:
        sent = [clients.submit(_statement, client, "/ksql") for _ in range(20)]
        wait_until(lambda: sum(one.done() for one in sent) >= 17)  # one runs, two wait, the rest is refused
        for path in ("/healthcheck", "/metrics", "/info", "/api/v1/status", "/api/v1/topics"):
            assert client.raw("GET", path)[0] == 200, path
        assert client.raw("POST", "/query", b'{"ksql": "SELECT * FROM nothing;"}')[0] == 400
        shown = client.raw("GET", "/metrics")[1].decode()
        free.set()
        answers = [one.result() for one in sent]
    assert 'headrace_work_refused_total{class="statement"} 17.0' in shown
    assert 'headrace_work_queued{class="statement"} 2.0' in shown
    assert sorted(status for status, _, _ in answers) == [200] * 3 + [429] * 17


def test_health_checks_of_one_client_without_credentials_leave_room_for_the_others(tmp_path: Path) -> None:
    settings = Settings.of(storage_data=tmp_path / "data", auth_mode="required", server_max_queued=4)
    free = threading.Event()
    with (
        EmbeddedLog(tmp_path / "data") as log,
        Node(log, settings, isolation=Nowhere()) as node,
        Server(application(node), trusted_proxies="127.0.0.1").running() as server,
        ThreadPoolExecutor(21) as clients,
    ):
        client, topics = Client(server.host, server.port), log.topics

        def waiting() -> Any:
            free.wait(60)
            return topics()

        def health(address: str) -> int:
            return client.raw("GET", "/healthcheck", headers={"x-forwarded-for": address})[0]

        log.topics = waiting
        try:
            flood = [clients.submit(health, f"2001:db8::{number}") for number in range(20)]
            wait_until(lambda: sum(one.done() for one in flood) == 15)  # three run, two wait, the rest is refused
            other = clients.submit(health, "192.0.2.1")
        finally:
            free.set()
        assert other.result() == 200
        assert {one.result() for one in flood} == {200, 429}


@pytest.mark.parametrize("path", ["/ksql", "/api/v1/statements"])
def test_a_refusal_is_an_error_of_its_interface_and_says_when_to_come_back(tmp_path: Path, path: str) -> None:
    with _blocked(tmp_path) as (client, free), ThreadPoolExecutor(4) as clients:
        sent = [clients.submit(_statement, client, path) for _ in range(4)]
        wait_until(lambda: any(one.done() for one in sent))
        free.set()
        refused = next(answer for answer in (one.result() for one in sent) if answer[0] != 200)
    status, headers, content = refused
    assert status == 429
    assert 1 <= int(headers["retry-after"]) <= 60
    assert b'"too-many-requests"' in content
    assert (b'"error_code": 42900' in content) == (path == "/ksql")


def test_a_route_without_a_class_is_refused() -> None:
    with pytest.raises(TypeError, match="work"):
        Route("GET", "/new", lambda context: None, needs=AccessLevel.KNOWN)  # type: ignore[call-arg]


@pytest.mark.parametrize("cores", [1, 2, 64])
def test_every_class_has_room_for_two_principals(cores: int) -> None:
    limits = work_limits(ServerSettings(), cores)
    assert set(limits) == set(WorkClass)
    assert all(one.running_each < one.running for one in limits.values() if one.running > 1)
