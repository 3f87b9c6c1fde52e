"""Attacks on the files of a server: damage is named with its cure, and no row is doubled or lost silently."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

from tests.attack.server import AttackedServer
from tests.wait import wait_until

STATEMENTS = """
CREATE STREAM orders (id INT KEY, amount INT) WITH (KAFKA_TOPIC='orders', FORMAT='JSON', PARTITIONS=1);
CREATE STREAM large AS SELECT * FROM orders WHERE amount > 10;
"""


@pytest.fixture(scope="module")
def damaged(shared_attacked: AttackedServer) -> AttackedServer:
    """A server with a query that has written two rows."""
    assert shared_attacked.execute(STATEMENTS).status == 200
    _insert(shared_attacked, 20, 5, 30)
    wait_until(lambda: _rows(shared_attacked) == 2, lambda: shared_attacked.output)
    return shared_attacked


@pytest.mark.attack("the checkpoint of a query is deleted", "it is refused until a person decides; no row is doubled")
@pytest.mark.data
def test_a_query_without_its_checkpoint_is_refused_until_a_person_decides(damaged: AttackedServer) -> None:
    server = damaged
    name = _query(server)["name"]
    server.kill()
    shutil.rmtree(server.folder / "checkpoints" / "server" / name)
    server.start()
    _insert(server, 40)
    wait_until(lambda: _query(server)["state"] == "failed", lambda: str(_query(server)))
    assert "checkpoint-missing" in str(_query(server))
    assert _rows(server) == 2
    decided = server.command("state", "recover", f"server/{name}", "--resume-from-output")
    assert decided.returncode == 0, decided.stderr
    assert server.execute(f"RESUME {name};").status == 200
    wait_until(lambda: _rows(server) == 3, lambda: str(_query(server)))
    _insert(server, 50)
    wait_until(lambda: _rows(server) == 4, lambda: str(_query(server)))


@pytest.mark.attack("`log.db` is overwritten", "each command says so with the cure; the server does not start")
def test_a_damaged_database_is_named_with_its_cure(damaged: AttackedServer) -> None:
    server, path = damaged, damaged.folder / "log.db"
    server.kill()
    for suffix in ("-wal", "-shm"):  # after a kill, all of a small log is still in them
        path.with_name(f"log.db{suffix}").unlink(missing_ok=True)
    for content in (b"", b"not a database" * 1000):
        path.write_bytes(content)
        for words in (["topic", "list"], ["up", "--port", str(server.port)], ["storage", "check"]):
            ended = server.command(*words)
            said = ended.stdout + ended.stderr
            assert ended.returncode != 0, words
            assert "Traceback" not in said, said
            assert "damaged" in said or "database" in said, said


def _insert(server: AttackedServer, *amounts: int) -> None:
    text = "".join(f"INSERT INTO orders (id, amount) VALUES (1, {amount});" for amount in amounts)
    assert server.execute(text).status == 200


def _rows(server: AttackedServer) -> int:
    answer = server.get("/api/v1/topics/LARGE")
    return sum(one["end"] for one in answer.document["partitions"]) if answer.status == 200 else 0


def _query(server: AttackedServer) -> dict[str, Any]:
    (query,) = server.get("/api/v1/queries").document
    return query
