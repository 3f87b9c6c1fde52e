"""Web push: the example of RFC 8291, a verifiable VAPID signature, and the life of subscriptions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256

from headrace.errors import BadRequest, DeliveryRefused
from headrace.log.embedded import EmbeddedLog
from headrace.notifiers import http_post, push_encryption, push_subscriptions, web_push
from headrace.notifiers.contract import Message, RetryLater, SenderContext
from headrace.notifiers.push_encryption import (
    base64url_decode,
    base64url_encode,
    encrypt_message,
    load_server_key,
    public_bytes,
    vapid_authorization,
)
from headrace.notifiers.push_subscriptions import PushSubscription
from headrace.notifiers.web_push import WebPushSender, check_subscription, notification_payload, public_key
from headrace.settings import Settings
from tests.notifier_receivers import WebhookReceiver, webhook_receiver
from tests.unit.notifiers.messages import means, message, notice, notifier

# RFC 8291, appendix A
PLAIN = b"When I grow up, I want to be a watermelon"
SENDER = "yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw"
BROWSER = "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"
BROWSERS_OWN = "q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94"
AUTH = "BTBZMqHH6r4Tts7J_aSIgg"
SALT = "DGv6ra1nlYgDCS1FRnbzlw"
BODY = (
    "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7"
    "A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN"
)


def key_of(text: str) -> ec.EllipticCurvePrivateKey:
    return ec.derive_private_key(int.from_bytes(base64url_decode(text), "big"), ec.SECP256R1())


def opened(body: bytes) -> bytes:
    """As the browser opens it."""
    salt, ours, content = body[:16], body[21:86], body[86:]
    shared = key_of(BROWSERS_OWN).exchange(
        ec.ECDH(), ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), ours)
    )
    secret = push_encryption._derived(
        shared, base64url_decode(AUTH), b"WebPush: info\0" + base64url_decode(BROWSER) + ours, 32
    )
    key = push_encryption._derived(secret, salt, b"Content-Encoding: aes128gcm\0", 16)
    nonce = push_encryption._derived(secret, salt, b"Content-Encoding: nonce\0", 12)
    return AESGCM(key).decrypt(nonce, content, None).removesuffix(b"\2")


def test_the_example_of_rfc_8291_is_encrypted() -> None:
    assert (
        base64url_encode(encrypt_message(PLAIN, BROWSER, AUTH, key=key_of(SENDER), salt=base64url_decode(SALT))) == BODY
    )


def test_each_encryption_is_different_and_decrypts_to_the_same_text() -> None:
    first, second = encrypt_message(PLAIN, BROWSER, AUTH), encrypt_message(PLAIN, BROWSER, AUTH)
    assert first != second
    assert opened(first) == opened(second) == PLAIN


def test_the_vapid_token_is_signed_by_the_key_that_it_names() -> None:
    key = key_of(SENDER)
    words = dict(
        part.split("=", 1) for part in vapid_authorization(key, "https://push.example:8443/x", "a@b.c")[6:].split(", ")
    )
    assert words["k"] == base64url_encode(public_bytes(key))
    head, claims, signature = words["t"].split(".")
    found = base64url_decode(signature)
    both = encode_dss_signature(int.from_bytes(found[:32], "big"), int.from_bytes(found[32:], "big"))
    key.public_key().verify(both, f"{head}.{claims}".encode(), ec.ECDSA(SHA256()))
    assert json.loads(base64url_decode(head))["alg"] == "ES256"
    told = json.loads(base64url_decode(claims))
    assert (told["aud"], told["sub"]) == ("https://push.example:8443", "mailto:a@b.c")


def test_the_server_key_is_created_once_and_readable_by_its_owner_only(tmp_path: Path) -> None:
    first = public_bytes(load_server_key(tmp_path))
    assert public_bytes(load_server_key(tmp_path)) == first
    assert public_key(means(Settings.of(storage_data=tmp_path))) == base64url_encode(first)
    (file,) = tmp_path.iterdir()
    assert file.stat().st_mode & 0o777 == 0o600


def test_browsers_are_notified_and_expired_subscriptions_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The receivers speak plain HTTP; only the scheme is put in the place of the other."""
    monkeypatch.setattr(http_post, "_checked", lambda url: urlsplit(url.replace("https:", "http:")))
    with (
        EmbeddedLog(tmp_path) as log,
        webhook_receiver() as well,
        webhook_receiver(lambda number: (410, {})) as gone,
        webhook_receiver(lambda number: (201 if number else 503, {})) as slow,
    ):
        given = means(Settings.of(storage_data=tmp_path, notifiers_webhook_allowed_private="127.0.0.1"), log)
        push = WebPushSender(notifier("push", {}), given)
        for there in (well, gone, slow):
            url = there.url.replace("http:", "https:")
            given.subscriptions.add(check_subscription(PushSubscription("OPS", url, BROWSER, AUTH)))
        given.subscriptions.add(PushSubscription("OTHER", "https://127.0.0.1:1/", BROWSER, AUTH))
        with pytest.raises(RetryLater):
            push.send(message())
        push.send(message())  # only to those who have not got it
        assert [len(there.posted) for there in (well, gone, slow)] == [1, 1, 2]
        told = json.loads(opened(well.posted[0].body))
        assert told == {"title": "HOT raised: d1", "severity": "critical", "tag": "m1", "body": "raised d1: it is hot"}
        assert well.posted[0].headers["urgency"] == "high"
        assert well.posted[0].headers["authorization"].startswith("vapid t=")
        assert len(means(Settings(), log).subscriptions.of("OPS")) == 2  # also for who reads them anew


def test_notices_beyond_the_size_limit_are_omitted() -> None:
    told = json.loads(notification_payload(message(*(notice(i, "x" * 900) for i in range(9)))))
    assert len(told["body"].splitlines()) == 3


@pytest.mark.parametrize(
    ("endpoint", "p256dh", "auth"),
    [
        ("http://push.example/x", BROWSER, AUTH),
        ("https://[", BROWSER, AUTH),
        ("https://", BROWSER, AUTH),
        ("https://x:99999/", BROWSER, AUTH),
        ("https://ann:word@x/", BROWSER, AUTH),
        ("https://x/a b", BROWSER, AUTH),
        ("https://x/\r\nHost: y", BROWSER, AUTH),
        (f"https://x/{'y' * 3000}", BROWSER, AUTH),
        ("https://x/", "AAAA", AUTH),
        ("https://x/", "é", AUTH),
    ],
)
def test_an_invalid_subscription_is_refused(endpoint: str, p256dh: str, auth: str) -> None:
    with pytest.raises(BadRequest):
        check_subscription(PushSubscription("OPS", endpoint, p256dh, auth))


def test_a_push_service_at_a_private_address_is_refused(tmp_path: Path) -> None:
    with EmbeddedLog(tmp_path) as log:
        given = means(Settings.of(storage_data=tmp_path), log)
        given.subscriptions.add(PushSubscription("OPS", "https://169.254.169.254/latest", BROWSER, AUTH))
        with pytest.raises(DeliveryRefused):
            WebPushSender(notifier("push", {}), given).send(message())


def test_a_refusing_subscription_does_not_affect_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_post, "_checked", lambda url: urlsplit(url.replace("https:", "http:")))
    with EmbeddedLog(tmp_path) as log, webhook_receiver(lambda number: (400, {})) as bad, webhook_receiver() as well:
        given = means(Settings.of(storage_data=tmp_path, notifiers_webhook_allowed_private="127.0.0.1"), log)
        for there in (bad, well):
            url = there.url.replace("http:", "https:")
            given.subscriptions.add(PushSubscription("OPS", url, BROWSER, AUTH))
        WebPushSender(notifier("push", {}), given).send(message())
        assert (len(bad.posted), len(well.posted)) == (1, 1)


@pytest.fixture
def given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SenderContext]:
    """Receivers speak plain HTTP; only the scheme is put in the place of the other."""
    monkeypatch.setattr(http_post, "_checked", lambda url: urlsplit(url.replace("https:", "http:")))
    with EmbeddedLog(tmp_path) as log:
        yield means(Settings.of(storage_data=tmp_path, notifiers_webhook_allowed_private="127.0.0.1"), log)


def subscribe(given: SenderContext, there: WebhookReceiver, owner: str = "") -> str:
    subscription = PushSubscription("OPS", there.url.replace("http:", "https:"), BROWSER, AUTH, owner)
    given.subscriptions.add(subscription)
    return subscription.id


def numbered(number: int) -> Message:
    return Message(f"m{number}", "HOT", (notice(number),))


def test_an_unreachable_subscription_is_skipped_after_several_attempts(given: SenderContext) -> None:
    with webhook_receiver(lambda number: (503, {})) as bad, webhook_receiver() as well:
        subscribe(given, bad)
        subscribe(given, well)
        sender = WebPushSender(notifier("push", {}), given)
        for _ in range(2):
            with pytest.raises(RetryLater) as raised:
                sender.send(message())
            assert raised.value.some
        sender.send(message())
        assert (len(bad.posted), len(well.posted)) == (3, 1)


def test_a_long_retry_after_does_not_delay_other_subscriptions(given: SenderContext) -> None:
    with webhook_receiver(lambda number: (429, {"Retry-After": "300"})) as bad, webhook_receiver() as well:
        subscribe(given, bad)
        subscribe(given, well)
        WebPushSender(notifier("push", {}), given).send(message())


def test_a_message_that_no_browser_received_is_retried(given: SenderContext) -> None:
    with webhook_receiver(lambda number: (503 if number < 5 else 201, {})) as there:
        subscribe(given, there)
        sender = WebPushSender(notifier("push", {}), given)
        for _ in range(5):
            with pytest.raises(RetryLater) as raised:
                sender.send(message())
            assert not raised.value.some
        sender.send(message())


def test_a_subscription_that_keeps_failing_is_deleted(given: SenderContext, monkeypatch: pytest.MonkeyPatch) -> None:
    def send(sender: WebPushSender, first: int) -> list[str]:
        for number in range(first, first + web_push._FAILED + 1):
            sender.send(numbered(number))
        return [one.id for one in given.subscriptions.of("OPS")]

    with webhook_receiver(lambda number: (400, {})) as bad, webhook_receiver() as well:
        ids = [subscribe(given, bad), subscribe(given, well)]
        sender = WebPushSender(notifier("push", {}), given)
        assert send(sender, 0) == ids  # many messages in a short time are no reason
        monkeypatch.setattr(web_push, "_FAILING", 0.0)
        assert send(sender, 100) == ids[1:]


def test_an_invalid_subscription_does_not_affect_others(given: SenderContext) -> None:
    given.subscriptions.add(PushSubscription("OPS", "https://x/", "no key", AUTH))
    with webhook_receiver() as well:
        subscribe(given, well)
        WebPushSender(notifier("push", {}), given).send(message())
        assert len(well.posted) == 1


def test_a_user_without_the_right_is_not_notified(given: SenderContext) -> None:
    seen = replace(given, is_shown=lambda owner, query: (owner, query) == ("ann", "ALERT_HOT_0"))
    with webhook_receiver() as ann, webhook_receiver() as bob:
        subscribe(given, ann, "ann")
        subscribe(given, bob, "bob")
        WebPushSender(notifier("push", {}), seen).send(message())
        assert (len(ann.posted), len(bob.posted)) == (1, 0)


def test_the_number_of_subscriptions_is_limited(given: SenderContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(push_subscriptions, "MAX_SUBSCRIPTIONS", 2)
    for number in (0, 1, 1):
        given.subscriptions.add(PushSubscription("OPS", f"https://x/{number}", BROWSER, AUTH))
    with pytest.raises(BadRequest):
        given.subscriptions.add(PushSubscription("OPS", "https://x/2", BROWSER, AUTH))
    given.subscriptions.add(PushSubscription("OTHER", "https://x/2", BROWSER, AUTH))
    given.subscriptions.keep(["OTHER"])
    assert (given.subscriptions.of("OPS"), len(given.subscriptions.of("OTHER"))) == ([], 1)
