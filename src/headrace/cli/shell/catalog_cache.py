"""Names in the server's catalog, for completion: fetched on demand, and again when they may have changed."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from headrace.client import Client
from headrace.errors import HeadraceError

_STATEMENTS = "DESCRIBE STREAMS; DESCRIBE TABLES; LIST TOPICS; LIST FUNCTIONS; LIST QUERIES;"
_FRESH = 30.0  # seconds; other clients may change the catalog


@dataclass(frozen=True)
class CatalogNames:
    """Names in the catalog; `sources` maps each source to the names of its columns."""

    sources: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    topics: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    queries: tuple[str, ...] = ()


class CatalogCache:
    """Thread-safe. If the server does not respond, the previous names stay."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._lock = threading.Lock()
        self.current = CatalogNames()
        """The names fetched last."""
        self._fetched_at: float | None = None

    def known(self) -> CatalogNames:
        with self._lock:
            if self._fetched_at is None or time.monotonic() - self._fetched_at > _FRESH:
                self._fetched_at = time.monotonic()
                with suppress(HeadraceError):
                    self.current = catalog_names(self._client.execute(_STATEMENTS))
            return self.current

    def forget(self) -> None:
        """Invalidate the names: the catalog may have changed."""
        self._fetched_at = None


def catalog_names(entities: Iterable[Mapping[str, Any]]) -> CatalogNames:
    """The names in the server's responses."""
    documents = list(entities)
    sources = _all(documents, "sourceDescriptions")
    return CatalogNames(
        {one["name"]: tuple(column["name"] for column in one["fields"]) for one in sources},
        tuple(one["name"] for one in _all(documents, "topics")),
        tuple(one["name"] for one in _all(documents, "functions")),
        tuple(one["id"] for one in _all(documents, "queries")),
    )


def _all(entities: Iterable[Mapping[str, Any]], name: str) -> list[Mapping[str, Any]]:
    return [one for entity in entities for one in entity.get(name) or ()]
