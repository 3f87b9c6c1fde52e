"""Webhooks: body, signature, the meaning of responses, and which addresses they reach."""

from __future__ import annotations

import hashlib
import hmac
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from headrace.errors import BadSetting, DeliveryRefused, NotDelivered, UnknownSecret
from headrace.notifiers import http_post
from headrace.notifiers.contract import RetryLater
from headrace.notifiers.egress import is_address_allowed
from headrace.notifiers.webhook import WebhookSender
from headrace.settings import Settings
from tests.notifier_receivers import webhook_receiver
from tests.unit.notifiers.messages import means, message, notifier

HERE = Settings.of(notifiers_webhook_allowed_private="127.0.0.1")


def webhook(url: str, settings: Settings = HERE, **options: Any) -> WebhookSender:
    return WebhookSender(notifier("webhook", {"url": url, **options}), means(settings))


def test_a_message_is_posted_with_its_id_and_signature(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_SECRET", "hush")
    monkeypatch.setenv("HOOK_TOKEN", "Bearer abc")
    with webhook_receiver() as there:
        webhook(there.url, secret="${env:HOOK_SECRET}", authorization="${env:HOOK_TOKEN}").send(message())
        (posted,) = there.posted
    assert posted.path == "/hook?x=1"
    assert posted.headers["idempotency-key"] == "m1"
    assert posted.headers["authorization"] == "Bearer abc"
    signed = posted.headers["headrace-timestamp"].encode() + b"." + posted.body
    expected = hmac.new(b"hush", signed, hashlib.sha256).hexdigest()
    assert posted.headers["headrace-signature"] == f"v1={expected}"
    told = json.loads(posted.body)
    assert (told["id"], told["title"], told["severity"]) == ("m1", "HOT raised: d1", "critical")
    assert told["notices"][0]["message"] == "it is hot"
    assert "hush" not in posted.body.decode()


def test_a_message_without_a_secret_is_not_signed() -> None:
    with webhook_receiver() as there:
        webhook(there.url).send(message())
    assert "headrace-signature" not in there.posted[0].headers


@pytest.mark.parametrize(
    ("status", "headers", "again", "seconds"),
    [
        (500, {}, True, None),
        (503, {"Retry-After": "7"}, True, 7.0),
        (429, {"Retry-After": "soon"}, True, None),
        (408, {}, True, None),
        (400, {}, False, None),
        (410, {}, False, None),
        (302, {"Location": "http://127.0.0.1:1/"}, False, None),
    ],
)
def test_responses_are_retried_or_final(
    status: int, headers: dict[str, str], again: bool, seconds: float | None
) -> None:
    with (
        webhook_receiver(lambda number: (status, headers)) as there,
        pytest.raises((RetryLater, DeliveryRefused)) as raised,
    ):
        webhook(there.url).send(message())
    assert isinstance(raised.value, RetryLater) == again
    assert getattr(raised.value, "seconds", None) == seconds
    assert len(there.posted) == 1  # a redirect is not followed


def test_an_unreachable_receiver_is_retried() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(NotDelivered):
        webhook(f"http://127.0.0.1:{port}/").send(message())


def test_a_missing_secret_is_named() -> None:
    with pytest.raises(UnknownSecret, match="NO_SUCH_SECRET"):
        webhook("http://127.0.0.1:1/", secret="${env:NO_SUCH_SECRET}").send(message())


@pytest.mark.parametrize("url", ["ftp://x/", "http://", "http://user:pw@127.0.0.1/", "nonsense", "http://x:99999999/"])
def test_invalid_urls_are_refused_without_revealing_them(url: str) -> None:
    with pytest.raises(DeliveryRefused) as raised:
        webhook(url).send(message())
    assert url not in str(raised.value)


def test_an_error_does_not_reveal_an_invalid_path() -> None:
    with webhook_receiver() as there, pytest.raises(DeliveryRefused, match="InvalidURL") as raised:
        webhook(there.url.replace("/hook", "/a-word to-keep")).send(message())
    assert "to-keep" not in str(raised.value)


@pytest.mark.parametrize(
    ("url", "host"), [("https://a.example/", "a.example"), ("https://a.example:8443/", "a.example:8443")]
)
def test_the_default_port_is_omitted(monkeypatch: pytest.MonkeyPatch, url: str, host: str) -> None:
    with webhook_receiver() as there:
        here = ("127.0.0.1", there.port)
        monkeypatch.setattr(http_post, "_opened", lambda *_, **__: socket.create_connection(here))
        webhook(url).send(message())
    assert there.posted[0].headers["host"] == host


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "2130706433", "0x7f.1", "[::ffff:127.0.0.1]", "0"])
def test_private_addresses_are_refused(host: str) -> None:
    with webhook_receiver() as there, pytest.raises((DeliveryRefused, NotDelivered)) as raised:
        webhook(f"http://{host}:{there.port}/", Settings()).send(message())
    assert there.posted == []
    assert not isinstance(raised.value, NotDelivered) or host == "[::1]"


def test_a_name_that_later_resolves_to_a_private_address_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks twice gets a private address the second time; it is asked once, and that address is connected to."""
    asked: list[str] = []
    found = socket.getaddrinfo

    def rebinding(host: Any, port: Any, *args: Any, **kwargs: Any) -> Any:
        asked.append(host)
        # TEST-NET-1 is no address of the internet either: the first answer must be a public one.
        return found("8.8.8.8" if len(asked) == 1 else "127.0.0.1", port, *args, **kwargs)

    connected: list[Any] = []

    def connect(address: Any, timeout: Any = None) -> Any:
        connected.append(address)
        raise OSError("not from here")

    monkeypatch.setattr(socket, "getaddrinfo", rebinding)
    monkeypatch.setattr(socket, "create_connection", connect)
    with pytest.raises(NotDelivered):
        webhook("http://rebinding.example/", Settings()).send(message())
    assert asked == ["rebinding.example"]
    assert connected == [("8.8.8.8", 80)]


@pytest.mark.parametrize(
    ("address", "listed", "allowed"),
    [
        ("8.8.8.8", "", True),
        ("2606:4700::1", "", True),
        ("10.1.2.3", "", False),
        ("172.16.0.1", "", False),
        ("192.168.1.1", "", False),
        ("169.254.169.254", "", False),
        ("100.64.0.1", "", False),
        ("0.0.0.0", "", False),
        ("224.0.0.1", "", False),
        ("fe80::1%eth0", "", False),
        ("fd00:ec2::254", "", False),
        ("::ffff:10.0.0.1", "", False),
        ("64:ff9b::a00:1", "", False),
        ("2002:a00:1::", "", False),
        ("2002:808:808::", "", True),
        ("fec0::1", "", False),
        ("64:ff9b:1::a00:1", "", False),
        ("64:ff9b:1::808:808", "", False),
        ("::10.0.0.1", "", False),
        ("::8.8.8.8", "", False),
        ("::ffff:0:10.0.0.1", "", False),
        ("168.63.129.16", "", False),
        ("::ffff:168.63.129.16", "", False),
        ("2001:db8::1", "", False),
        ("fec0::1", "fec0::/10", True),
        ("10.1.2.3", "10.1.0.0/16", True),
        ("10.2.2.3", "10.1.0.0/16, 127.0.0.1", False),
        ("10.2.2.3", "hooks.inside, 127.0.0.1", True),
    ],
)
def test_which_addresses_are_allowed(address: str, listed: str, allowed: bool) -> None:
    assert is_address_allowed("Hooks.Inside", address, listed) == allowed


def test_an_invalid_network_in_the_settings_is_refused() -> None:
    with pytest.raises(BadSetting):
        is_address_allowed("x", "10.0.0.1", "10.0.0.0/99")


@contextmanager
def speaking(speak: Callable[[socket.socket], None]) -> Iterator[int]:
    """One connection is taken and spoken to."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def take() -> None:
            taken, _ = listening.accept()
            with taken, suppress(OSError):
                speak(taken)

        thread = threading.Thread(target=take, daemon=True)
        thread.start()
        yield listening.getsockname()[1]
        thread.join(30)
        assert not thread.is_alive()


def test_a_response_that_trickles_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_post, "_WHOLE", 0.3)

    def drip(taken: socket.socket) -> None:
        taken.recv(10)
        for _ in range(10_000):
            taken.sendall(b"H")
            time.sleep(0.01)

    with speaking(drip) as port, pytest.raises(NotDelivered):
        webhook(f"http://127.0.0.1:{port}/").send(message())


def test_an_untrusted_certificate_is_refused(tmp_path: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    day, now = timedelta(days=1), datetime.now(UTC)
    made = x509.CertificateBuilder(name, name, key.public_key(), 1, now - day, now + day)
    pem = made.sign(key, SHA256()).public_bytes(Encoding.PEM)
    own = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (tmp_path / "both.pem").write_bytes(pem + own)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "both.pem")

    def shake_hands(taken: socket.socket) -> None:
        context.wrap_socket(taken, server_side=True).recv(10)

    with speaking(shake_hands) as port, pytest.raises(DeliveryRefused, match="certificate"):
        webhook(f"https://localhost:{port}/", Settings.of(notifiers_webhook_allowed_private="localhost")).send(
            message()
        )
