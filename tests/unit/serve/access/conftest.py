"""A real server that must be told who asks, over a real log and a node whose queries never begin."""

from __future__ import annotations

import base64
import http.client
import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from headrace.access.grants import Grant
from headrace.control.node import Node
from headrace.log.embedded import EmbeddedLog
from headrace.serve.application import application
from headrace.serve.http.server import Server
from headrace.settings import Settings
from tests.unit.control.test_node import Nowhere

PASSWORD = "a long password"
DECLARED = """
CREATE STREAM ORDERS (ID INT KEY, REGION STRING) WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='JSON', PARTITIONS=1);
CREATE STREAM SECRETS (ID INT KEY, WORD STRING) WITH (KAFKA_TOPIC='secrets', VALUE_FORMAT='JSON', PARTITIONS=1);
CREATE TABLE RAW (ID INT PRIMARY KEY, REGION STRING, NAME STRING) WITH (KAFKA_TOPIC='people', VALUE_FORMAT='JSON',
  PARTITIONS=1);
CREATE SOURCE TABLE PEOPLE (ID INT PRIMARY KEY, REGION STRING, NAME STRING) WITH (KAFKA_TOPIC='people',
  VALUE_FORMAT='JSON');
CREATE STREAM COPIES AS SELECT * FROM SECRETS;
INSERT INTO ORDERS VALUES (1, 'EU'); INSERT INTO ORDERS VALUES (2, 'US'); INSERT INTO ORDERS VALUES (3, 'EU');
INSERT INTO SECRETS VALUES (1, 'rosebud');
INSERT INTO RAW VALUES (1, 'EU', 'ann'); INSERT INTO RAW VALUES (2, 'US', 'bob');
"""
GRANTS = {
    "eu": ["read source ORDERS where REGION = 'EU'", "read source PEOPLE where REGION = 'EU'"],
    "clerks": ["read source ORDERS", "read topic orders", "write topic orders"],
}


@dataclass
class Answer:
    status: int
    body: bytes
    headers: dict[str, str]

    @property
    def told(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        return self.told["code"]


@dataclass
class Person:
    """Whoever speaks to the server, with what they show."""

    port: int
    headers: dict[str, str] = field(default_factory=dict)

    def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            connection.request(method, path, content, {**self.headers, **named})
            answer = connection.getresponse()
            return Answer(answer.status, answer.read(), {k.lower(): v for k, v in answer.getheaders()})
        finally:
            connection.close()

    def rows(self, text: str, **properties: Any) -> list[Any]:
        answer = self("POST", "/query-stream", {"sql": text, "properties": properties})
        assert answer.status == 200, answer
        return [row for row in map(json.loads, answer.body.splitlines()) if isinstance(row, list)]

    def showing(self, **headers: str) -> Person:
        return replace(self, headers=headers)


@dataclass
class Place:
    node: Node
    server: Server

    @property
    def nobody(self) -> Person:
        return Person(self.server.port)

    def user(self, name: str, *roles: str) -> Person:
        """One who shows a token."""
        self.node.guard.users.add_user(name, PASSWORD, roles, by="local")
        return self.nobody.showing(authorization=f"Bearer {self.node.guard.make_token(name)[0]}")


def basic(name: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    folder = tmp_path / "data"
    with (
        EmbeddedLog(folder) as log,
        Node(log, Settings.of(storage_data=folder, auth_mode="required"), isolation=Nowhere()) as node,
    ):
        for role, grants in GRANTS.items():
            for text in grants:
                words, _, where = text.partition(" where ")
                node.guard.users.grant(role, Grant.of(*words.split(), where=where or None), by="local")
        with Server(application(node)).running() as server:
            yield Place(node, server)


@pytest.fixture
def declared(place: Place) -> Place:
    place.node.execute(DECLARED)
    return place
