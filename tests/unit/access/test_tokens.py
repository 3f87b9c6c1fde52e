"""Valid tokens name their principal; wrong, expired and forged tokens are refused."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import stat
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from headrace.access.secret_files import TOKEN_SECRET, load_secret
from headrace.access.tokens import OWN, JwksKeys, Tokens
from headrace.errors import BadAccessToken, BadSetting, NotAuthenticated
from headrace.settings import Settings

SECRET = "0123456789abcdef0123456789abcdef"
HOUR = timedelta(hours=1)


@pytest.fixture(scope="module")
def key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 2048)


@pytest.fixture
def settings(tmp_path: Path, key: rsa.RSAPrivateKey) -> Settings:
    jwks = tmp_path / "jwks.json"
    jwks.write_text(json.dumps({"keys": [_public(key, "k1"), {"kty": "oct", "kid": "weak", "k": "c2VjcmV0"}]}))
    return Settings.of(
        storage_data=tmp_path / "data",
        auth_token_secret=SECRET,
        auth_token_jwks=str(jwks),
        auth_token_issuer="https://issuer.example",
        auth_token_audience="headrace",
    )


@pytest.fixture
def tokens(settings: Settings) -> Tokens:
    return Tokens(settings)


def _public(key: rsa.RSAPrivateKey, kid: str) -> dict[str, Any]:
    return {**json.loads(RSAAlgorithm.to_jwk(key.public_key())), "kid": kid, "use": "sig"}


def _claims(**other: Any) -> dict[str, Any]:
    now = int(time.time())
    told = {"iss": "https://issuer.example", "aud": "headrace", "sub": "alice", "exp": now + 60, "roles": ["reader"]}
    return {name: value for name, value in (told | other).items() if value is not None}


def _pem(key: rsa.RSAPrivateKey) -> bytes:
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_key().public_bytes(serialization.Encoding.PEM, form)


def _signed(header: dict[str, Any], claims: dict[str, Any], secret: bytes) -> str:
    """By hand: libraries refuse to make what an attacker makes."""
    parts = [base64.urlsafe_b64encode(json.dumps(one).encode()).rstrip(b"=") for one in (header, claims)]
    digest = hmac.digest(secret, b".".join(parts), hashlib.sha256)
    return b".".join([*parts, base64.urlsafe_b64encode(digest).rstrip(b"=")]).decode()


# -- that count -----------------------------------------------------------------------------------------------------


def test_a_token_of_the_server_names_its_user(tokens: Tokens) -> None:
    token, mark, ends_at = tokens.make("alice", 7, HOUR)
    found = tokens.claims(token)
    assert (found.name, found.id, found.generation, found.roles) == ("alice", mark, 7, None)
    assert abs(ends_at - time.time() - 3600) < 60


def test_an_issuers_token_brings_its_roles(tokens: Tokens, key: rsa.RSAPrivateKey) -> None:
    token = jwt.encode(_claims(), key, "RS256", {"kid": "k1"})
    found = tokens.claims(token)
    assert (found.name, found.roles) == ("https://issuer.example|alice", frozenset({"reader"}))


def test_the_secret_is_created_once_and_readable_by_its_owner_only(tmp_path: Path) -> None:
    first = load_secret(tmp_path / "data" / TOKEN_SECRET)
    assert load_secret(tmp_path / "data" / TOKEN_SECRET) == first
    path = tmp_path / "data" / "token.secret"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [one.name for one in path.parent.iterdir()] == ["token.secret"]
    made = Tokens(Settings.of(storage_data=tmp_path / "data")).make("alice", 0, HOUR)[0]
    assert Tokens(Settings.of(storage_data=tmp_path / "data")).claims(made).name == "alice"


# -- that do not ----------------------------------------------------------------------------------------------------


def _altered(token: str) -> str:
    head, body, signature = token.split(".")
    claims = json.loads(base64.urlsafe_b64decode(body + "=="))
    claims["sub"] = "root"
    return f"{head}.{base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip('=')}.{signature}"


def _forgeries(key: rsa.RSAPrivateKey) -> dict[str, str]:
    other = rsa.generate_private_key(65537, 2048)
    own = {"alg": "HS256", "kid": OWN}
    mine = {"iss": OWN, "sub": "alice", "exp": int(time.time()) + 60}
    nothing = {"alg": "none", "typ": "JWT"}
    unsigned = _signed(nothing, mine, b"").rpartition(".")[0] + "."
    past = int(time.time()) - 60
    return {
        "no token": "hello",
        "empty": "",
        "alg none": unsigned,
        "alg none with the issuer's kid": _signed({**nothing, "kid": "k1"}, _claims(), b"").rpartition(".")[0] + ".",
        "alg none in capitals": _signed({"alg": "NONE", "kid": OWN}, mine, b"").rpartition(".")[0] + ".",
        "another secret": _signed(own, mine, b"another secret"),
        "empty secret": _signed(own, mine, b""),
        "altered": _altered(_signed(own, mine, SECRET.encode())),
        "signature cut off": _signed(own, mine, SECRET.encode()).rpartition(".")[0] + ".",
        "expired": _signed(own, {**mine, "exp": past}, SECRET.encode()),
        "without an end": _signed(own, {"iss": OWN, "sub": "alice"}, SECRET.encode()),
        "without a name": _signed(own, {"iss": OWN, "exp": mine["exp"]}, SECRET.encode()),
        "not yet": _signed(own, {**mine, "nbf": int(time.time()) + 600}, SECRET.encode()),
        "own, of another issuer": _signed(own, {**mine, "iss": "elsewhere"}, SECRET.encode()),
        "key confusion": _signed({"alg": "HS256", "kid": "k1"}, _claims(), _pem(key)),
        "key confusion without kid": _signed({"alg": "HS256"}, _claims(), _pem(key)),
        "the secret as RS256": _signed({"alg": "RS256", "kid": OWN}, mine, SECRET.encode()),
        "the issuer's key, as our own": jwt.encode(_claims(iss=OWN), key, "RS256", {"kid": OWN}),
        "our secret, as the issuer's": _signed({"alg": "HS256", "kid": "k1"}, _claims(), SECRET.encode()),
        "another algorithm": _signed({"alg": "HS512", "kid": OWN}, mine, SECRET.encode()),
        "another key": jwt.encode(_claims(), other, "RS256", {"kid": "k1"}),
        "a secret that the JWKS shows": _signed({"alg": "HS256", "kid": "weak"}, _claims(), b"secret"),
        "unknown kid": jwt.encode(_claims(), key, "RS256", {"kid": "k2"}),
        "kid is a path": jwt.encode(_claims(), key, "RS256", {"kid": "../../../../dev/null"}),
        "kid is SQL": jwt.encode(_claims(), key, "RS256", {"kid": "x' UNION SELECT 'a"}),
        "key in the header": jwt.encode(_claims(), other, "RS256", {"kid": "k9", "jwk": _public(other, "k9")}),
        "address of keys in the header": jwt.encode(
            _claims(), other, "RS256", {"kid": "k9", "jku": "http://127.0.0.1"}
        ),
        "issuer's, expired": jwt.encode(_claims(exp=past), key, "RS256", {"kid": "k1"}),
        "issuer's, without an end": jwt.encode(_claims(exp=None), key, "RS256", {"kid": "k1"}),
        "wrong issuer": jwt.encode(_claims(iss="https://other.example"), key, "RS256", {"kid": "k1"}),
        "no issuer": jwt.encode(_claims(iss=None), key, "RS256", {"kid": "k1"}),
        "wrong audience": jwt.encode(_claims(aud="others"), key, "RS256", {"kid": "k1"}),
        "no audience": jwt.encode(_claims(aud=None), key, "RS256", {"kid": "k1"}),
        "RS512": jwt.encode(_claims(), key, "RS512", {"kid": "k1"}),
        "long": "x" * 9000,
    }


def test_forged_tokens_are_refused(tokens: Tokens, key: rsa.RSAPrivateKey) -> None:
    taken = []
    for name, token in _forgeries(key).items():
        try:
            tokens.claims(token)
        except NotAuthenticated:
            continue
        taken.append(name)
    assert taken == []
    assert tokens.claims(
        _signed({"alg": "HS256", "kid": OWN}, {"iss": OWN, "sub": "a", "exp": 1 << 40}, SECRET.encode())
    )


def test_an_expired_token_is_not_cached(tokens: Tokens, monkeypatch: pytest.MonkeyPatch) -> None:
    token, _, ends_at = tokens.make("alice", 0, HOUR)
    assert tokens.claims(token).name == "alice"
    monkeypatch.setattr(time, "time", lambda: ends_at + 1)
    assert tokens.known(token) is None


def test_a_verified_signature_is_cached_briefly(
    tokens: Tokens, key: rsa.RSAPrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = jwt.encode(_claims(exp=int(time.time()) + 3600), key, "RS256", {"kid": "k1"})
    assert tokens.claims(token).name == "https://issuer.example|alice"
    assert tokens.known(token) is not None
    later = time.time() + 61
    monkeypatch.setattr(time, "time", lambda: later)
    assert tokens.known(token) is None
    assert tokens.claims(token).name == "https://issuer.example|alice"


@pytest.mark.parametrize("number", ["1" + "0" * 400, "1e400", "-1e400", "NaN", "9" * 5_000, "[" * 3_000 + "]" * 3_000])
@pytest.mark.parametrize("claim", ["exp", "nbf", "iat", "jti"])
def test_absurd_claims_are_refused(tokens: Tokens, key: rsa.RSAPrivateKey, claim: str, number: str) -> None:
    claims = json.dumps({**_claims(), claim: "HERE"}).replace('"HERE"', number).encode()
    token = jwt.api_jws.encode(claims, key, "RS256", {"kid": "k1"})
    with pytest.raises(NotAuthenticated):
        tokens.claims(token)


@pytest.mark.parametrize(
    "subject", ["", " ", "alice ", "a\nb", "a\x1b[2J", "a\u202eb", "\x00", "\ud800", "x" * 256, 7, None, ["alice"]]
)
def test_subjects_that_are_no_readable_text_are_refused(tokens: Tokens, key: rsa.RSAPrivateKey, subject: Any) -> None:
    token = jwt.api_jws.encode(json.dumps({**_claims(), "sub": subject}).encode(), key, "RS256", {"kid": "k1"})
    with pytest.raises(NotAuthenticated):
        tokens.claims(token)


def test_a_token_for_more_than_a_year_is_refused(tokens: Tokens, key: rsa.RSAPrivateKey) -> None:
    for end in (time.time() + 400 * 86_400, 1e300):
        with pytest.raises(NotAuthenticated, match="more than a year"):
            tokens.claims(jwt.encode(_claims(exp=end), key, "RS256", {"kid": "k1"}))


def test_lifetimes_and_secrets_have_limits(tmp_path: Path, tokens: Tokens) -> None:
    for life in (timedelta(0), timedelta(days=400)):
        with pytest.raises(BadAccessToken):
            tokens.make("alice", 0, life)
    with pytest.raises(BadSetting):
        Tokens(Settings.of(storage_data=tmp_path, auth_token_secret="short")).make("alice", 0, HOUR)


# -- keys from an address -------------------------------------------------------------------------------------------


class _Issuer(BaseHTTPRequestHandler):
    keys: list[dict[str, Any]] = []  # noqa: RUF012 - one for all requests
    asked = 0

    def do_GET(self) -> None:
        type(self).asked += 1
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({"keys": self.keys}).encode())

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def issuer() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), _Issuer)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    _Issuer.asked = 0
    yield f"http://127.0.0.1:{server.server_port}/keys"
    server.shutdown()
    thread.join()
    server.server_close()


def test_an_unknown_key_refreshes_the_key_set_at_a_limited_rate(
    issuer: str, key: rsa.RSAPrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys, now = JwksKeys(issuer), [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    _Issuer.keys = [_public(key, "k1")]
    assert keys.get("k1") is not None
    _Issuer.keys = [_public(key, "k1"), _public(key, "k2")]
    assert [keys.get("k2") for _ in range(20)] == [None] * 20  # too soon
    assert _Issuer.asked == 1
    now[0] += 61
    assert keys.get("k2") is not None
    assert _Issuer.asked == 2
    _Issuer.keys = [_public(key, "k2")]  # the first was taken back
    now[0] += 3601
    assert keys.get("k1") is None
    assert keys.get("k2") is not None


def test_a_remote_key_set_needs_https() -> None:
    with pytest.raises(NotAuthenticated, match="https"):
        JwksKeys("http://issuer.example/keys").get("k1")


@pytest.mark.parametrize("missing", ["auth_token_issuer", "auth_token_audience"])
def test_an_issuer_needs_an_audience_and_a_key_set(tmp_path: Path, missing: str) -> None:
    named: dict[str, Any] = {
        "auth_token_jwks": "keys.json",
        "auth_token_issuer": "us",
        "auth_token_audience": "headrace",
    } | {missing: ""}
    with pytest.raises(BadSetting, match="token_audience"):
        Tokens(Settings.of(storage_data=tmp_path, **named))
