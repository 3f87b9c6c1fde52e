"""Apps over HTTP, with queries that never start."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.access.audit import read_audit
from headrace.client import Client as OwnClient
from headrace.control.admin import dry_run
from headrace.control.node import Node
from headrace.errors import BadPython
from headrace.plan.functions import user_functions, withdraw
from headrace.serve.http.server import Server
from tests.unit.cli.conftest import Program, headrace
from tests.unit.control.statements.test_deployed_apps import SHOP
from tests.unit.serve.api.conftest import Client

__all__ = ["headrace"]


@pytest.fixture(autouse=True)
def remove_functions() -> Iterator[None]:
    yield
    withdraw(user_functions())


def test_an_app_is_deployed_shown_and_withdrawn(ask: Client) -> None:
    told = ask.done("POST", "/apps", {"source": SHOP, "path": "shop.py"})
    assert (told["name"], told["declares"], told["queries"]) == ("shop", ["function MASKED"], ["CSAS_SAFE_2"])
    assert [one["action"] for one in told["done"]] == ["create_source", "create_source", "insert_row"]
    assert ask.done("GET", "/apps") == [{"name": "shop", "declares": ["function MASKED"], "queries": ["CSAS_SAFE_2"]}]
    assert ask.done("GET", "/apps/shop")["source"] == SHOP
    assert ask.done("GET", "/statements")[0]["app"] == "shop"
    assert ask("DELETE", "/apps/shop")[1]["code"] == "app-in-use"
    ask.done("POST", "/statements", {"text": "DROP STREAM safe;"})
    assert ask("DELETE", "/apps/shop") == (204, None)
    assert ask("DELETE", "/apps/shop")[0] == 404


def test_an_error_names_its_line(ask: Client) -> None:
    status, told = ask("POST", "/apps", {"source": "import headrace\n1 / 0\n", "path": "broken.py"})
    assert (status, told["code"], told["where"]) == (400, "bad-python", "broken.py:2")


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ("while True: pass", "did not finish within"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "SIGKILL"),
        ("import sys; sys.exit(3)", "SystemExit: 3"),
    ],
)
def test_faulty_code_does_not_stop_the_server(
    ask: Client, source: str, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dry_run, "TIMEOUT_SECONDS", 5.0 if "did not finish" in what else 60.0)
    status, told = ask("POST", "/apps", {"source": source})
    assert (status, told["code"]) == (400, "bad-python")
    assert what in told["what"]
    assert ask.done("GET", "/apps") == []


def test_only_admins_deploy_code_wherever_they_are(ask: Client, anonymous: Client, node: Node) -> None:
    body = {"source": SHOP}
    node.guard.users.add_user("alice", None, ["admin"], by="local")
    node.guard.users.add_user("bob", None, ["writer"], by="local")
    alice, bob = (f"Bearer {node.guard.make_token(name)[0]}" for name in ("alice", "bob"))
    status, told = anonymous("POST", "/apps", body)
    assert (status, told.get("code")) == (403, "secret-required"), told
    assert "local.secret" in told["fix"]
    assert anonymous("POST", "/apps", body, x_forwarded_for="10.1.2.3")[0] == 401
    assert anonymous("POST", "/apps", body, authorization=bob)[1]["code"] == "not-allowed"
    assert anonymous("POST", "/apps", body, authorization=alice, x_forwarded_for="10.1.2.3")[0] == 200
    node.settings = node.settings.replace(server_accept_code=False)
    assert ask("POST", "/apps", body)[1]["code"] == "code-refused"
    refusals = [entry.details["what"] for entry in read_audit(node.log) if entry.action == "refused"]
    assert "this server does not accept code" in refusals


def test_the_client_and_the_command_line_deploy_apps(server: Server, ask: Client, headrace: Program) -> None:
    client = OwnClient(server.address, token=ask.secret)
    with pytest.raises(BadPython):
        client.deploy("1 / 0")
    assert client.deploy(SHOP)["name"] == "shop"
    Path("shop.py").write_text(SHOP.replace("12345678", "87654321"))
    Path("secret").write_text(ask.secret or "")
    told = headrace("deploy", "shop.py", "--server", server.address, "--token-file", "secret")
    assert "INSERT INTO orders VALUES (1, '87654321');" in told.out
