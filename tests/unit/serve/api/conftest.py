"""A real server over a real log and a node whose queries never begin."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from headrace.access.secret_files import find_local_secret
from headrace.control.node import Node
from headrace.log.embedded import EmbeddedLog
from headrace.serve.application import application
from headrace.serve.http.server import Server
from headrace.settings import Settings
from tests.unit.control.test_node import Nowhere


@dataclass
class Client:
    """With `secret`, that of the operator unless a request has other credentials."""

    host: str
    port: int
    secret: str | None = None

    def raw(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Any:
        connection = http.client.HTTPConnection(self.host, self.port, timeout=90)
        try:
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            return answer.status, answer.read(), dict(answer.getheaders())
        finally:
            connection.close()

    def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.secret is not None:
            named = {"authorization": f"Bearer {self.secret}", **named}
        status, told, _ = self.raw(method, f"/api/v1{path}", content, named)
        return status, json.loads(told) if told else None

    def done(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        status, told = self(method, path, body, **headers)
        assert status < 300, told
        return told


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EmbeddedLog]:
    with EmbeddedLog(tmp_path / "data") as opened:
        yield opened


@pytest.fixture
def node(log: EmbeddedLog) -> Iterator[Node]:
    with Node(log, Settings.of(storage_data=log.folder), isolation=Nowhere()) as node:
        yield node


@pytest.fixture
def server(node: Node) -> Iterator[Server]:
    with Server(application(node)).running() as server:
        yield server


@pytest.fixture
def ask(server: Server, node: Node) -> Client:
    return Client(server.host, server.port, find_local_secret(node.settings.storage.data))


@pytest.fixture
def anonymous(server: Server) -> Client:
    """A client of this machine without credentials."""
    return Client(server.host, server.port)
