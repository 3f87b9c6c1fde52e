"""Sends e-mails through the SMTP server that setting `notifiers.smtp_url` names.

The message's id is the Message-ID, so a repeated mail can be recognized. Values of records appear only in the text or,
on one line, in the subject: they cannot inject headers. A recipient that has the mail does not get it again because
another address was rejected.
"""

from __future__ import annotations

import smtplib
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.errors import MessageError
from email.headerregistry import Address
from email.message import EmailMessage
from email.utils import format_datetime
from urllib.parse import SplitResult, parse_qs, quote, unquote, urlsplit

from headrace.errors import BadSetting, DeliveryRefused, HeadraceError
from headrace.notifiers.contract import Message, PartlyDelivered, SenderContext, retry_later
from headrace.plan.notifiers import Notifier
from headrace.secrets import resolve_secrets
from headrace.settings import Settings

_PATIENCE = 20.0  # seconds
_MAX_SUBJECT = 200  # characters of a subject
_PORTS = {"smtp": 587, "smtps": 465}
_SEE = "see the mail server's documentation of the code"


@dataclass
class EmailProgress:
    """Progress of one message: the addresses that accepted it, and those permanently rejected, with the SMTP code."""

    message: str = ""
    accepted: set[str] = field(default_factory=set)
    rejected: dict[str, int] = field(default_factory=dict)


class EmailSender:
    def __init__(self, notifier: Notifier, context: SenderContext) -> None:
        self._options = notifier.options
        self._settings = context.settings
        self._progress = EmailProgress()

    def send(self, message: Message) -> None:
        mail = self._mail_message(message)
        addresses = [str(one.addr_spec) for one in mail["To"].addresses]
        if self._progress.message != message.id:
            self._progress = EmailProgress(message.id)
        done = self._progress.accepted | self._progress.rejected.keys()
        remaining = [address for address in addresses if address not in done]
        self._record_results(remaining, self._refused(mail, remaining) if remaining else {})

    def _record_results(self, recipients: Sequence[str], refused: Mapping[str, int]) -> None:
        """Retry temporarily rejected addresses; report permanently rejected ones when no others are left."""
        progress, waiting = self._progress, {address: code for address, code in refused.items() if code < 500}
        progress.accepted.update(address for address in recipients if address not in refused)
        progress.rejected.update({address: code for address, code in refused.items() if code >= 500})
        if waiting:
            what = f"the mail server responded with {min(waiting.values())}: {self._addresses(waiting)} rejected"
            raise retry_later(what, some=bool(progress.accepted))
        if progress.rejected:
            addresses = self._addresses(progress.rejected)
            what = f"the mail server responded with {min(progress.rejected.values())}: {addresses} rejected"
            raise (PartlyDelivered if progress.accepted else DeliveryRefused)(what, fix=_SEE)

    def _addresses(self, addresses: Mapping[str, int]) -> str:
        """Addresses for an error message: a reference may be a secret, and then so are the addresses in it."""
        return f"{len(addresses)} addresses" if "${" in self._options["to"] else ", ".join(addresses)

    def _refused(self, mail: EmailMessage, to: list[str]) -> dict[str, int]:
        """Send the mail; returns the rejected addresses with the SMTP codes."""
        try:
            with _opened(_server(self._settings)) as server:
                refused = server.send_message(mail, to_addrs=to)
        except smtplib.SMTPRecipientsRefused as error:
            refused = error.recipients
        except smtplib.SMTPResponseException as error:
            raise self._rejected(error.smtp_code) from error
        except ssl.SSLCertVerificationError as error:
            raise DeliveryRefused(
                f"the certificate of the mail server is not trusted: {error.verify_message}"
            ) from error
        except (smtplib.SMTPException, OSError) as error:
            raise retry_later(
                f"the mail server cannot be reached: {error}", some=bool(self._progress.accepted)
            ) from error
        return {address: code for address, (code, _) in refused.items()}

    def _rejected(self, code: int) -> HeadraceError:
        what = f"the mail server responded with {code}: the message was rejected"
        if code < 500:
            return retry_later(what, some=bool(self._progress.accepted))
        return (PartlyDelivered if self._progress.accepted else DeliveryRefused)(what, fix=_SEE)

    def _mail_message(self, message: Message) -> EmailMessage:
        mail = EmailMessage()
        try:
            mail["From"] = _address(self._settings.notifiers.smtp_from)
            mail["To"] = tuple(
                _address(one)
                for one in resolve_secrets(self._options["to"], self._settings.storage.data).reveal().split(",")
            )
        except (ValueError, IndexError, MessageError) as error:  # the library raises IndexError for an empty text
            raise DeliveryRefused(f"an address is not valid: {error}", fix="write name@example.com") from error
        mail["Subject"] = _line(f"{self._options['subject']} {message.title}")
        mail["Date"] = format_datetime(datetime.now(UTC))
        mail["Message-ID"] = f"<{message.id}@headrace>"
        mail.set_content("\n".join(map(_line_of_text, message.lines)))
        return mail


def _line(text: str) -> str:
    """One line of printable characters."""
    return "".join(character if character.isprintable() else " " for character in text)[:_MAX_SUBJECT]


def _line_of_text(text: str) -> str:
    return "".join(character if character.isprintable() or character in "\n\t" else " " for character in text)


def _address(text: str) -> Address:
    return Address(addr_spec=text.strip())


def _server(settings: Settings) -> SplitResult:
    url = urlsplit(
        resolve_secrets(
            settings.notifiers.smtp_url, settings.storage.data, lambda secret: quote(secret, safe="")
        ).reveal()
    )
    if url.scheme not in _PORTS or not url.hostname or not _has_port(url):
        raise BadSetting(
            'setting "notifiers.smtp_url" is not the address of a mail server',
            fix="write smtp://user:password@host:587, or smtps://host:465",
        )
    return url


def _has_port(url: SplitResult) -> bool:
    """Whether the port is valid or absent. The library's own error would show the text, which may be a password."""
    with suppress(ValueError):
        return url.port is None or url.port > 0
    return False


@contextmanager
def _opened(url: SplitResult) -> Iterator[smtplib.SMTP]:
    """Errors on QUIT are ignored: the server has accepted the mail by then."""
    server = _connected(url)
    try:
        yield server
        with suppress(smtplib.SMTPException, OSError):
            server.quit()
    finally:
        server.close()


def _connected(url: SplitResult) -> smtplib.SMTP:
    """Connects with TLS, unless the setting turns it off."""
    host, port = url.hostname or "", url.port or _PORTS[url.scheme]
    if url.scheme == "smtps":
        server: smtplib.SMTP = smtplib.SMTP_SSL(host, port, timeout=_PATIENCE, context=ssl.create_default_context())
    else:
        server = smtplib.SMTP(host, port, timeout=_PATIENCE)
    try:
        if url.scheme == "smtp" and parse_qs(url.query).get("tls") != ["none"]:
            server.starttls(context=ssl.create_default_context())
        if url.username:
            server.login(unquote(url.username), unquote(url.password or ""))
    except BaseException:
        server.close()
        raise
    return server
