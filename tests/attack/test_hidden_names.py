"""Attacks by a user who tries to learn from errors what is hidden: each is the error of a name that does not exist."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from headrace.lang.ksql import ast
from headrace.lang.ksql.grammar.parser import parse_one
from tests.attack.server import AttackedServer
from tests.wait import wait_until

_MADE = """
CREATE STREAM orders (id INT KEY, city STRING) WITH (KAFKA_TOPIC='orders', FORMAT='JSON', PARTITIONS=1);
CREATE STREAM my_orders (id INT KEY, city STRING) WITH (KAFKA_TOPIC='MY_ORDERS', FORMAT='JSON', PARTITIONS=1);
CREATE STREAM secrets (id INT KEY, word STRING) WITH (KAFKA_TOPIC='vault', FORMAT='JSON', PARTITIONS=3);
CREATE TABLE ledgers (id INT PRIMARY KEY, word STRING) WITH (KAFKA_TOPIC='books', FORMAT='JSON', PARTITIONS=1);
CREATE STREAM covered WITH (QUERY_ID='hushed') AS SELECT id, word FROM secrets;
CREATE ALERT whisper ON secrets WHEN id > 3;
"""
_GRANTS = ("read source ORDERS", "read topic orders", "create source MY_*", "write source MY_*")
_HIDDEN = {"s": "SECRETS", "t": "LEDGERS", "q": "HUSHED", "a": "WHISPER", "v": "vault"}
_UNKNOWN = {"s": "NOTHING", "t": "NOWHERE", "q": "ABSENT", "a": "SILENCE", "v": "empty"}
_DECLARED = "(id INT KEY) WITH (KAFKA_TOPIC='{v}', FORMAT='JSON')"
_STATEMENTS = (
    "SELECT * FROM {s};",
    "SELECT nocolumn FROM {s} EMIT CHANGES;",
    "SELECT nocolumn FROM {t} WHERE id = 1;",
    "SELECT o.id FROM orders o JOIN {s} x WITHIN 1 DAY ON o.id = x.nocolumn EMIT CHANGES;",
    "SELECT o.id FROM orders o JOIN {t} x ON o.id = x.id EMIT CHANGES;",
    "SELECT x.id FROM (SELECT * FROM {s}) x EMIT CHANGES;",
    "SELECT * FROM `{s}`;",
    "CREATE STREAM my_copy AS SELECT nocolumn FROM {s};",
    "CREATE STREAM my_copy WITH (KAFKA_TOPIC='{v}') AS SELECT * FROM orders;",
    "CREATE STREAM my_copy WITH (QUERY_ID='{q}') AS SELECT * FROM {s};",
    "CREATE OR REPLACE STREAM {s} AS SELECT * FROM orders;",
    "CREATE TABLE {s} AS SELECT id, COUNT(*) FROM orders GROUP BY id;",
    f"CREATE STREAM {{s}} {_DECLARED};",
    f"CREATE STREAM IF NOT EXISTS {{s}} {_DECLARED};",
    f"CREATE OR REPLACE STREAM {{s}} {_DECLARED};",
    f"CREATE OR REPLACE TABLE {{t}} {_DECLARED};",
    f"CREATE SOURCE TABLE {{s}} {_DECLARED};",
    f"CREATE STREAM my_view {_DECLARED};",
    "CREATE STREAM my_view (id INT) WITH (KAFKA_TOPIC='{v}', FORMAT='JSON', PARTITIONS=7);",
    "CREATE STREAM {s} (id INT) WITH (KAFKA_TOPIC='orders', FORMAT='JSON');",
    "ALTER STREAM {s} ADD COLUMN id INT;",
    "ALTER TABLE {s} ADD COLUMN other INT;",
    "DROP STREAM {s};",
    "DROP TABLE {s};",
    "DROP STREAM {s} DELETE TOPIC;",
    "DROP STREAM IF EXISTS {s};",
    "INSERT INTO {s} SELECT * FROM orders;",
    "INSERT INTO my_orders SELECT id, nocolumn FROM {s};",
    "INSERT INTO {s} VALUES (1);",
    "INSERT INTO {s} (id, nocolumn) VALUES (1, 2);",
    "INSERT INTO {s} (id, word) VALUES (1, 2, 3);",
    "DELETE FROM {t} WHERE nocolumn = 1;",
    "DESCRIBE {s};",
    "DESCRIBE {t} EXTENDED;",
    "DESCRIBE ALERT {a};",
    "EXPLAIN {q};",
    "EXPLAIN SELECT nocolumn FROM {s} EMIT CHANGES;",
    "PRINT '{v}' LIMIT 1;",
    "TERMINATE {q};",
    "PAUSE {q};",
    "RESUME {q};",
    "CREATE ALERT my_alert ON {s} WHEN nocolumn > 3;",
    "CREATE ALERT {a} ON orders WHEN id > 3;",
    "CREATE ALERT IF NOT EXISTS {a} ON orders WHEN id > 3;",
    "DROP ALERT {a};",
    "DROP ALERT IF EXISTS {a};",
    "MUTE ALERT {a} FOR 1 HOUR;",
    "UNMUTE ALERT {a};",
    "ASSERT VALUES {s} (nocolumn) VALUES (1);",
    f"ASSERT STREAM {{s}} {_DECLARED};",
    "ASSERT TOPIC {v};",
)
_NAME_NONE = {  # statements that name no stream, table, query, alert or topic
    ast.CreateType, ast.DropType, ast.SetProperty, ast.UnsetProperty, ast.Define, ast.Undefine, ast.Show, ast.RunScript,
    ast.CreateConnector, ast.DropConnector, ast.AssertSchema, ast.CreateNotifier, ast.DropNotifier, ast.KillProcess,
}  # fmt: skip


@dataclass(frozen=True)
class Attacker:
    server: AttackedServer
    headers: Mapping[str, str]

    def __call__(self, path: str, body: Any) -> tuple[int, str]:
        answer = self.server.post(path, body, self.headers)
        return answer.status, answer.body.decode()


@pytest.fixture(scope="module")
def attacker(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Somebody who may read one stream and create those called MY_..."""
    folder: Path = tmp_path_factory.mktemp("hidden") / "data"
    with AttackedServer(folder, {"auth_mode": "required"}) as server:
        admin = {"authorization": f"Bearer {(folder / 'local.secret').read_text()}"}
        assert server.execute(_MADE, admin).status == 200
        wait_until(lambda: b"HUSHED" in server.get("/api/v1/queries", admin).body)
        for grant in _GRANTS:
            privilege, kind, pattern = grant.split()
            granted = {"privilege": privilege, "kind": kind, "pattern": pattern}
            assert server.post("/api/v1/roles/makers/grants", granted, admin).status == 204
        assert server.post("/api/v1/users", {"name": "mallory", "roles": ["makers"]}, admin).status == 201
        token = server.post("/api/v1/users/mallory/tokens", {}, admin).document["token"]
        yield Attacker(server, {"authorization": f"Bearer {token}"})


def test_the_attacks_cover_every_kind_of_statement() -> None:
    attacked = {type(parse_one(text.format(**_HIDDEN))) for text in _STATEMENTS}
    assert set(ast.Statement.__subclasses__()) - attacked == _NAME_NONE


@pytest.mark.attack("each kind of statement names something hidden", "the answer is that for an unknown name")
@pytest.mark.parametrize("path", ["/ksql", "/query", "/query-stream", "/api/v1/statements"])
def test_a_hidden_name_is_answered_like_an_unknown_name(attacker: Attacker, path: str) -> None:
    field = {"/query-stream": "sql", "/api/v1/statements": "text"}.get(path, "ksql")
    differ = {}
    for text in _STATEMENTS:
        hidden, unknown = (attacker(path, {field: text.format(**names)}) for names in (_HIDDEN, _UNKNOWN))
        if (hidden[0], _renamed(hidden[1])) != unknown:
            differ[text] = hidden, unknown
    assert differ == {}


@pytest.mark.attack("rows for a hidden stream, over /inserts-stream", "the answer is that for an unknown name")
def test_inserts_into_a_hidden_stream_are_answered_like_an_unknown_name(attacker: Attacker) -> None:
    hidden, unknown = (
        attacker("/inserts-stream", f'{{"target": "{names["s"]}"}}\n{{"id": 1}}\n'.encode())
        for names in (_HIDDEN, _UNKNOWN)
    )
    assert (hidden[0], _renamed(hidden[1])) == unknown


@pytest.mark.attack("all queries are stopped at once", "no hidden query is named in the refusal")
def test_a_refusal_for_all_queries_names_none(attacker: Attacker) -> None:
    for verb in ("TERMINATE", "PAUSE", "RESUME"):
        status, body = attacker("/ksql", {"ksql": f"{verb} ALL;"})
        assert status == 403, body
        assert not any(name in body.upper() for name in (*_HIDDEN.values(), "COVERED"))


def _renamed(body: str) -> str:
    """The answer as if the unknown names had been sent."""
    for key, name in _HIDDEN.items():
        for before, after in ((name, _UNKNOWN[key]), (name.lower(), _UNKNOWN[key].lower())):
            body = body.replace(before, after)
    return body
