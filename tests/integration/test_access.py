"""A server with TLS and authentication: `headrace up`, the client, the command line, HTTP/2."""

from __future__ import annotations

import datetime
import ipaddress
import json
import os
import re
import signal
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from headrace.client import Client
from headrace.errors import NotAllowed, NotAuthenticated, ServerUnreachable
from tests.wait import wait_until

PROGRAM = [sys.executable, "-c", "from headrace.cli import main; main()"]
PASSWORD = "a long password"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `cert.pem` and `key.pem`."""
    folder = tmp_path_factory.mktemp("tls")
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "headrace")])
    now = datetime.datetime.now(datetime.UTC)
    places = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName(places), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    form = serialization.PrivateFormat.PKCS8
    secret = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    (folder / "key.pem").write_bytes(secret)
    return folder


@dataclass
class Program:
    folder: Path
    environ: dict[str, str]

    def __call__(self, *words: str, given: str = "", code: int = 0, **more: str) -> str:
        environ = {**os.environ, **self.environ, **more}
        done = subprocess.run(
            [*PROGRAM, "--data", str(self.folder / "data"), *words],
            input=given,
            env=environ,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr


@dataclass
class Running:
    program: Program
    port: int
    ca: str

    @property
    def address(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def token(self, user: str) -> str:
        return self.program("token", "create", user, "--json").splitlines()[0]


@pytest.fixture(scope="module")
def running(certificate: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """On every address of this machine: the three conditions hold."""
    folder = tmp_path_factory.mktemp("up")
    program = Program(folder, {"HEADRACE_AUTH_MODE": "required"})
    program("user", "add", "root", "--role", "admin", given=f"{PASSWORD}\n")
    program("user", "add", "alice", "--role", "reader", given=f"{PASSWORD}\n")
    tls = {
        "HEADRACE_SERVER_TLS_CERT": str(certificate / "cert.pem"),
        "HEADRACE_SERVER_TLS_KEY": str(certificate / "key.pem"),
    }
    told = folder / "up.txt"
    with told.open("w") as output:
        process = subprocess.Popen(
            [*PROGRAM, "--data", str(folder / "data"), "up", "--host", "127.0.0.1", "--port", "0"],
            env={**os.environ, **program.environ, **tls},
            cwd=folder,
            stderr=output,
        )
    try:
        wait_until(lambda: "listens on" in told.read_text() or process.poll() is not None, told.read_text)
        (port,) = re.findall(r"listens on https://127\.0\.0\.1:(\d+)", told.read_text())
        yield Running(program, int(port), str(certificate / "cert.pem"))
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def _http(running: Running, path: str, body: Any = None, **headers: str) -> tuple[int, Any, Any]:
    context = ssl.create_default_context(cafile=running.ca)
    data = None if body is None else json.dumps(body).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(running.address + path, data, named)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    try:
        with opener.open(request, timeout=60) as answer:
            return answer.status, json.load(answer), answer.headers
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error), error.headers


def test_users_tokens_and_queries_work_over_tls(running: Running) -> None:
    assert _http(running, "/api/v1/topics")[0] == 401
    status, made, _ = _http(running, "/api/v1/tokens", {"user": "root", "password": PASSWORD})
    assert status == 201
    assert _http(running, "/api/v1/topics", authorization=f"Bearer {made['token']}")[0] == 200
    root = Client(running.address, token=made["token"], ca=running.ca)
    root.execute("CREATE STREAM S (ID INT KEY, X INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON', PARTITIONS=1);")
    assert root.insert("S", [{"ID": 1, "X": 2}]) == 1
    alice = Client(running.address, token=json.loads(running.token("alice"))["token"], ca=running.ca)
    with alice.query("SELECT * FROM S;") as rows:
        assert list(rows) == [[1, 2]]
    with pytest.raises(NotAllowed):
        alice.execute("DROP STREAM S;")
    with pytest.raises(NotAllowed):
        alice.insert("S", [{"ID": 1, "X": 2}])
    with pytest.raises(NotAllowed):
        alice.deploy("1")
    with pytest.raises(NotAuthenticated):
        Client(running.address, ca=running.ca).info()
    with pytest.raises(NotAuthenticated):
        Client(running.address, token="x.y.z", ca=running.ca).info()


def test_an_unverified_server_receives_no_credentials(running: Running) -> None:
    with pytest.raises(ServerUnreachable, match="certificate"):
        Client(running.address, token="secret").info()
    with pytest.raises((urllib.error.URLError, OSError)):  # in clear text nobody answers
        urllib.request.build_opener(urllib.request.ProxyHandler({})).open(f"http://127.0.0.1:{running.port}/info")


def test_the_cookie_is_sent_over_tls_only(running: Running) -> None:
    status, _, headers = _http(running, "/api/v1/session", {"user": "alice", "password": PASSWORD})
    assert status == 201
    assert {"Secure", "HttpOnly", "SameSite=strict"} <= set(headers["set-cookie"].split("; "))


def test_http_2_is_negotiated(running: Running) -> None:
    context = ssl.create_default_context(cafile=running.ca)
    token = json.loads(running.token("alice"))["token"]
    with httpx.Client(http2=True, verify=context, trust_env=False) as client:
        answer = client.get(f"{running.address}/info", headers={"authorization": f"Bearer {token}"})
        assert (answer.status_code, answer.http_version) == (200, "HTTP/2")
        assert client.get(f"{running.address}/info").status_code == 401
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.load_verify_locations(running.ca)
    with pytest.deprecated_call():
        old.maximum_version = ssl.TLSVersion.TLSv1_1
    with httpx.Client(verify=old, trust_env=False) as client, pytest.raises(httpx.ConnectError):
        client.get(f"{running.address}/info")


def test_the_command_line_sends_a_token_or_the_secret_of_its_data_folder(running: Running, tmp_path: Path) -> None:
    token = json.loads(running.token("root"))["token"]
    shown = {"HEADRACE_CLIENT_TOKEN": token, "HEADRACE_CLIENT_CA_CERT": running.ca}
    assert "running" not in running.program("status", **shown)  # no query runs
    assert json.loads(running.program("status", "--json", **shown).splitlines()[0])["address"] == running.address
    assert "S" in running.program("sql", "--execute", "LIST STREAMS;", **shown)
    file = running.program.folder / "root.token"
    file.write_text(f"{token}\n")
    ca = {"HEADRACE_CLIENT_CA_CERT": running.ca}
    trusting = Program(running.program.folder, running.program.environ | ca)
    assert "S" in trusting("sql", "--token-file", str(file), "--execute", "LIST STREAMS;")
    listing = ("sql", "--server", running.address, "--execute", "LIST STREAMS;")
    assert "S" in trusting(*listing)
    assert "not-authenticated" in Program(tmp_path, ca)(*listing, code=1)


def test_a_running_server_applies_changes_of_the_command_line(running: Running) -> None:
    made = json.loads(running.token("alice"))
    shown = {"authorization": f"Bearer {made['token']}"}
    assert _http(running, "/api/v1/session", **shown)[0] == 200
    running.program("token", "revoke", made["id"])
    wait_until(lambda: _http(running, "/api/v1/session", **shown)[0] == 401)
    running.program("audit", "verify")


def test_a_public_address_without_tls_is_refused(tmp_path: Path) -> None:
    told = Program(tmp_path, {})("up", "--host", "0.0.0.0", "--port", "0", code=1)
    assert "public-bind" in told
    assert "headrace user add" in told
