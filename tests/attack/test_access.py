"""Attacks on who may do what: by an address, a forwarder, another user of the machine, and by tokens of an issuer."""

from __future__ import annotations

import http.client
import json
import os
import re
import socket
import stat
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from headrace.access.secret_files import LOCAL_SECRET
from tests.attack.server import Answer, AttackedServer

ISSUER = "https://issuer.example"
PROXY_HEADERS = (
    *("CF-Connecting-IP", "X-Client-IP", "True-Client-IP", "X-Real-IP", "X-Forwarded-For", "X-Cluster-Client-IP"),
    *("X-Forwarded-Host", "X-Forwarded-Proto", "X-Original-Forwarded-For", "Forwarded", "Via", "X-Remote-User"),
)


# -- addresses ------------------------------------------------------------------------------------------------------


class Forwarder:
    """A bare TCP forwarder on this machine, like `socat`: it adds nothing to what it forwards."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                server = socket.create_connection(("127.0.0.1", self._target))
                for source, sink in ((client, server), (server, client)):
                    threading.Thread(target=_pipe, args=(source, sink), daemon=True).start()

    def close(self) -> None:
        self._listening.close()


def _pipe(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65_536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)


@contextmanager
def _forwarded(server: AttackedServer) -> Iterator[AttackedServer]:
    """The server as a client sees it behind a forwarder."""
    seen = AttackedServer(server.folder)
    with closing(Forwarder(server.port)) as forwarder:
        seen.port = forwarder.port
        yield seen


def _code(mark: Path) -> Mapping[str, str]:
    return {"source": f"import headrace as hr\nopen({str(mark)!r}, 'w').close()\napp = hr.App()\n", "path": "evil.py"}


def _refused(answer: Answer) -> bool:
    return (answer.status, answer.code) in ((401, "not-authenticated"), (403, "secret-required"))


@pytest.mark.attack("code sent through a bare TCP forwarder", "refused; the code has not run")
def test_code_through_a_forwarder_is_refused(shared_attacked: AttackedServer, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    with _forwarded(shared_attacked) as server:
        assert server.post("/api/v1/apps", _code(mark)).code == "secret-required"
        assert server.get("/api/v1/users").code == "secret-required"
        made = server.post("/api/v1/users", {"name": "eve", "password": "a long password", "roles": ["admin"]})
        assert made.code == "secret-required"
    assert not mark.exists()


@pytest.mark.attack("headers by which proxies name their clients, forged or alone", "they give nobody any right")
def test_headers_of_proxies_give_no_rights(shared_attacked: AttackedServer, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    for name in PROXY_HEADERS:
        for value in ("127.0.0.1", "for=127.0.0.1", "::1", "192.0.2.1", "local"):
            assert _refused(shared_attacked.post("/api/v1/apps", _code(mark), {name: value})), (name, value)
    assert not mark.exists()


@pytest.mark.attack(
    "another user of the machine, without the secret", "works with data, runs no code, leaves other's things"
)
def test_another_user_of_the_machine_runs_no_code(shared_attacked: AttackedServer, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    secret = shared_attacked.folder / LOCAL_SECRET
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    script = tmp_path / "evil.py"
    script.write_text(_code(mark)["source"])
    other = AttackedServer(tmp_path / "other")  # a data folder without the secret
    done = other.command("deploy", str(script), "--server", shared_attacked.url)
    assert done.returncode != 0
    assert "secret-required" in done.stderr
    shape = "(A INT KEY) WITH (KAFKA_TOPIC='operators', FORMAT='JSON', PARTITIONS=1);"
    made = shared_attacked.execute(f"CREATE STREAM OPERATORS {shape}", shared_attacked.operator)
    assert made.status == 200, made
    assert shared_attacked.execute("INSERT INTO OPERATORS VALUES (1);").status == 200
    assert shared_attacked.execute("DROP STREAM OPERATORS DELETE TOPIC;").code == "secret-required"
    for guess in ("", "local", "0" * 64, secret.read_text()[:-1]):
        assert shared_attacked.get("/api/v1/users", {"authorization": f"Bearer {guess}"}).status == 401
    assert not mark.exists()


@pytest.mark.attack("a page of another origin, or under a rebound name, posts to the server", "refused")
def test_a_foreign_page_is_refused(shared_attacked: AttackedServer) -> None:
    for headers in (
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": f"http://127.0.0.1:{shared_attacked.port + 1}"},
        {"host": f"evil.example:{shared_attacked.port}"},
        {"host": f"evil.example:{shared_attacked.port}", "origin": f"http://evil.example:{shared_attacked.port}"},
    ):
        answer = shared_attacked.request("POST", "/ksql", {"ksql": "LIST STREAMS;"}, headers)
        assert answer.status in (400, 403), headers


# -- the one-time link ----------------------------------------------------------------------------------------------


def _link(server: AttackedServer) -> str:
    """The path of a new link."""
    done = server.command("console")
    assert done.returncode == 0, done.stderr
    return done.stdout.strip().removeprefix(server.url)


def _content(page: Answer, name: str) -> str:
    """The content of a meta element."""
    (content,) = re.findall(rf'<meta name="{name}" content="([^"]*)">', page.body.decode())
    return content


@pytest.mark.attack(
    "the log-in link is opened a second time, guessed, or leads elsewhere", "it logs in once, and only to a page here"
)
def test_a_link_logs_in_once(shared_attacked: AttackedServer) -> None:
    server = shared_attacked
    printed = re.search(rf"{re.escape(server.url)}(/ui/open\?key=[\w-]+)", server.output)
    assert printed is not None
    assert server.output.startswith(f"headrace listens on {server.url}; Ctrl-C stops it\n")
    for guess in ("/ui/open", "/ui/open?key=", f"/ui/open?key={'x' * 43}", f"{printed[1]}x"):
        answer = server.get(guess)
        assert (answer.status, answer.headers["location"]) == (303, "/ui/log-in?link=used")
        assert "set-cookie" not in answer.headers
    assert server.request("HEAD", printed[1]).status == 405
    first, second = server.get(printed[1]), server.get(printed[1])
    assert (first.status, first.headers["cache-control"]) == (200, "no-store")
    assert b'<meta name="next" content="/ui/">' in first.body
    assert {"HttpOnly", "SameSite=strict"} <= set(first.headers["set-cookie"].split("; "))
    assert "set-cookie" not in second.headers
    cookie = {"cookie": first.headers["set-cookie"].split(";")[0]}
    session = server.get("/api/v1/session", cookie).document
    assert (session["name"], session["credential"]) == ("local", "session")
    csrf = _content(first, "csrf")
    assert csrf not in server.get("/api/v1/session", cookie).body.decode()
    assert csrf not in server.get("/ui/", cookie).body.decode()
    user = {"name": "carla", "roles": ["reader"]}
    assert server.post("/api/v1/users", user, cookie).code == "csrf-missing"
    assert server.post("/api/v1/users", user, {**cookie, "x-csrf-token": csrf}).status == 201
    assert server.request("DELETE", "/api/v1/session", None, {**cookie, "x-csrf-token": csrf}).status == 204
    assert server.get("/api/v1/session", cookie).document["name"] == "anonymous"
    for page in (
        "https://evil.example/",
        "//evil.example",
        "/ui/../api/v1/users?x",
        "/ui/\\evil.example",
        "/ui/\r\nX: y",
    ):
        answer = server.get(f"{_link(server)}&{urlencode({'next': page})}")
        assert _content(answer, "next") == "/ui/", page


@pytest.mark.attack(
    "the server of another port of the host uses the session cookie that browsers send it", "it cannot change anything"
)
def test_the_cookie_alone_changes_nothing(shared_attacked: AttackedServer) -> None:
    server = shared_attacked
    opened = server.get(_link(server))
    stolen = {"cookie": opened.headers["set-cookie"].split(";")[0], "origin": server.url}
    assert server.post("/api/v1/topics", {"name": "stolen"}, stolen).code == "csrf-missing"
    assert _connect(server, "", stolen) == 403
    assert _connect(server, f"&csrf={_content(opened, 'csrf')}", stolen) == 101
    for path in ("/api/v1/session", "/ui/", "/ui/statements", "/ui/static/headrace.js"):
        assert _content(opened, "csrf") not in server.get(path, stolen).body.decode(), path


def _connect(server: AttackedServer, parameters: str, headers: Mapping[str, str]) -> int:
    """The status of the connection of a page of the console."""
    path = f"/ui/_nicegui_ws/socket.io/?EIO=4&transport=websocket{parameters}"
    upgrade = {
        "connection": "Upgrade",
        "upgrade": "websocket",
        "sec-websocket-version": "13",
        "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)) as connection:
        connection.request("GET", path, None, {**headers, **upgrade})
        return connection.getresponse().status


@pytest.mark.attack("a client without credentials asks for a log-in link", "refused")
def test_a_link_takes_the_secret(shared_attacked: AttackedServer) -> None:
    assert shared_attacked.post("/api/v1/session/links", {}).code == "secret-required"


# -- tokens of an issuer --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Issuer:
    server: AttackedServer
    key: rsa.RSAPrivateKey

    def token(self, **claims: Any) -> Mapping[str, str]:
        now = int(time.time())
        told = {"iss": ISSUER, "aud": "headrace", "sub": "x", "exp": now + 300, "roles": ["writer"], **claims}
        return self.signed(json.dumps(told))

    def signed(self, claims: str) -> Mapping[str, str]:
        token = jwt.PyJWS().encode(claims.encode(), self.key, "RS256", {"kid": "k1"})
        return {"authorization": f"Bearer {token}"}


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Issuer]:
    folder = tmp_path_factory.mktemp("issuer")
    key = rsa.generate_private_key(65537, 2048)
    public = {**json.loads(RSAAlgorithm.to_jwk(key.public_key())), "kid": "k1", "use": "sig"}
    (folder / "jwks.json").write_text(json.dumps({"keys": [public]}))
    settings = {
        "auth_mode": "required",
        "auth_token_jwks": os.fspath(folder / "jwks.json"),
        "auth_token_issuer": ISSUER,
        "auth_token_audience": "headrace",
    }
    with AttackedServer(folder / "data", settings) as server:
        yield Issuer(server, key)


@pytest.mark.attack("a token of an issuer whose subject is the name of a local user", "it is another user")
def test_a_subject_of_an_issuer_is_no_local_user(issuer: Issuer) -> None:
    server = issuer.server
    for name in ("local", "anonymous", "alice"):
        headers = issuer.token(sub=name)
        assert server.get("/api/v1/session", headers).document["name"] == f"{ISSUER}|{name}"
        assert server.get("/api/v1/users", headers).status == 403
    board = {"title": "mine", "panels": []}
    assert server.request("PUT", "/api/v1/dashboards/b", board, server.operator).status == 200
    assert server.request("PUT", "/api/v1/dashboards/b", board, issuer.token(sub="local")).status in (403, 404)


@pytest.mark.attack("tokens with absurd claims, rightly signed", "401, never a failure of the server")
def test_absurd_claims_are_refused(issuer: Issuer) -> None:
    server, now = issuer.server, int(time.time())
    for subject in ("", " ", "a\nb", "a\x1b[2J", "x" * 300, None, 7, ["a"]):
        assert server.get("/api/v1/session", issuer.token(sub=subject)).status == 401, subject
    head = f'{{"iss": "{ISSUER}", "aud": "headrace", "sub": "x"'
    for number in ("1" + "0" * 400, "1e400", "-1e400", "NaN", "Infinity", "9" * 4_400, '"1"', "{}", "null", "true"):
        for claims in (
            f'"exp": {number}',
            f'"exp": {now + 300}, "nbf": {number}',
            f'"exp": {now + 300}, "jti": {number}',
        ):
            status = server.get("/api/v1/session", issuer.signed(f"{head}, {claims}}}")).status
            harmless = number in ("null", "true", '"1"', "-1e400") and 'exp": ' + number not in claims
            assert status == 401 or (harmless and status == 200), claims[:80]
