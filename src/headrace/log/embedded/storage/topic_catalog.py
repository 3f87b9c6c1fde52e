"""The topics of an embedded log, cached in memory until they change."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headrace.contracts import Topic, TopicSpec
from headrace.log.embedded.commit.committer import Committer
from headrace.log.embedded.storage.store import Store
from headrace.log.topic_spec import altered_spec, check_new_topic, parse_spec, spec_text, topic_exists, unknown_topic


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
        found = self.entries().get(name)
        if found is None:
            # Its creator may have died after the commit and before the notification: read again before failing.
            self.refresh()
            found = self._entries.get(name)
        if found is None:
            raise unknown_topic(name)
        return found

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
            self._entries = {row[2]: known.get(row[:2]) or _entry(*row) for row in rows}
            self._seen = seen


def _entry(topic_id: int, version: int, name: str, spec: str, created_at: int) -> TopicEntry:
    return TopicEntry(topic_id, version, Topic(name, parse_spec(spec), created_at))


class TopicChanges:
    """Creates, alters and deletes topics."""

    def __init__(self, catalog: TopicCatalog, committer: Committer) -> None:
        self._catalog = catalog
        self._committer = committer

    def create(self, name: str, spec: TopicSpec, now: int) -> Topic:
        check_new_topic(name, spec)

        def change(db: sqlite3.Connection) -> None:
            if db.execute("SELECT 1 FROM topics WHERE name = ?", (name,)).fetchone():
                raise topic_exists(name)
            made = db.execute(
                "INSERT INTO topics (name, version, spec, created_at) VALUES (?, 1, ?, ?)", (name, spec_text(spec), now)
            )
            assert made.lastrowid is not None
            _add_partitions(db, made.lastrowid, 0, spec.partitions)

        return self._apply(change, name)

    def alter(self, name: str, changes: dict[str, Any]) -> Topic:
        def change(db: sqlite3.Connection) -> None:
            row = db.execute("SELECT id, spec, created_at FROM topics WHERE name = ?", (name,)).fetchone()
            if row is None:
                raise unknown_topic(name)
            old = Topic(name, parse_spec(row[1]), row[2])
            spec = altered_spec(old, changes)
            db.execute("UPDATE topics SET spec = ?, version = version + 1 WHERE id = ?", (spec_text(spec), row[0]))
            _add_partitions(db, row[0], old.partitions, spec.partitions)

        return self._apply(change, name)

    def delete(self, name: str, now: int) -> None:
        def change(db: sqlite3.Connection) -> None:
            row = db.execute("SELECT id FROM topics WHERE name = ?", (name,)).fetchone()
            if row is None:
                raise unknown_topic(name)
            db.execute("DELETE FROM topics WHERE id = ?", row)
            db.execute("DELETE FROM partitions WHERE topic = ?", row)
            # Maintenance removes the files, when no reader can be using them any more.
            db.execute("UPDATE extents SET replaced_at = ? WHERE topic = ? AND replaced_at IS NULL", (now, *row))

        self._committer.change(change)
        self._catalog.refresh()

    def _apply(self, change: Callable[[sqlite3.Connection], None], name: str) -> Topic:
        self._committer.change(change)
        self._catalog.refresh()
        return self._catalog.entry(name).topic


def _add_partitions(db: sqlite3.Connection, topic_id: int, start: int, end: int) -> None:
    db.executemany("INSERT INTO partitions VALUES (?, ?, 0, 0, 0, 0, 0)", [(topic_id, p) for p in range(start, end)])
