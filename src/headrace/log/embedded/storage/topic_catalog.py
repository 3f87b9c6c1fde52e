"""The topics of an embedded log, cached in memory until they change."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path

from headrace.contracts import Topic
from headrace.errors import DamagedLog, HeadraceError
from headrace.log.embedded.storage.damage import CHECK_OR_RESTORE
from headrace.log.embedded.storage.store import Store
from headrace.log.topic_spec import parse_spec, unknown_topic


@dataclass(frozen=True, slots=True)
class TopicEntry:
    """A topic with its id in the database and the version of its spec."""

    id: int
    version: int
    topic: Topic


class TopicCatalog:
    """Reads topics from the store; reads them again after a change by another process."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._seen = -1
        self._entries: dict[str, TopicEntry] = {}

    def entry(self, name: str) -> TopicEntry:
        """The topic with that name, or `UnknownTopic`."""
        entry = self.entries().get(name)
        if entry is None:
            # Its creator may have died after the commit and before the notification: read again before failing.
            self.refresh()
            entry = self._entries.get(name)
        if entry is None:
            raise unknown_topic(name, self._entries)
        return entry

    def entries(self) -> dict[str, TopicEntry]:
        """All topics by name."""
        seen = self._store.commit_signal.page.catalog
        if seen != self._seen:
            self.refresh()
        return self._entries

    def refresh(self) -> None:
        """Read all topics again."""
        with self._lock:
            seen = self._store.commit_signal.page.catalog
            rows = self._store.query("SELECT id, version, name, spec, created_at FROM topics ORDER BY name")
            known = {(entry.id, entry.version): entry for entry in self._entries.values()}
            self._entries = {row[2]: known.get(row[:2]) or _entry(self._store.path, *row) for row in rows}
            self._seen = seen


def _entry(folder: Path, topic_id: int, version: int, name: str, spec: str, created_at: int) -> TopicEntry:
    try:
        return TopicEntry(topic_id, version, Topic(name, parse_spec(spec), created_at))
    except (HeadraceError, ValueError, TypeError, AttributeError, KeyError) as error:
        raise DamagedLog(
            f'the log is damaged: the options of topic "{name}" cannot be read', where=str(folder), fix=CHECK_OR_RESTORE
        ) from error
