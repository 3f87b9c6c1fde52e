"""What there is on the server to be named: asked for when it is needed, and again when it may have changed."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from headrace.client import Client
from headrace.errors import HeadraceError

_ASKED = "DESCRIBE STREAMS; DESCRIBE TABLES; LIST TOPICS; LIST FUNCTIONS; LIST QUERIES;"
_FRESH = 30.0  # seconds; others may change things, too


@dataclass(frozen=True)
class Known:
    """Sources have the names of their columns."""

    sources: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    topics: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    queries: tuple[str, ...] = ()


class Names:
    """May be asked from any thread. A server that does not answer leaves what was known before."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._lock = threading.Lock()
        self.at_hand = Known()
        """What is known already."""
        self._asked_at: float | None = None

    def known(self) -> Known:
        with self._lock:
            if self._asked_at is None or time.monotonic() - self._asked_at > _FRESH:
                self._asked_at = time.monotonic()
                with suppress(HeadraceError):
                    self.at_hand = known_of(self._client.execute(_ASKED))
            return self.at_hand

    def forget(self) -> None:
        """There may be others now."""
        self._asked_at = None


def known_of(entities: Iterable[Mapping[str, Any]]) -> Known:
    """What the answers name."""
    found = list(entities)
    sources = _all(found, "sourceDescriptions")
    return Known(
        {one["name"]: tuple(column["name"] for column in one["fields"]) for one in sources},
        tuple(one["name"] for one in _all(found, "topics")),
        tuple(one["name"] for one in _all(found, "functions")),
        tuple(one["id"] for one in _all(found, "queries")),
    )


def _all(entities: Iterable[Mapping[str, Any]], name: str) -> list[Mapping[str, Any]]:
    return [one for entity in entities for one in entity.get(name) or ()]
