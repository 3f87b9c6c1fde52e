"""Authentication: tokens, passwords, cookies, and requests with invalid credentials."""

from __future__ import annotations

import json
import socket
from datetime import timedelta
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any

import pytest

from headrace.access.audit import Audit, read_audit, verify_audit
from headrace.access.secret_files import find_local_secret
from headrace.access.users import UserStore
from headrace.clock import SystemClock
from headrace.control.node import Node
from headrace.log.embedded import EmbeddedLog
from headrace.serve.application import application
from headrace.serve.caller import RequestCredentials, session_cookie_name
from headrace.serve.http.server import Server
from headrace.settings import Settings
from tests.unit.control.test_node import Nowhere
from tests.unit.serve.access.conftest import PASSWORD, Person, Place, basic
from tests.unit.serve.api.websocket_client import Socket
from tests.wait import wait_until

SESSION = "/api/v1/session"


def test_a_request_without_credentials_is_refused(place: Place) -> None:
    answer = place.nobody("GET", "/api/v1/topics")
    assert (answer.status, answer.code) == (401, "not-authenticated")
    assert "Bearer" in answer.headers["www-authenticate"]
    assert "Basic" in answer.headers["www-authenticate"]
    told = place.nobody("POST", "/ksql", {"ksql": "LIST STREAMS;"})
    assert (told.status, told.told["error_code"], told.told["@type"]) == (401, 40100, "generic_error")
    assert place.nobody("GET", "/healthcheck").status == 200
    assert place.nobody("GET", "/nowhere").status == 401  # what there is is not told
    with Socket("127.0.0.1", place.server.port, "/api/v1/topics/orders/tail") as socket:
        assert socket.status == 401


def test_a_browser_gets_no_basic_challenge(place: Place) -> None:
    assert "Basic" not in place.nobody("GET", "/api/v1/topics", sec_fetch_mode="cors").headers["www-authenticate"]


def test_users_create_list_and_revoke_tokens(place: Place) -> None:
    alice = place.user("alice", "reader")
    assert alice("GET", "/api/v1/topics").status == 200
    assert alice("GET", SESSION).told["name"] == "alice"
    logged_in = place.nobody("POST", "/api/v1/tokens", {"user": "alice", "password": PASSWORD})
    assert logged_in.status == 201
    assert logged_in.headers["cache-control"] == "no-store"
    other = place.nobody.showing(authorization=f"bearer {logged_in.told['token']}")
    assert other("GET", SESSION).told["credential"] == "token"
    for shown in ("Bearer x.y.z", "Bearer ", "Digest x", "Basic ???", "Basic bm9jb2xvbg==", f"Bearer {PASSWORD}"):
        assert place.nobody("GET", "/api/v1/topics", authorization=shown).status == 401, shown


def test_a_token_is_invalid_after_revocation_a_new_password_or_removal_of_its_user(place: Place) -> None:
    admin = place.user("root", "admin")
    place.user("alice", "reader")
    people = []
    for _ in range(2):
        made = admin("POST", "/api/v1/users/alice/tokens", {"life": "1h"}).told
        people.append((made["id"], place.nobody.showing(authorization=f"Bearer {made['token']}")))
    (first, one), (_, two) = people
    assert admin("DELETE", f"/api/v1/tokens/{first}").status == 204
    assert [one("GET", SESSION).status, two("GET", SESSION).status] == [401, 200]
    assert admin("PATCH", "/api/v1/users/alice", {"password": "another password"}).status == 200
    assert two("GET", SESSION).status == 401
    again = admin("POST", "/api/v1/users/alice/tokens", {}).told["token"]
    third = place.nobody.showing(authorization=f"Bearer {again}")
    assert third("GET", SESSION).status == 200
    assert admin("DELETE", "/api/v1/users/alice").status == 204
    assert third("GET", SESSION).status == 401
    assert admin("POST", "/api/v1/users", {"name": "alice", "roles": ["admin"]}).status == 201
    assert third("GET", SESSION).status == 401  # another alice


def test_an_expired_token_is_refused(place: Place) -> None:
    place.user("alice", "reader")
    token, _, _ = place.node.guard.make_token("alice", timedelta(seconds=1))
    alice = place.nobody.showing(authorization=f"Bearer {token}")
    assert alice("GET", SESSION).status == 200
    wait_until(lambda: alice("GET", SESSION).status == 401)


def test_basic_authentication_is_accepted(place: Place) -> None:
    place.user("alice", "reader")
    alice = place.nobody.showing(authorization=basic("alice", PASSWORD))
    assert alice("POST", "/ksql", {"ksql": "LIST STREAMS;"}).status == 200
    for name, password in (("alice", "a wrong password"), ("bob", PASSWORD), ("", ""), ("alice", "")):
        assert place.nobody("GET", "/info", authorization=basic(name, password)).status == 401
    place.node.guard.users.set_password("alice", "another password", by="local")
    assert alice("GET", "/info").status == 401  # though it was right a moment ago


def test_the_secret_of_the_data_folder_is_an_admins_token_and_the_password_of_local(place: Place) -> None:
    secret = find_local_secret(place.node.settings.storage.data)
    assert secret is not None
    for shown in (f"Bearer {secret}", basic("local", secret)):
        answer = place.nobody("GET", SESSION, authorization=shown)
        assert (answer.told["name"], answer.told["roles"]) == ("local", ["admin"])
        assert place.nobody("GET", "/api/v1/users", authorization=shown).status == 200
    for shown in (f"Bearer {secret[:-1]}", f"Bearer {secret}x", basic("local", ""), basic("alice", secret), "Bearer "):
        assert place.nobody("GET", "/api/v1/users", authorization=shown).status == 401, shown


def test_guessing_is_throttled_while_the_user_can_log_in(place: Place) -> None:
    alice = place.user("alice", "reader")
    statuses = [
        place.nobody("POST", "/api/v1/tokens", {"user": "alice", "password": f"guess number {n}"}) for n in range(12)
    ]
    refused = [answer for answer in statuses if answer.status == 429]
    assert len(refused) >= 6
    assert refused[0].code == "login-throttled"
    assert 1 <= int(refused[0].headers["retry-after"]) <= 60
    assert alice("GET", SESSION).status == 200  # who has a token does not notice
    body = {"user": "alice", "password": PASSWORD}
    wait_until(lambda: place.nobody("POST", "/api/v1/tokens", body).status == 201)


# -- browsers -------------------------------------------------------------------------------------------------------


def _logged_in(place: Place, name: str = "alice") -> tuple[Person, str, str]:
    """Who has a cookie, the session's second token, and the cookie as it was set."""
    answer = place.nobody("POST", SESSION, {"user": name, "password": PASSWORD})
    assert answer.status == 201, answer
    given = answer.headers["set-cookie"]
    name = f"headrace_session_{place.server.port}"
    return place.nobody.showing(cookie=f"other=1; {name}={SimpleCookie(given)[name].value}"), answer.told["csrf"], given


def _cookie(given: str) -> str:
    """The value of the only cookie that was set."""
    (cookie,) = SimpleCookie(given).values()
    return cookie.value


def test_a_session_needs_its_cookie_and_its_csrf_token(place: Place) -> None:
    place.user("alice", "writer")
    browser, csrf, given = _logged_in(place)
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(given.split("; "))
    assert "Secure" not in given  # it came in clear text, on this machine
    assert csrf not in str(browser("GET", SESSION).told)
    body = {"name": "t1"}
    missing = browser("POST", "/api/v1/topics", body)
    assert (missing.status, missing.code) == (403, "csrf-missing")
    assert browser("POST", "/api/v1/topics", body, x_csrf_token="x" * len(csrf)).status == 403
    assert browser("POST", "/ksql", {"ksql": "LIST STREAMS;"}).told["error_code"] == 40300
    assert browser("POST", "/api/v1/topics", body, x_csrf_token=csrf).status == 201


def test_a_request_from_another_origin_is_refused(place: Place) -> None:
    place.user("alice", "writer")
    browser, csrf, _ = _logged_in(place)
    answer = browser("POST", "/api/v1/topics", {"name": "t1"}, x_csrf_token=csrf, origin="http://evil.example")
    assert (answer.status, answer.code) == (403, "foreign-origin")


def test_a_session_ends_by_log_out(place: Place) -> None:
    place.user("alice", "writer")
    browser, csrf, _ = _logged_in(place)
    other, _, _ = _logged_in(place)
    assert browser("DELETE", SESSION).status == 403
    assert browser("DELETE", SESSION, x_csrf_token=csrf).status == 204
    assert [browser("GET", SESSION).status, other("GET", SESSION).status] == [401, 200]
    place.node.guard.users.sign_out("alice", by="local")
    assert other("GET", SESSION).status == 401
    cookie = f"headrace_session_{place.server.port}=x"
    assert place.nobody.showing(cookie=cookie)("GET", SESSION).status == 401


def test_a_browser_whose_session_is_no_longer_valid_logs_in_again(place: Place) -> None:
    place.user("alice", "reader")
    browser, _, given = _logged_in(place)
    place.node.guard.users.set_password("alice", "another password", by="local")
    assert browser("GET", "/ui/log-in").status == 404  # no redirect to itself; this server has no console
    page = browser("GET", "/ui/topics")
    assert (page.status, page.headers["location"]) == (303, "/ui/log-in?next=/ui/topics")
    assert browser("GET", SESSION).status == 401
    assert browser("POST", SESSION, {"user": "alice", "password": "another password"}).status == 201
    assert place.node.guard.sessions.find(_cookie(given)) is None


def test_a_browser_that_has_lost_its_csrf_token_logs_in_again(place: Place) -> None:
    place.user("alice", "reader")
    browser, _, _ = _logged_in(place)
    assert browser("POST", SESSION, {"user": "alice", "password": "wrong"}).status == 401
    assert browser("POST", SESSION, {"user": "alice", "password": PASSWORD}).status == 201


def test_over_tls_the_cookie_is_of_this_host_only() -> None:
    scope: dict[str, Any] = {"type": "http", "scheme": "https", "headers": [(b"host", b"example.org")]}
    assert session_cookie_name(RequestCredentials(scope)) == "__Host-headrace_session"
    scope["headers"] = [(b"host", b"[::1]:8443")]
    assert session_cookie_name(RequestCredentials(scope)) == "__Host-headrace_session_8443"


def test_the_cookie_alone_opens_no_page_that_can_change_something(place: Place) -> None:
    """The server of another port of the host has the cookie, and may send any header."""
    place.user("alice", "writer")
    browser, _, _ = _logged_in(place)
    headers = [("cookie", browser.headers["cookie"]), ("origin", f"http://127.0.0.1:{place.server.port}")]
    for parameters in ("", "&csrf=", "&csrf=x"):
        path = f"/ui/_nicegui_ws/socket.io/?transport=websocket{parameters}"
        with Socket("127.0.0.1", place.server.port, path, headers) as socket:
            assert socket.status == 403, parameters


def test_only_a_hash_of_the_cookie_is_stored(place: Place) -> None:
    place.user("alice", "writer")
    browser, _, given = _logged_in(place)
    cookie = _cookie(given)
    assert cookie not in repr(vars(place.node.guard.sessions))
    assert browser("GET", SESSION).status == 200


def test_a_websocket_with_a_cookie_needs_the_same_origin(place: Place) -> None:
    place.user("alice", "reader")
    place.node.log.create_topic("orders")
    browser, _, _ = _logged_in(place)
    cookie = ("cookie", browser.headers["cookie"])
    for headers, status in (
        ([cookie], 403),
        ([cookie, ("origin", "http://evil.example")], 403),
        ([cookie, ("origin", f"http://127.0.0.1:{place.server.port}")], 101),
    ):
        with Socket("127.0.0.1", place.server.port, "/api/v1/topics/orders/tail", headers) as socket:
            assert socket.status == status


def test_users_change_their_own_password(place: Place) -> None:
    place.user("alice", "reader")
    browser, csrf, _ = _logged_in(place)
    body = {"old": "a wrong password", "new": "another password"}
    assert browser("PUT", "/api/v1/password", body, x_csrf_token=csrf).status == 401
    assert browser("PUT", "/api/v1/password", {**body, "old": PASSWORD}, x_csrf_token=csrf).status == 204
    assert browser("GET", SESSION).status == 401
    assert place.nobody("POST", "/api/v1/tokens", {"user": "alice", "password": "another password"}).status == 201


def test_the_body_of_a_log_in_is_small(place: Place) -> None:
    alice = place.user("alice", "reader")
    large = {"user": "alice", "password": "x" * (8 << 10), "old": PASSWORD, "new": "x"}
    for method, path in (("POST", "/api/v1/tokens"), ("POST", SESSION), ("PUT", "/api/v1/password")):
        assert alice(method, path, large).status == 413, path


# -- what is changed elsewhere, and what is noted -------------------------------------------------------------------


def test_changes_by_the_command_line_take_effect_within_seconds(place: Place) -> None:
    alice = place.user("alice")
    assert alice("POST", "/api/v1/topics", {"name": "t1"}).status == 403
    log = place.node.log
    assert isinstance(log, EmbeddedLog)
    with EmbeddedLog(log.folder) as elsewhere:
        book = UserStore(elsewhere, SystemClock(), Audit(elsewhere, SystemClock()))
        book.set_roles("alice", ["writer"], by="local")
        wait_until(lambda: alice("POST", "/api/v1/topics", {"name": "t1"}).status == 201)
        book.remove_user("alice", by="local")
        wait_until(lambda: alice("GET", SESSION).status == 401)


def test_actions_are_recorded_in_the_audit_log(place: Place) -> None:
    admin, alice = place.user("root", "admin"), place.user("alice", "reader")
    place.nobody("POST", "/api/v1/tokens", {"user": "alice", "password": "a wrong password"})
    place.nobody("POST", "/api/v1/tokens", {"user": "alice", "password": PASSWORD})
    made = "CREATE STREAM S (X INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON', PARTITIONS=1);"
    assert admin("POST", "/ksql", {"ksql": made}).status == 200
    assert alice("POST", "/ksql", {"ksql": "DROP STREAM S;"}).status == 403
    assert alice("DELETE", "/api/v1/topics/s").status == 403
    for _ in range(5):
        assert place.nobody("GET", "/info", authorization="Bearer x.y.z").status == 401
    noted = [(entry.action, entry.principal) for entry in read_audit(place.node.log)]
    assert noted[-7:] == [
        ("log-in-failed", "alice"),
        ("log-in", "alice"),
        ("token-made", "alice"),
        ("statement", "root"),
        ("refused", "alice"),
        ("refused", "alice"),
        ("token-refused", "nobody"),
    ]
    assert PASSWORD not in json.dumps([dict(entry.details) for entry in read_audit(place.node.log)])
    head = verify_audit(place.node.log).head
    assert admin("GET", f"/api/v1/audit/verification?known={head}").status == 200
    assert [one["number"] for one in admin("GET", "/api/v1/audit?before=2&limit=1").told] == [1]
    assert alice("GET", "/api/v1/audit").status == 403


@pytest.mark.parametrize("name", ["..%2Fx", "%2e%2e", "a%2Fb", "a%00b", "-x"])
def test_invalid_names_in_paths_are_refused(place: Place, name: str) -> None:
    admin = place.user("root", "admin")
    assert admin("POST", f"/api/v1/users/{name}/tokens", {}).status in (400, 404)
    grant = {"privilege": "read", "kind": "topic", "pattern": "x"}
    assert admin("POST", f"/api/v1/roles/{name}/grants", grant).status in (400, 404)


@pytest.mark.parametrize(("header", "status"), [("", b"403"), ("X-Forwarded-For: 192.0.2.1\r\n", b"401")])
def test_an_upgrade_to_http_2_is_not_offered(tmp_path: Path, header: str, status: bytes) -> None:
    """Later requests would not name the client of a proxy, and seem to be local."""
    folder = tmp_path / "data"
    head = f"GET /api/v1/users HTTP/1.1\r\nHost: localhost\r\n{header}Connection: Upgrade, HTTP2-Settings\r\n"
    with (
        EmbeddedLog(folder) as log,
        Node(log, Settings.of(storage_data=folder), isolation=Nowhere()) as node,
        Server(application(node)).running() as server,
        socket.create_connection((server.host, server.port), 30) as wire,
    ):
        wire.sendall(f"{head}Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n".encode())
        assert wire.recv(4096).startswith(b"HTTP/1.1 %s " % status)
