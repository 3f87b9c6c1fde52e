"""Creates, alters and deletes topics."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

from headrace.contracts import Topic, TopicSpec
from headrace.log.embedded.commit.committer import Committer
from headrace.log.embedded.storage.topic_catalog import TopicCatalog
from headrace.log.topic_spec import altered_spec, check_new_topic, parse_spec, spec_text, topic_exists, unknown_topic


class TopicChanges:
    """Each change is one commit; the catalog shows it when the call returns."""

    def __init__(self, catalog: TopicCatalog, committer: Committer) -> None:
        self._catalog = catalog
        self._committer = committer

    def create(self, name: str, spec: TopicSpec, now: int) -> Topic:
        check_new_topic(name, spec)

        def change(db: sqlite3.Connection) -> None:
            if db.execute("SELECT 1 FROM topics WHERE name = ?", (name,)).fetchone():
                raise topic_exists(name)
            cursor = db.execute(
                "INSERT INTO topics (name, version, spec, created_at) VALUES (?, 1, ?, ?)", (name, spec_text(spec), now)
            )
            assert cursor.lastrowid is not None
            _add_partitions(db, cursor.lastrowid, 0, spec.partitions)

        return self._apply(change, name)

    def alter(self, name: str, changes: dict[str, Any]) -> Topic:
        def change(db: sqlite3.Connection) -> None:
            row = db.execute("SELECT id, spec, created_at FROM topics WHERE name = ?", (name,)).fetchone()
            if row is None:
                raise unknown_topic(name, self._catalog.entries())
            old = Topic(name, parse_spec(row[1]), row[2])
            spec = altered_spec(old, changes)
            db.execute("UPDATE topics SET spec = ?, version = version + 1 WHERE id = ?", (spec_text(spec), row[0]))
            _add_partitions(db, row[0], old.partitions, spec.partitions)

        return self._apply(change, name)

    def delete(self, name: str, now: int) -> None:
        def change(db: sqlite3.Connection) -> None:
            row = db.execute("SELECT id FROM topics WHERE name = ?", (name,)).fetchone()
            if row is None:
                raise unknown_topic(name, self._catalog.entries())
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
