"""Consumer groups of an embedded log in their own database: members, assignments, committed offsets.

Any member that notices a join, a leave or a death rebalances, in one transaction. A partition records the generation in
which its owner got it; a commit by another member, or from an earlier ownership, is fenced. Offsets belong to a topic's
id, so a topic that is deleted and created again starts without offsets.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

from headrace.clock import Clock, millis
from headrace.contracts import GroupInfo, Member, TopicPartition
from headrace.errors import GroupFenced, GroupNotEmpty
from headrace.faultpoints import reach
from headrace.log.embedded.groups.assignment import assign
from headrace.log.embedded.ipc.fair_lock import FairLock
from headrace.log.embedded.ipc.owners import is_alive
from headrace.log.embedded.storage.store import transaction, translate_errors
from headrace.log.topic_spec import unknown_group

_TABLES = """
CREATE TABLE IF NOT EXISTS groups (name TEXT PRIMARY KEY, generation INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS members (
    grp TEXT NOT NULL, id TEXT NOT NULL, client TEXT NOT NULL, owner TEXT NOT NULL, topics TEXT NOT NULL,
    seen_at INTEGER NOT NULL, PRIMARY KEY (grp, id)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS assignments (
    grp TEXT NOT NULL, topic TEXT NOT NULL, partition INTEGER NOT NULL, member TEXT NOT NULL,
    generation INTEGER NOT NULL, PRIMARY KEY (grp, topic, partition)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS offsets (
    grp TEXT NOT NULL, topic_id INTEGER NOT NULL, topic TEXT NOT NULL, partition INTEGER NOT NULL,
    offset INTEGER NOT NULL, PRIMARY KEY (grp, topic_id, partition)
) WITHOUT ROWID;
"""


class Membership(NamedTuple):
    """A member's view of its group: its partitions, each with the generation since which it owns it."""

    generation: int
    partitions: dict[TopicPartition, int]


class GroupStore:
    """The database of consumer groups."""

    def __init__(self, folder: Path, clock: Clock, session: timedelta) -> None:
        self._folder = folder
        self._clock = clock
        self.session = session
        self._lock = FairLock.of(folder / "groups.lock")
        self._thread = threading.RLock()
        with translate_errors(folder, "groups.db"), self._lock.held():
            self._db = sqlite3.connect(folder / "groups.db", timeout=30, isolation_level=None, check_same_thread=False)
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = NORMAL")
            self._db.executescript(_TABLES)

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._thread, translate_errors(self._folder, "groups.db"), self._lock.held():
            with transaction(self._db) as db:
                yield db
                reach("group.placed")
            reach("group.committed")

    def _query(self, sql: str, *parameters: object) -> list[tuple]:
        with self._thread, translate_errors(self._folder, "groups.db"):
            return self._db.execute(sql, parameters).fetchall()

    # -- members ----------------------------------------------------------------------------------------------------

    def heartbeat(self, group: str, member: str, client: str, owner: str, subscribed: Mapping[str, int]) -> Membership:
        """Heartbeat of a member with its subscription (topic to number of partitions); rebalances if needed."""
        now = self._clock.now()
        with self._transaction() as db:
            db.execute("INSERT OR IGNORE INTO groups VALUES (?, 0)", (group,))
            db.execute(
                "INSERT INTO members VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE "
                "SET seen_at = excluded.seen_at, topics = excluded.topics",
                (group, member, client, owner, json.dumps(subscribed, sort_keys=True), now),
            )
            self._remove_dead_members(db, group, now)
            self._rebalance(db, group)
        return self.joined(group, member)

    def _remove_dead_members(self, db: sqlite3.Connection, group: str, now: int) -> None:
        rows = db.execute("SELECT id, owner, seen_at FROM members WHERE grp = ?", (group,)).fetchall()
        for member, owner, seen_at in rows:
            if now - seen_at > millis(self.session) or not is_alive(self._folder / "owners", owner):
                db.execute("DELETE FROM members WHERE grp = ? AND id = ?", (group, member))

    def _rebalance(self, db: sqlite3.Connection, group: str) -> bool:
        rows = db.execute("SELECT id, topics FROM members WHERE grp = ?", (group,)).fetchall()
        subscribed = {member: json.loads(topics) for member, topics in rows}
        partitions = {
            TopicPartition(topic, p) for topics in subscribed.values() for topic, n in topics.items() for p in range(n)
        }
        current = {
            TopicPartition(topic, partition): member
            for topic, partition, member in db.execute(
                "SELECT topic, partition, member FROM assignments WHERE grp = ?", (group,)
            )
        }
        assignments = assign({m: frozenset(topics) for m, topics in subscribed.items()}, partitions, current)
        if assignments == current:
            return False
        ((generation,),) = db.execute(
            "UPDATE groups SET generation = generation + 1 WHERE name = ? RETURNING generation", (group,)
        ).fetchall()
        for partition in current.keys() - assignments.keys():
            db.execute("DELETE FROM assignments WHERE grp = ? AND topic = ? AND partition = ?", (group, *partition))
        db.executemany(
            "INSERT OR REPLACE INTO assignments VALUES (?, ?, ?, ?, ?)",
            [(group, *p, member, generation) for p, member in assignments.items() if current.get(p) != member],
        )
        return True

    def joined(self, group: str, member: str) -> Membership:
        """A member's current assignment."""
        with self._thread:
            generation = self.generation(group)
            rows = self._query(
                "SELECT topic, partition, generation FROM assignments WHERE grp = ? AND member = ?", group, member
            )
        return Membership(generation, {TopicPartition(t, p): since for t, p, since in rows})

    def generation(self, group: str) -> int:
        rows = self._query("SELECT generation FROM groups WHERE name = ?", group)
        return rows[0][0] if rows else 0

    def last_seen(self, group: str, member: str) -> int | None:
        """The group's generation, if the member still belongs to it; it may have been declared dead."""
        rows = self._query(
            "SELECT generation FROM groups JOIN members ON grp = name WHERE name = ? AND id = ?", group, member
        )
        return rows[0][0] if rows else None

    def touch(self, group: str, member: str) -> None:
        """Heartbeat only."""
        with self._transaction() as db:
            db.execute("UPDATE members SET seen_at = ? WHERE grp = ? AND id = ?", (self._clock.now(), group, member))

    def leave(self, group: str, member: str) -> None:
        with self._transaction() as db:
            db.execute("DELETE FROM members WHERE grp = ? AND id = ?", (group, member))
            self._rebalance(db, group)

    # -- offsets ----------------------------------------------------------------------------------------------------

    def committed(self, group: str, topic_id: int, partition: int) -> int | None:
        rows = self._query(
            "SELECT offset FROM offsets WHERE grp = ? AND topic_id = ? AND partition = ?", group, topic_id, partition
        )
        return rows[0][0] if rows else None

    def commit(
        self,
        group: str,
        member: str,
        offsets: Mapping[TopicPartition, int],
        since: Mapping[TopicPartition, int],
        ids: Mapping[str, int],
    ) -> None:
        """Commit offsets, all or none, if the member has owned these partitions since the given generations."""
        with self._transaction() as db:
            for partition, offset in offsets.items():
                row = db.execute(
                    "SELECT member, generation FROM assignments WHERE grp = ? AND topic = ? AND partition = ?",
                    (group, *partition),
                ).fetchone()
                if row != (member, since.get(partition)):
                    raise GroupFenced(
                        f'partition {partition} is no longer assigned to this member of group "{group}"',
                        fix="poll again; rows since the last commit are delivered again to the new owner",
                    )
                _store(db, group, ids[partition.topic], partition, offset)

    # -- administration ---------------------------------------------------------------------------------------------

    def names(self) -> list[str]:
        return [name for (name,) in self._query("SELECT name FROM groups ORDER BY name")]

    def info(self, name: str, ids: Mapping[str, int], end: Callable[[int, int], int | None]) -> GroupInfo:
        """Members, offsets and lag; `ids` are the existing topics, `end` returns the end offset of a partition."""
        self._check(name)
        assigned: dict[str, list[TopicPartition]] = {}
        for member, topic, partition in self._query(
            "SELECT member, topic, partition FROM assignments WHERE grp = ? ORDER BY topic, partition", name
        ):
            assigned.setdefault(member, []).append(TopicPartition(topic, partition))
        members = tuple(
            Member(member, client, tuple(assigned.get(member, ())))
            for member, client in self._query("SELECT id, client FROM members WHERE grp = ? ORDER BY id", name)
        )
        offsets = {
            TopicPartition(topic, partition): offset
            for topic_id, topic, partition, offset in self._query(
                "SELECT topic_id, topic, partition, offset FROM offsets WHERE grp = ? ORDER BY topic, partition", name
            )
            if ids.get(topic) == topic_id
        }
        ends = {p: end(ids[p.topic], p.partition) for p in offsets}
        lag = {p: ends[p] - offset for p, offset in offsets.items() if ends[p] is not None}
        return GroupInfo(name, self.generation(name), members, offsets, lag)

    def reset(self, name: str, offsets: Mapping[TopicPartition, int], ids: Mapping[str, int]) -> None:
        with self._transaction() as db:
            db.execute("INSERT OR IGNORE INTO groups VALUES (?, 0)", (name,))
            self._check_idle(db, name)
            for partition, offset in offsets.items():
                _store(db, name, ids[partition.topic], partition, offset)

    def delete(self, name: str) -> None:
        self._check(name)
        with self._transaction() as db:
            self._check_idle(db, name)
            db.execute("DELETE FROM groups WHERE name = ?", (name,))
            for table in ("members", "assignments", "offsets"):
                db.execute(f"DELETE FROM {table} WHERE grp = ?", (name,))

    def _check(self, name: str) -> None:
        if name not in (known := self.names()):
            raise unknown_group(name, known)

    def _check_idle(self, db: sqlite3.Connection, name: str) -> None:
        self._remove_dead_members(db, name, self._clock.now())
        ((members,),) = db.execute("SELECT count(*) FROM members WHERE grp = ?", (name,))
        if members:
            raise GroupNotEmpty(f'group "{name}" has {members} active members', fix="stop them first")
        self._rebalance(db, name)

    def close(self) -> None:
        with self._thread:  # a connection must not be closed while in use
            self._db.close()


def _store(db: sqlite3.Connection, group: str, topic_id: int, partition: TopicPartition, offset: int) -> None:
    db.execute("INSERT OR REPLACE INTO offsets VALUES (?, ?, ?, ?, ?)", (group, topic_id, *partition, offset))
