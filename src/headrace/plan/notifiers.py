"""Notifiers: where the notices of alerts are sent. Each kind declares its options here; `headrace.notifiers` sends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from headrace.component import Component, Option, component, register
from headrace.errors import BadOption
from headrace.secrets import is_reference

KIND = "notifier"
_WAIT = Option(
    "wait",
    timedelta,
    "How long further notices of the same alert are waited for, to go with the first as one message.",
    timedelta(seconds=2),
)
_PATIENCE = Option(
    "patience",
    timedelta,
    "How long a message is tried again that does not get through; then it is a dead letter.",
    timedelta(minutes=10),
)
_SENT = (_WAIT, _PATIENCE)

WEBHOOK, EMAIL, PUSH, LOG = (
    register(Component(KIND, name, summary, dict, (*options, *_SENT)))
    for name, summary, options in (
        (
            "webhook",
            "A POST of JSON, signed, to a URL.",
            (
                Option("url", str, "Where to: https://..., or a reference to it."),
                Option("secret", str, "What the message is signed with, as a reference: ${env:NAME}.", "", secret=True),
                Option("authorization", str, "The header of that name, as a reference.", "", secret=True),
            ),
        ),
        (
            "email",
            "An e-mail, by the SMTP server of setting `notifiers.smtp_url`.",
            (
                Option("to", str, "Addresses, with commas between them."),
                Option("subject", str, "What the subject begins with.", "[headrace]"),
            ),
        ),
        ("push", "A notification in browsers that have subscribed (`POST /notifiers/{notifier}/subscriptions`).", ()),
        ("log", "A line in the server's log file.", ()),
    )
)


@dataclass(frozen=True)
class Notifier:
    """A notifier as declared by a statement. `options` contain references to secrets, never their values."""

    name: str
    kind: str
    options: Mapping[str, Any] = field(default_factory=dict)


def notifier(name: str, kind: str, options: Mapping[str, Any]) -> Notifier:
    """Creates a notifier; checks the kind and its options."""
    definition = component(KIND, kind)
    values = definition.parse(options)
    for option in definition.options:
        if option.secret and values[option.name] and not is_reference(values[option.name]):
            raise BadOption(
                f'option "{option.name}" is a secret and cannot be written in a statement',
                fix="write '${env:NAME}' or '${file:PATH}', and store the secret there",
            )
    return Notifier(name, kind, values)
