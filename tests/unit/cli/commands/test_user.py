"""`headrace user`, `role`, `token` and `audit`; and where a server may listen."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from headrace import cli
from headrace.access.guard import Guard
from headrace.access.passwords import verify_password
from headrace.clock import SystemClock
from headrace.errors import BadSetting, PublicBind
from headrace.log.embedded import EmbeddedLog
from headrace.serve.http.bind import check_bind, tls_files
from headrace.settings import Settings
from tests.unit.cli.conftest import Program


def _typed(headrace: Program, text: str, *words: str) -> int:
    """With something on standard input."""
    given = ["--data", str(headrace.data), *words]
    return CliRunner().invoke(cli.app, given, input=text, prog_name="headrace").exit_code


def test_users_are_added_changed_and_removed(headrace: Program) -> None:
    assert _typed(headrace, "a long password\n", "user", "add", "alice", "--role", "admin") == 0
    headrace("user", "add", "shop", "--no-password")
    headrace("user", "roles", "shop", "--role", "writer", "--role", "reader")
    assert headrace("user", "list", "--json").json == [
        {"name": "alice", "roles": ["admin"], "password": True},
        {"name": "shop", "roles": ["reader", "writer"], "password": False},
    ]
    assert _typed(headrace, "another password\n", "user", "password", "alice") == 0
    headrace("user", "remove", "shop")
    with EmbeddedLog(headrace.data) as log, Guard(log, Settings.of(storage_data=headrace.data), SystemClock()) as guard:
        assert list(guard.users.state.users) == ["alice"]
        assert verify_password("another password", guard.users.state.users["alice"].password)
    assert _typed(headrace, "short\n", "user", "password", "alice") == 1
    assert "user-exists" in headrace("user", "add", "alice", "--no-password", code=1).err
    assert "unknown-user" in headrace("user", "remove", "bob", code=1).err


def test_quotas_of_a_user_are_set_shown_and_removed(headrace: Program) -> None:
    headrace("user", "add", "shop", "--no-password")
    headrace("user", "quota", "shop", "requests_per_second=50", "bytes_in_per_second=1MB")
    headrace("user", "quota", "shop", "queries=2")
    rows = {row["quota"]: (row["value"], row["from"]) for row in headrace("user", "quota", "shop", "--json").json}
    assert rows["requests_per_second"] == (50, "user")
    assert rows["bytes_in_per_second"] == (1 << 20, "user")
    assert (rows["queries"], rows["rows_per_second"]) == ((2, "user"), (0, "settings"))
    headrace("user", "quota", "shop", "--remove")
    assert {row["from"] for row in headrace("user", "quota", "shop", "--json").json} == {"settings"}
    headrace("user", "quota", "https://issuer|carol", "queries=1")
    assert "unknown-user" in headrace("user", "quota", "bob", code=1).err
    assert "unknown-user" in headrace("user", "quota", "bob", "queries=1", code=1).err
    for wrong in ("requests=1", "queries", "queries=many", "queries=-1"):
        assert "bad-command-line" in headrace("user", "quota", "shop", wrong, code=2).err, wrong


def test_a_password_cannot_be_an_argument(headrace: Program) -> None:
    assert _typed(headrace, "", "user", "add", "alice", "a long password") == 2
    assert _typed(headrace, "", "user", "add", "alice", "--password", "a long password") == 2


def test_roles_are_granted_and_revoked(headrace: Program) -> None:
    headrace("role", "grant", "europe", "read", "source", "ORDERS", "--where", "REGION = 'EU'")
    headrace("role", "grant", "europe", "write", "topic", "eu-*")
    told = [row["grant"] for row in headrace("role", "list", "--json").json if row["role"] == "europe"]
    assert told == ["read source ORDERS where REGION = 'EU'", "write topic eu-*"]
    headrace("role", "revoke", "europe", "write", "topic", "eu-*")
    assert len([r for r in headrace("role", "list", "--json").json if r["role"] == "europe"]) == 1
    assert "bad-grant" in headrace("role", "grant", "europe", "eat", "topic", "x", code=1).err
    assert "bad-grant" in headrace("role", "grant", "admin", "read", "topic", "x", code=1).err


def test_tokens_are_created_listed_and_revoked(headrace: Program) -> None:
    headrace("user", "add", "shop", "--no-password", "--role", "writer")
    plain = headrace("token", "create", "shop").out.strip()
    made = headrace("token", "create", "shop", "--life", "30d", "--json").json
    with EmbeddedLog(headrace.data) as log, Guard(log, Settings.of(storage_data=headrace.data), SystemClock()) as guard:
        assert guard.by_token(plain).name == guard.by_token(made["token"]).name == "shop"
    headrace("token", "revoke", made["id"])
    with EmbeddedLog(headrace.data) as log, Guard(log, Settings.of(storage_data=headrace.data), SystemClock()) as guard:
        assert made["id"] in guard.users.state.revoked
    headrace("token", "revoke", "--user", "shop")
    headrace("token", "revoke", code=2)
    assert "unknown-user" in headrace("token", "create", "nobody-there", code=1).err


def test_audit_entries_are_listed_and_verified(headrace: Program) -> None:
    headrace("user", "add", "shop", "--no-password")
    headrace("role", "grant", "clerks", "read", "topic", "x")
    shown = headrace("audit", "show", "--json").json
    assert [(one["number"], one["principal"], one["action"]) for one in shown] == [
        (0, "local", "user-added"),
        (1, "local", "granted"),
    ]
    assert "granted" in headrace("audit", "show", "--last", "1").out
    head = headrace("audit", "verify").out.strip()
    assert head == shown[-1]["hash"]
    assert headrace("audit", "verify", "--known", head, "--json").json["count"] == 2
    assert "audit-broken" in headrace("audit", "verify", "--known", "f" * 64, code=1).err


# -- where a server listens -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org", ""])
@pytest.mark.parametrize(
    ("settings", "has_admin", "missing"),
    [
        (Settings(), False, ["openssl", "HEADRACE_AUTH_MODE=required", "headrace user add"]),
        (Settings.of(server_tls_cert="c"), False, ["HEADRACE_AUTH_MODE=required", "headrace user add"]),
        (Settings.of(server_tls_cert="c", auth_mode="required"), False, ["headrace user add"]),
        (Settings.of(auth_mode="required"), True, ["openssl"]),
        (Settings.of(server_tls_cert="c"), True, ["HEADRACE_AUTH_MODE=required"]),
        (Settings.of(server_tls_cert="c", auth_mode="required"), True, []),
    ],
)
def test_a_public_address_needs_tls_authentication_and_an_admin(
    host: str, settings: Settings, has_admin: bool, missing: list[str]
) -> None:
    public = settings.replace(server_host=host)
    if not missing:
        check_bind(public, has_admin=has_admin)
        return
    with pytest.raises(PublicBind) as refused:
        check_bind(public, has_admin=has_admin)
    for command in ("openssl", "HEADRACE_AUTH_MODE=required", "headrace user add"):
        assert (command in (refused.value.fix or "")) == (command in missing)


def test_a_loopback_address_needs_no_protection() -> None:
    for host in ("127.0.0.1", "localhost", "127.8.8.8", "::1"):
        check_bind(Settings.of(server_host=host), has_admin=False)


def test_up_and_the_registry_refuse_a_public_address(headrace: Program) -> None:
    assert "public-bind" in headrace("up", "--host", "0.0.0.0", "--port", "0", code=1).err
    assert "public-bind" in headrace("schema", "up", "--host", "0.0.0.0", "--port", "0", code=1).err


def test_invalid_tls_files_are_refused(tmp_path: Path) -> None:
    assert tls_files(Settings()) is None
    (tmp_path / "cert.pem").write_text("hello")
    for settings in (
        Settings.of(server_tls_cert=str(tmp_path / "cert.pem")),
        Settings.of(server_tls_cert=str(tmp_path / "none.pem")),
    ):
        with pytest.raises(BadSetting):
            tls_files(settings)
