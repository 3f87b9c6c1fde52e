"""What must not leave the machine is taken out of texts: secrets wherever they stand, and values of records.

Secrets are known by the settings that hold them, and by the names of properties. Values of records get into messages
in quotes; so there only names that are known stay. A bundle is wanted when something is broken: a secret that cannot be
read ends nothing, and a text of any kind takes a time that grows with its length only.
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
from headrace.settings import Origin

_SECRET = r"password|passwd|passphrase|secret|token|credential|api[._-]?key|private[._-]?key|jaas|sasl\.username"
_NAMED = re.compile(_SECRET, re.IGNORECASE)
# A name is looked at once, from its beginning, and then taken as a whole: nothing goes back into it.
_ASSIGNED = re.compile(
    rf"""(['"](?=[^'"]*?(?:{_SECRET}))[^'"]*+['"]\s*+[=:]\s*+)(['"])(?:(?!\2).)*+\2""", re.IGNORECASE
)
_BARE = re.compile(rf"(?<![\w.-])(?=[\w.-]*?(?:{_SECRET}))([\w.-]++=)[^,;\s]+", re.IGNORECASE)
_REFERENCE = re.compile(r"\$\{[^}]*\}")
_QUOTED = re.compile(r"""(["'])(.*?)\1""")
_SHORTEST = 3  # what is shorter stands in any text


@dataclass(frozen=True)
class Mask:
    """Of one bundle."""

    secrets: tuple[str, ...] = ()

    def text(self, text: str) -> str:
        """Without secrets."""
        for secret in self.secrets:
            text = text.replace(secret, MASK)
        return _BARE.sub(rf"\1{MASK}", _ASSIGNED.sub(rf"\1\2{MASK}\2", secrets.masked(text)))


def mask_of(origins: Iterable[Origin], data: Path) -> Mask:
    """For secrets of the settings: each, what is secret in it and what it refers to; and for all that are kept."""
    with suppress(OSError):
        _register((f"${{secret:{name}}}" for name in secrets.kept(data)), data)
    found: set[str] = set()
    for text in [str(origin.value) for origin in origins if origin.secret and origin.value]:
        _register(_REFERENCE.findall(text), data)
        found |= {text, *(value for name, value in _options(text) if _NAMED.search(name)), *_passwords(text)}
    return Mask(tuple(sorted((one for one in found if len(one) >= _SHORTEST), key=len, reverse=True)))


def _register(references: Iterable[str], data: Path) -> None:
    """Each by itself, so that `secrets.masked` knows it: one that is not there, or cannot be read, cannot show."""
    for one in references:
        with suppress(HeadraceError, OSError, ValueError, RuntimeError):  # the last two are of strange paths
            secrets.resolve(one, data)


def _options(text: str) -> Iterable[tuple[str, str]]:
    """As Kafka's client reads them, where a value may have commas; what it would refuse, much the same way."""
    try:
        from headrace.log.kafka.client import parse_options

        return parse_options(text).items()
    except (HeadraceError, ImportError):
        pairs = (pair.partition("=") for pair in re.split(r",\s*+(?=[\w.-]++=)", text))
        return [(name, value.strip()) for name, _, value in pairs]


def _passwords(text: str) -> Iterable[str]:
    """Of a URL: as it stands there, as it is, and as others would write it into one."""
    try:
        written = urlsplit(text).password or ""
    except ValueError:
        return ()
    return written, unquote(written), quote(unquote(written), safe="")


def masked_properties(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {name: MASK if _NAMED.search(name) else value for name, value in properties.items()}


def without_values(text: str, known: Collection[str]) -> str:
    """A message in which only known names stand in quotes."""
    return _QUOTED.sub(lambda found: found[0] if found[2] in known else f"{found[1]}...{found[1]}", text)
