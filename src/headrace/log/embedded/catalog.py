"""The topics of an embedded log, kept in memory while nobody changes them."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headrace.contracts import Topic, TopicSpec
from headrace.log.embedded.committer import Committer
from headrace.log.embedded.store import Store
from headrace.log.topics import changed, check_new, exists, spec_of, spec_text, unknown


@dataclass(frozen=True, slots=True)
class Entry:
    """A topic with the database's id and the version of its spec."""

    id: int
    version: int
    topic: Topic


class Catalog:
    """Reads topics from the store; re-reads them when another process says that they changed."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._seen = -1
        self._entries: dict[str, Entry] = {}

    def entry(self, name: str) -> Entry:
        """The topic of that name, or `UnknownTopic`."""
        found = self.entries().get(name)
        if found is None:
            # Whoever made it may have died between its commit and telling us: look before saying no.
            self.refresh()
            found = self._entries.get(name)
        if found is None:
            raise unknown(name)
        return found

    def entries(self) -> dict[str, Entry]:
        """All topics by name."""
        seen = self._store.bell.page.catalog
        if seen != self._seen:
            self.refresh()
        return self._entries

    def refresh(self) -> None:
        """Read all topics anew."""
        with self._lock:
            seen = self._store.bell.page.catalog
            rows = self._store.query("SELECT id, version, name, spec, created_at FROM topics ORDER BY name")
            known = {(entry.id, entry.version): entry for entry in self._entries.values()}
            self._entries = {row[2]: known.get(row[:2]) or _entry(*row) for row in rows}
            self._seen = seen


def _entry(topic_id: int, version: int, name: str, spec: str, created_at: int) -> Entry:
    return Entry(topic_id, version, Topic(name, spec_of(spec), created_at))


class Changes:
    """Creates, alters and deletes topics."""

    def __init__(self, catalog: Catalog, committer: Committer) -> None:
        self._catalog = catalog
        self._committer = committer

    def create(self, name: str, spec: TopicSpec, now: int) -> Topic:
        check_new(name, spec)

        def change(db: sqlite3.Connection) -> None:
            if db.execute("SELECT 1 FROM topics WHERE name = ?", (name,)).fetchone():
                raise exists(name)
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
                raise unknown(name)
            old = Topic(name, spec_of(row[1]), row[2])
            spec = changed(old, changes)
            db.execute("UPDATE topics SET spec = ?, version = version + 1 WHERE id = ?", (spec_text(spec), row[0]))
            _add_partitions(db, row[0], old.partitions, spec.partitions)

        return self._apply(change, name)

    def delete(self, name: str, now: int) -> None:
        def change(db: sqlite3.Connection) -> None:
            row = db.execute("SELECT id FROM topics WHERE name = ?", (name,)).fetchone()
            if row is None:
                raise unknown(name)
            db.execute("DELETE FROM topics WHERE id = ?", row)
            db.execute("DELETE FROM partitions WHERE topic = ?", row)
            # Files are removed by upkeep, when no reader can still be at them.
            db.execute("UPDATE extents SET replaced_at = ? WHERE topic = ? AND replaced_at IS NULL", (now, *row))

        self._committer.change(change)
        self._catalog.refresh()

    def _apply(self, change: Callable[[sqlite3.Connection], None], name: str) -> Topic:
        self._committer.change(change)
        self._catalog.refresh()
        return self._catalog.entry(name).topic


def _add_partitions(db: sqlite3.Connection, topic_id: int, start: int, end: int) -> None:
    db.executemany("INSERT INTO partitions VALUES (?, ?, 0, 0, 0, 0, 0)", [(topic_id, p) for p in range(start, end)])
