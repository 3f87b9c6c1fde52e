"""E-mails: their content, header injection, and the meaning of SMTP errors."""

from __future__ import annotations

import email
import email.policy
import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from headrace.errors import BadSetting, DeliveryRefused
from headrace.notifiers.contract import PartlyDelivered, RetryLater
from headrace.notifiers.email import EmailSender, _server
from headrace.notifiers.log_file import LogFileSender
from headrace.settings import Settings
from tests.notifier_receivers import MailReceiver, mail_receiver
from tests.unit.notifiers.messages import means, message, notice, notifier


def mail(post: MailReceiver, to: str = "ann@example.com, bob@example.com", **options: Any) -> EmailSender:
    settings = Settings.of(
        notifiers_smtp_url=f"smtp://127.0.0.1:{post.port}?tls=none", notifiers_smtp_from="headrace@example.com"
    )
    return EmailSender(notifier("email", {"to": to, **options}), means(settings))


def test_an_email_describes_the_raised_alerts() -> None:
    with mail_receiver() as post:
        mail(post, subject="[ops]").send(message(notice(0), notice(1, "hotter")))
        (text,) = post.mails
    found = email.message_from_string(text, policy=email.policy.default)
    assert found["Subject"] == "[ops] HOT: 2 raised"
    assert (found["To"], found["From"]) == ("ann@example.com, bob@example.com", "headrace@example.com")
    assert found["Message-ID"] == "<m1@headrace>"
    assert abs(found["Date"].datetime - datetime.now(UTC)) < timedelta(hours=1)
    assert found.get_content().splitlines() == ["raised d1: it is hot", "raised d1: hotter"]


def test_values_of_a_record_cannot_inject_headers() -> None:
    with mail_receiver() as post:
        one = notice(0, "x\r\nBcc: eve@example.com\r\n\r\nhello\r\n.\r\nRCPT TO:<eve@example.com>")
        bad = type(one)(**{**vars(one), "target": "d1\r\nBcc: eve@example.com"})
        mail(post).send(message(bad))
        (text,) = post.mails
    found = email.message_from_string(text, policy=email.policy.default)
    assert found["Bcc"] is None
    assert found["Subject"] == "[headrace] HOT raised: d1  Bcc: eve@example.com"
    assert "hello" in found.get_content()


@pytest.mark.parametrize("to", ["ann", "ann@example.com\r\nBcc: eve@example.com", "", "a@b, "])
def test_invalid_addresses_are_refused(to: str) -> None:
    with mail_receiver() as post, pytest.raises(DeliveryRefused):
        mail(post, to).send(message())
    assert post.mails == []


@pytest.mark.parametrize(("answer", "again"), [("450 later", True), ("550 never", False)])
def test_smtp_errors_are_retried_or_final(answer: str, again: bool) -> None:
    with mail_receiver(answer) as post, pytest.raises((RetryLater, DeliveryRefused)) as raised:
        mail(post).send(message())
    assert isinstance(raised.value, RetryLater) == again


def test_only_recipients_that_failed_temporarily_are_retried() -> None:
    """One address is busy for a while, one is none."""
    said = {"ann@example.com": "250 ok", "bob@example.com": "450 later", "eve@example.com": "550 never"}
    with mail_receiver(lambda address: said[address]) as post:
        sender = mail(post, "ann@example.com, bob@example.com, eve@example.com")
        with pytest.raises(RetryLater, match="bob") as raised:
            sender.send(message())
        assert raised.value.some
        said["bob@example.com"] = "250 ok"
        with pytest.raises(PartlyDelivered, match=r"550: eve@example\.com rejected"):
            sender.send(message())
        assert post.taken == [["ann@example.com"], ["bob@example.com"]]


def test_an_error_does_not_reveal_addresses_from_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAIL_TO", "ann@example.com, bob@example.com")
    with mail_receiver("550 never") as post, pytest.raises(DeliveryRefused) as raised:
        mail(post, "${env:MAIL_TO}").send(message())
    assert "@" not in raised.value.what


@pytest.mark.parametrize("bye", ["500 what?", "421 gone", ""])
def test_an_accepted_email_is_sent_whatever_the_reply_to_quit(bye: str) -> None:
    with mail_receiver(bye=bye) as post:
        mail(post).send(message())
    assert len(post.mails) == 1


def test_plain_text_smtp_must_be_allowed_explicitly() -> None:
    with mail_receiver() as post:
        careful = EmailSender(
            notifier("email", {"to": "a@b.c"}), means(Settings.of(notifiers_smtp_url=f"smtp://127.0.0.1:{post.port}"))
        )
        with pytest.raises(RetryLater, match="STARTTLS"):
            careful.send(message())
    assert post.mails == []


def test_a_missing_smtp_url_is_refused() -> None:
    with pytest.raises(BadSetting):
        EmailSender(notifier("email", {"to": "a@b.c"}), means(Settings())).send(message())


def test_the_log_notifier_writes_lines(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "headrace.alerts"):
        LogFileSender(notifier("log", {}), means(Settings())).send(message(notice(0), notice(1, "hotter")))
    assert [(one.levelname, one.getMessage()) for one in caplog.records] == [
        ("ERROR", "HOT raised d1: it is hot"),
        ("ERROR", "HOT raised d1: hotter"),
    ]


def test_a_password_may_contain_url_delimiters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PW", "hunter2/x:y@z")
    url = _server(Settings.of(storage_data=tmp_path, notifiers_smtp_url="smtp://user:${env:PW}@host.example:587"))
    assert (url.hostname, url.port, unquote(url.password or "")) == ("host.example", 587, "hunter2/x:y@z")
    with pytest.raises(BadSetting) as refused:
        _server(Settings.of(storage_data=tmp_path, notifiers_smtp_url="smtp://host.example:hunter2"))
    assert "hunter2" not in str(refused.value)
