"""What must not leave the machine is taken out of texts: secrets wherever they stand, and values of records.

Secrets are known by the settings that hold them, and by the names of properties. Values of records get into messages
in quotes; so there only names that are known stay.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from headrace.settings import Origin

MASK = "********"
_SECRET = r"password|passwd|passphrase|secret|token|credential|api[._-]?key|private[._-]?key|jaas|sasl\.username"
_NAMED = re.compile(_SECRET, re.IGNORECASE)
_ASSIGNED = re.compile(rf"""(['"][^'"]*(?:{_SECRET})[^'"]*['"]\s*[=:]\s*)(['"])(?:(?!\2).)*\2""", re.IGNORECASE)
_BARE = re.compile(rf"(\b[\w.-]*(?:{_SECRET})[\w.-]*=)[^,;\s]+", re.IGNORECASE)
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
        return _BARE.sub(rf"\1{MASK}", _ASSIGNED.sub(rf"\1\2{MASK}\2", text))


def mask_of(origins: Iterable[Origin]) -> Mask:
    """For secrets of the settings: the whole of each, and what is secret in it."""
    found: set[str] = set()
    for origin in origins:
        if origin.secret and origin.value:
            pairs = (pair.partition("=") for pair in str(origin.value).split(","))
            found |= {str(origin.value), *(value.strip() for name, _, value in pairs if _NAMED.search(name))}
    return Mask(tuple(sorted((one for one in found if len(one) >= _SHORTEST), key=len, reverse=True)))


def masked_properties(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {name: MASK if _NAMED.search(name) else value for name, value in properties.items()}


def without_values(text: str, known: Collection[str]) -> str:
    """A message in which only known names stand in quotes."""
    return _QUOTED.sub(lambda found: found[0] if found[2] in known else f"{found[1]}...{found[1]}", text)
