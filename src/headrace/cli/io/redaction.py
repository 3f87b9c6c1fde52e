"""Removes secrets and values of records from text that leaves the machine.

Secrets are found by the settings that hold them and by the names of properties. Values of records appear in messages in
quotes, so only known names stay in quotes. A bundle is needed when something is broken: a secret that cannot be read
must not abort it. The run time is linear in the length of any text.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from headrace import secrets
from headrace.errors import HeadraceError
from headrace.secrets import MASK
from headrace.settings import ResolvedSetting

_SECRET = r"password|passwd|passphrase|secret|token|credential|api[._-]?key|private[._-]?key|jaas|sasl\.username"
_NAMED = re.compile(_SECRET, re.IGNORECASE)
# Each name is matched once, from its start and possessively, so that there is no backtracking.
_ASSIGNED = re.compile(
    rf"""(['"](?=[^'"]*?(?:{_SECRET}))[^'"]*+['"]\s*+[=:]\s*+)(['"])(?:(?!\2).)*+\2""", re.IGNORECASE
)
_BARE = re.compile(rf"(?<![\w.-])(?=[\w.-]*?(?:{_SECRET}))([\w.-]++=)[^,;\s]+", re.IGNORECASE)
_REFERENCE = re.compile(r"\$\{[^}]*\}")
_QUOTED = re.compile(r"""(["'])(.*?)\1""")
_SHORTEST = 3  # shorter values occur in any text


@dataclass(frozen=True)
class Redactor:
    """Removes the secrets of one bundle from text."""

    secrets: tuple[str, ...] = ()

    def text(self, text: str) -> str:
        """The text without secrets."""
        for secret in self.secrets:
            text = text.replace(secret, MASK)
        return _BARE.sub(rf"\1{MASK}", _ASSIGNED.sub(rf"\1\2{MASK}\2", secrets.redact(text)))


def redactor_for(origins: Iterable[ResolvedSetting], data: Path) -> Redactor:
    """A redactor for all stored secrets and for the secret settings: their values, secret parts and references."""
    with suppress(OSError):
        _register((f"${{secret:{name}}}" for name in secrets.secret_names(data)), data)
    values: set[str] = set()
    for text in [str(origin.value) for origin in origins if origin.secret and origin.value]:
        _register(_REFERENCE.findall(text), data)
        values |= {text, *(value for name, value in _options(text) if _NAMED.search(name)), *_passwords(text)}
    return Redactor(tuple(sorted((one for one in values if len(one) >= _SHORTEST), key=len, reverse=True)))


def _register(references: Iterable[str], data: Path) -> None:
    """Resolve each reference separately, so that `secrets.redact` knows its value. One that is missing or unreadable
    cannot leak.
    """
    for one in references:
        with suppress(HeadraceError, OSError, ValueError, RuntimeError):  # odd paths raise the last two
            secrets.resolve_secrets(one, data)


def _options(text: str) -> Iterable[tuple[str, str]]:
    """Options as Kafka's client parses them, where a value may contain commas; invalid text is split similarly."""
    try:
        from headrace.log.kafka.client import parse_options

        return parse_options(text).items()
    except (HeadraceError, ImportError):
        pairs = (pair.partition("=") for pair in re.split(r",\s*+(?=[\w.-]++=)", text))
        return [(name, value.strip()) for name, _, value in pairs]


def _passwords(text: str) -> Iterable[str]:
    """The password of a URL: as written, decoded, and encoded again."""
    try:
        password = urlsplit(text).password or ""
    except ValueError:
        return ()
    return password, unquote(password), quote(unquote(password), safe="")


def redact_properties(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {name: MASK if _NAMED.search(name) else value for name, value in properties.items()}


def redact_values(text: str, known: Collection[str]) -> str:
    """The message with every quoted text masked, except known names."""
    return _QUOTED.sub(lambda match: match[0] if match[2] in known else f"{match[1]}...{match[1]}", text)
