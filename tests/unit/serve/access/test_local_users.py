"""What a client of this machine may do without credentials, while `auth.mode` is `local`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace.access.audit import read_audit
from headrace.access.secret_files import find_local_secret
from headrace.control.node import Node
from headrace.log.embedded import EmbeddedLog
from headrace.serve.application import application
from headrace.serve.http.server import Server
from headrace.settings import Settings
from tests.unit.control.test_node import Nowhere
from tests.unit.serve.access.conftest import DECLARED, PASSWORD, Person, Place

SHAPE = "(X INT KEY, Y INT) WITH (KAFKA_TOPIC='{topic}', VALUE_FORMAT='JSON', PARTITIONS=1);"


@contextmanager
def _place(folder: Path) -> Iterator[Place]:
    with (
        EmbeddedLog(folder) as log,
        Node(log, Settings.of(storage_data=folder), isolation=Nowhere()) as node,
        Server(application(node)).running() as server,
    ):
        yield Place(node, server)


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Place]:
    """A server with the default `auth.mode`, and with things of its operator."""
    with _place(tmp_path / "data") as place:
        place.node.execute(DECLARED)
        yield place


def _operator(place: Place) -> Person:
    return place.nobody.showing(authorization=f"Bearer {find_local_secret(place.node.settings.storage.data)}")


def _done(client: Person, text: str) -> None:
    answer = client("POST", "/api/v1/statements", {"text": text})
    assert answer.status == 200, answer


def _refused(client: Person, text: str) -> None:
    answer = client("POST", "/api/v1/statements", {"text": text})
    assert (answer.status, answer.told.get("code")) == (403, "secret-required"), (text, answer)
    assert "local.secret" in answer.told["fix"]


def test_a_local_user_reads_and_writes_data_and_drops_what_it_has_created(local: Place) -> None:
    client = local.nobody
    assert client("GET", "/api/v1/session").told["name"] == "anonymous"
    assert client.rows("SELECT ID FROM ORDERS;") == [[1], [2], [3]]
    _done(client, "INSERT INTO ORDERS VALUES (4, 'EU');")
    _done(client, f"CREATE STREAM MINE {SHAPE.format(topic='mine')}")
    _done(client, "CREATE TYPE ADDRESS AS STRUCT<STREET STRING>; CREATE STREAM DERIVED AS SELECT * FROM MINE;")
    query = next(name for name in local.node.catalog.queries if "DERIVED" in name)
    for verb in ("PAUSE", "RESUME"):
        _done(client, f"{verb} {query};")
    assert client("POST", f"/api/v1/queries/{query}/restart").status == 200
    _done(client, "CREATE OR REPLACE STREAM DERIVED AS SELECT X, Y, Y + 1 AS Z FROM MINE;")
    _done(client, "INSERT INTO MINE SELECT ID AS X, 1 AS Y FROM ORDERS;")
    inserting = next(name for name in local.node.catalog.queries if name.startswith("INSERT"))
    _done(client, f"TERMINATE {inserting}; TERMINATE {query}; DROP STREAM DERIVED DELETE TOPIC; DROP TYPE ADDRESS;")
    _done(client, "ALTER STREAM MINE ADD COLUMN Z INT; DROP STREAM MINE DELETE TOPIC;")
    assert "mine" not in [topic.name for topic in local.node.log.topics()]
    assert local.node.catalog.owners.keys().isdisjoint({"source MINE", "topic mine", f"query {query}"})


def test_a_local_user_changes_and_deletes_the_topics_that_such_a_user_has_created(local: Place) -> None:
    assert local.nobody("POST", "/api/v1/topics", {"name": "t"}).status == 201
    options = {"options": {"retention_time": "1h"}}
    assert local.nobody("PATCH", "/api/v1/topics/t", options).status == 200
    assert local.nobody("DELETE", "/api/v1/topics/t").status == 204
    assert _operator(local)("POST", "/api/v1/topics", {"name": "t"}).status == 201
    for method, body in (("PATCH", options), ("DELETE", None)):
        assert local.nobody(method, "/api/v1/topics/t", body).code == "secret-required"
    assert local.nobody("DELETE", "/api/v1/topics/unknown").code == "secret-required"


def test_the_owner_of_a_topic_is_known_after_a_restart_unless_it_was_created_again(tmp_path: Path) -> None:
    with _place(tmp_path / "data") as place:
        for name in ("mine", "again"):
            assert place.nobody("POST", "/api/v1/topics", {"name": name}).status == 201
    with _place(tmp_path / "data") as place:
        place.node.log.delete_topic("again")
        place.node.log.create_topic("again")
        assert place.nobody("DELETE", "/api/v1/topics/again").code == "secret-required"
        assert place.nobody("DELETE", "/api/v1/topics/mine").status == 204


def test_a_local_user_leaves_the_things_of_others(local: Place) -> None:
    query = next(name for name in local.node.catalog.queries if "COPIES" in name)
    client = local.nobody
    for text in (
        "DROP STREAM COPIES;",
        "DROP STREAM COPIES DELETE TOPIC;",
        "ALTER STREAM ORDERS ADD COLUMN Z INT;",
        "CREATE OR REPLACE STREAM COPIES AS SELECT ID, WORD, 1 AS Z FROM SECRETS;",
        f"PAUSE {query};",
        f"TERMINATE {query};",
        "CREATE NOTIFIER OPS TYPE LOG;",
    ):
        _refused(client, text)
    for method, path, body in (
        ("POST", f"/api/v1/queries/{query}/restart", None),
        ("DELETE", f"/api/v1/queries/{query}", None),
        ("DELETE", "/api/v1/topics/orders", None),
        ("PATCH", "/api/v1/topics/orders", {"options": {"partitions": 2}}),
        ("POST", "/api/v1/groups/g/reset", {"to": "end", "topics": ["orders"]}),
        ("POST", "/api/v1/apps", {"source": "import headrace"}),
        ("GET", "/api/v1/apps", None),
        ("GET", "/api/v1/users", None),
        ("POST", "/api/v1/users", {"name": "eve", "roles": ["admin"]}),
        ("POST", "/api/v1/roles/r/grants", {"privilege": "drop", "kind": "topic", "pattern": "*"}),
        ("GET", "/api/v1/audit", None),
        ("GET", "/api/v1/statements", None),
        ("GET", "/api/v1/notifiers", None),
    ):
        answer = client(method, path, body)
        assert (answer.status, answer.told.get("code")) == (403, "secret-required"), (path, answer)
    ksql = client("POST", "/ksql", {"ksql": "DROP STREAM COPIES;"})
    assert (ksql.status, ksql.told["error_code"]) == (403, 40300)
    assert query in local.node.catalog.queries


def test_what_a_local_user_builds_on_things_of_others_does_not_make_them_its_own(local: Place) -> None:
    client, operator = local.nobody, _operator(local)
    assert operator("POST", "/api/v1/topics", {"name": "theirs"}).status == 201
    _done(client, "CREATE STREAM OVER (ID INT KEY, REGION STRING) WITH (KAFKA_TOPIC='theirs', VALUE_FORMAT='JSON');")
    _refused(client, "DROP STREAM OVER DELETE TOPIC;")
    _done(client, "DROP STREAM OVER;")
    _done(client, f"CREATE STREAM MINE {SHAPE.format(topic='mine')}")
    _done(operator, "INSERT INTO MINE SELECT ID AS X, 1 AS Y FROM ORDERS;")
    theirs = next(name for name in local.node.catalog.queries if name.startswith("INSERT"))
    _refused(client, f"TERMINATE {theirs};")
    in_use = client("POST", "/api/v1/statements", {"text": "DROP STREAM MINE;"})
    assert (in_use.status, in_use.code) == (400, "source-in-use")
    _done(operator, f"TERMINATE {theirs}; CREATE STREAM D AS SELECT * FROM MINE;")
    _refused(client, "DROP STREAM D;")


def test_an_operator_may_change_everything(local: Place) -> None:
    _done(local.nobody, f"CREATE STREAM MINE {SHAPE.format(topic='mine')}")
    _done(_operator(local), "DROP STREAM MINE DELETE TOPIC; DROP STREAM COPIES DELETE TOPIC;")


def test_a_restart_and_a_compaction_of_the_journal_keep_the_owners(tmp_path: Path) -> None:
    with _place(tmp_path / "data") as place:
        place.node.execute(DECLARED)
        _done(place.nobody, f"CREATE STREAM MINE {SHAPE.format(topic='mine')} CREATE STREAM D AS SELECT * FROM MINE;")
        before = place.node.catalog.owners
        for _ in range(60):
            place.node.execute(f"CREATE STREAM T {SHAPE.format(topic='t')} DROP STREAM T;")
    with _place(tmp_path / "data") as place:
        assert place.node.catalog.owners == before
        _refused(place.nobody, "DROP STREAM COPIES;")
        _done(place.nobody, "DROP STREAM D DELETE TOPIC; DROP STREAM MINE DELETE TOPIC;")


def test_the_name_of_local_users_cannot_be_taken(local: Place) -> None:
    for name in ("anonymous", "local", "nobody"):
        answer = _operator(local)("POST", "/api/v1/users", {"name": name, "roles": ["reader"]})
        assert (answer.status, answer.code) == (400, "bad-user-name")


def test_a_page_of_another_origin_does_not_use_the_rights_of_local_users(local: Place) -> None:
    port = local.server.port
    for origin in ("http://evil.example", "null", f"http://127.0.0.1:{port + 1}", "http://127.0.0.1"):
        answer = local.nobody("POST", "/api/v1/topics", {"name": "t"}, origin=origin, content_type="text/plain")
        assert (answer.status, answer.code) == (403, "foreign-origin"), origin
    rebound = local.nobody("POST", "/api/v1/topics", {"name": "t"}, host=f"evil.example:{port}")
    assert rebound.status == 400
    same = local.nobody("POST", "/api/v1/topics", {"name": "t"}, origin=f"http://127.0.0.1:{port}")
    assert same.status == 201


def test_clients_of_a_trusted_proxy_authenticate_wherever_they_are(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with (
        EmbeddedLog(folder) as log,
        Node(log, Settings.of(storage_data=folder), isolation=Nowhere()) as node,
        Server(application(node), trusted_proxies="127.0.0.0/8").running() as server,
    ):
        place = Place(node, server)
        for headers in ({}, {"x_forwarded_for": "127.0.0.1"}, {"x_forwarded_for": "198.51.100.7"}):
            assert place.nobody("GET", "/api/v1/topics", None, **headers).status == 401
        place.node.guard.users.add_user("alice", PASSWORD, ["writer"], by="local")
        named = {"host": "data.example", "origin": "https://data.example", "x_forwarded_proto": "https"}
        login = {"user": "alice", "password": PASSWORD}
        answer = place.nobody("POST", "/api/v1/session", login, x_forwarded_for="198.51.100.7", **named)
        assert answer.status == 201
        assert "Secure" in answer.headers["set-cookie"].split("; ")
        (entry,) = [one for one in read_audit(log) if one.action == "log-in"]
        assert entry.details["address"] == "198.51.100.7"
        foreign = place.nobody("POST", "/api/v1/session", login, **named | {"origin": "https://evil.example"})
        assert (foreign.status, foreign.code) == (403, "foreign-origin")
