"""Views in SQLite, one file each.

The file holds the rows, the state they reflect and the view's origin. It is in WAL mode: readers and the writer do not
block each other. Commits are not synced one by one: a crash of the machine may take the view back to an earlier commit,
rows and position together, and the missing records are read from the topic again.

If the file belongs to another view (other columns, another topic, a recreated topic), or if it is damaged, the view is
rebuilt; a file of another layout, or one that is not a view, is refused.
"""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from headrace.clock import millis
from headrace.errors import Closed, ColumnNotFound, DamagedLog, ViewDamaged, ViewUnreadable, suggestion
from headrace.faultpoints import reach
from headrace.log.embedded.storage.store import transaction, translate_errors
from headrace.plan.analysis.lookup import EVERYTHING, Selection
from headrace.plan.relations import Relation
from headrace.plan.sources import SourceInfo
from headrace.plan.steps import Event, Key
from headrace.private_folder import make_private
from headrace.views.contract import SCAN_BATCH_ROWS, Position, ViewSnapshot, ViewState, view_replaced
from headrace.views.sqlite_table import SqliteTable
from headrace.watched_lock import WatchedLock

LAYOUT_VERSION = 1
_PATIENCE = timedelta(seconds=30)
_CACHE_KB = 16_384
"""For the writer: keys arrive in any order, and each is looked up."""
_CREATE = """
CREATE TABLE facts (layout INTEGER NOT NULL, origin TEXT NOT NULL);
CREATE TABLE state (version INTEGER NOT NULL, position TEXT NOT NULL, stream_time INTEGER NOT NULL,
                    skipped INTEGER NOT NULL, rebuilt INTEGER NOT NULL, reason TEXT NOT NULL);
CREATE TABLE indexes (number INTEGER PRIMARY KEY, columns TEXT NOT NULL);
INSERT INTO state VALUES (0, '{}', -1, 0, 0, '');
"""
_logger = logging.getLogger(__name__)
_STATE = "SELECT version, position, stream_time, skipped, rebuilt, reason FROM state"


class SqliteView:
    """`View` in one file. `origin` identifies what it is built from: if the stored one differs, the view is rebuilt."""

    def __init__(self, path: Path, relation: Relation, origin: str) -> None:
        self.path, self.relation = path, relation
        self.table = SqliteTable(relation)
        self._lock = WatchedLock("file of a view")
        self._idle: list[sqlite3.Connection] = []
        self._closed = False
        retention = relation.window.retention if relation.window else None
        self._retention = None if retention is None else millis(retention)
        self._origin = origin
        self._damage = ""
        make_private(path.parent)
        try:
            self._open()
        except ViewDamaged:
            self.recover()

    def _open(self) -> None:
        with self._translated():
            self._writer = _connection(self.path)  # first: `recover` closes it if the file is damaged
            self._writer.execute("PRAGMA journal_mode = WAL")
            self._writer.execute("PRAGMA synchronous = NORMAL")
            self._writer.execute(f"PRAGMA cache_size = -{_CACHE_KB}")
            with self._writing() as db:
                self._prepare(db, self._origin)

    def recover(self) -> bool:
        if not self._damage:
            return False
        _logger.warning("view %s is rebuilt from its topic: its file was damaged: %s", self.path.stem, self._damage)
        with self._lock:
            self._disconnect()
            self._idle = []
            self._unlink()
        reason = self._damage
        self._open()
        with self._writing() as db:
            _moved(db, ViewState(), ViewState(1, {}, -1, 0, 1, f"its file was damaged: {reason}"))
        self._damage = ""  # last: if the disk is full, the next call tries again
        return True

    # -- reading ----------------------------------------------------------------------------------------------------

    def state(self) -> ViewState:
        with self.snapshot() as snapshot:
            return snapshot.state

    @contextmanager
    def snapshot(self) -> Iterator[SqliteSnapshot]:
        """Opens a read transaction. Connections are reused: opening one takes longer than looking up a row."""
        idle = self._idle  # first: `recover` may replace it while a connection is opened
        db = self._reader()
        try:
            db.execute("BEGIN")
            try:
                yield SqliteSnapshot(db, self.table)
            finally:
                db.execute("ROLLBACK")
        except sqlite3.DatabaseError as error:
            raise self._as_headrace_error(error) from error
        finally:
            # After `recover`, a connection from before is to a file that is gone.
            db.close() if self._closed or idle is not self._idle else idle.append(db)

    def _reader(self) -> sqlite3.Connection:
        if self._closed:
            raise Closed(f'view "{self.path.stem}" is closed', fix="open it again")
        try:
            return self._idle.pop()
        except IndexError:
            return _connection(self.path)

    def indexes(self) -> list[tuple[str, ...]]:
        with self.snapshot() as snapshot:
            return [tuple(json.loads(text)) for (text,) in snapshot.rows("SELECT columns FROM indexes ORDER BY number")]

    # -- writing ----------------------------------------------------------------------------------------------------

    def apply(
        self, begun: ViewState, events: Sequence[Event], position: Position, *, skipped: int = 0
    ) -> ViewState | None:
        # The key is also in the value, since of equal keys (0.0 and -0.0) the last one is stored.
        latest = {(stored := self.table.stored_key(key)): (stored, time, row) for time, key, row in events if key}
        state = begun.after(events, position, skipped)
        with self._writing() as db:
            if not _moved(db, begun, state):
                return None
            values, version = self.table.values.stored, state.version
            deleted = [key for key, _, row in latest.values() if row is None]
            db.executemany(self.table.delete, deleted)
            reach("view-half")
            upserted = ((*key, time, version, *values(row)) for key, time, row in latest.values() if row is not None)
            db.executemany(self.table.put, upserted)
            if self._retention is not None:
                db.execute("DELETE FROM rows WHERE we < ?", (state.stream_time - self._retention,))
            reach("view-whole")
        return state

    def restart(self, begun: ViewState, reason: str) -> ViewState | None:
        state = begun.anew(reason)
        with self._writing() as db:
            if not _moved(db, begun, state):
                return None
            db.execute("DELETE FROM rows")
        return state

    def create_index(self, columns: Sequence[str]) -> None:
        names = [self._place(column) for column in columns]
        with self._writing() as db:
            text = json.dumps(list(columns))
            if db.execute("SELECT 1 FROM indexes WHERE columns = ?", (text,)).fetchone():
                return
            number = db.execute("INSERT INTO indexes (columns) VALUES (?)", (text,)).lastrowid
            db.execute(f"CREATE INDEX own{number} ON rows ({', '.join(names)})")

    def drop_index(self, columns: Sequence[str]) -> None:
        text = json.dumps(list(columns))
        with self._writing() as db:
            for (number,) in db.execute("SELECT number FROM indexes WHERE columns = ?", (text,)).fetchall():
                db.execute("DELETE FROM indexes WHERE number = ?", (number,))
                db.execute(f"DROP INDEX own{number}")

    def close(self) -> None:
        self._closed = True
        with self._lock:  # a connection that is in use must not be closed
            self._disconnect()

    def _disconnect(self) -> None:
        while self._idle:
            self._idle.pop().close()
        self._writer.close()

    def remove(self) -> None:
        self.close()
        self._unlink()

    def _unlink(self) -> None:
        for suffix in ("", "-wal", "-shm"):
            Path(f"{self.path}{suffix}").unlink(missing_ok=True)

    # ---------------------------------------------------------------------------------------------------------------

    def _place(self, column: str) -> str:
        entry = self.table.places.get(column)
        if entry is None:
            known = ", ".join(self.table.places)
            raise ColumnNotFound(
                f'the view has no column "{column}"',
                fix=suggestion(column, self.table.places, f"its columns are: {known}"),
            )
        return entry[0]

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction."""
        with self._lock, self._translated(), transaction(self._writer) as db:
            yield db

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            with translate_errors(self.path.parent):
                yield
        except DamagedLog as error:
            raise self._as_headrace_error(error.__cause__ or error) from error

    def _as_headrace_error(self, error: BaseException) -> BaseException:
        """SQLite's plain DatabaseError is a file that is damaged or not SQLite's; others are bugs in headrace.

        A damaged view is marked, so that `recover` rebuilds it.
        """
        if type(error) not in (sqlite3.DatabaseError, UnicodeDecodeError):
            return error
        self._damage = str(error)
        return ViewDamaged(
            f'view "{self.path.stem}" is damaged, and is rebuilt from its topic: {error}',
            where=str(self.path),
            fix="try again when it is rebuilt; check the disk",
        )

    def _prepare(self, db: sqlite3.Connection, origin: str) -> None:
        """Creates or checks the tables; rebuilds the view if its origin has changed."""
        tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if not tables:
            _begin(db, self.table, origin)
            return
        if "facts" not in tables:
            raise self._unreadable("it is no view")
        ((layout, noted),) = db.execute("SELECT layout, origin FROM facts")
        if layout != LAYOUT_VERSION:
            raise self._unreadable(f"its layout is {layout}, and this version knows {LAYOUT_VERSION}")
        if noted != origin:
            _reset(db, self.table, origin)

    def _unreadable(self, reason: str) -> ViewUnreadable:
        return ViewUnreadable(
            f'view "{self.path.stem}" cannot be read: {reason}',
            where=str(self.path),
            fix="remove the file; the view is then rebuilt from its topic",
        )


def export_view(snapshot: ViewSnapshot, path: Path, relation: Relation, origin: str) -> None:
    """Writes a snapshot of any view to a SQLite file, with all of its rows, including those of old windows."""
    window = relation.window and replace(relation.window, retention=None)
    with closing(SqliteView(path, replace(relation, window=window), origin)) as copy:
        state = copy.apply(copy.state(), [], snapshot.state.position)
        for events in snapshot.scan():
            assert state is not None  # the file has no other writer
            state = copy.apply(state, events, {})


class SqliteReader:
    """Reads the file of a view that another process keeps open, as long as it is that of the same table."""

    def __init__(self, path: Path, source: SourceInfo, origin: str) -> None:
        self._path, self._name, self._origin = path, source.name, origin
        self._table = SqliteTable(source.relation)

    @contextmanager
    def snapshot(self) -> Iterator[SqliteSnapshot]:
        with closing(self._connection()) as db:
            db.execute("PRAGMA query_only = ON")
            db.execute("BEGIN")
            if _origin(db) != self._origin:
                raise view_replaced(self._name)
            yield SqliteSnapshot(db, self._table)

    def _connection(self) -> sqlite3.Connection:
        """A connection that does not create the file of a dropped view."""
        try:
            return _connection(self._path, "rw")
        except sqlite3.OperationalError:
            if self._path.exists():
                raise
            raise view_replaced(self._name) from None


class SqliteSnapshot:
    """A read transaction, which begins with the first read."""

    def __init__(self, db: sqlite3.Connection, table: SqliteTable) -> None:
        self._db, self._table = db, table
        self.state = _state(db)

    def get(self, keys: Iterable[Key]) -> list[Event]:
        execute, statement, stored = self._db.execute, self._table.get, self._table.stored_key
        rows = [row for key in keys for row in execute(statement, stored(key))]
        return self._table.events(rows)  # type: ignore[return-value] - rows of the table are events

    def scan(self, selection: Selection = EVERYTHING, *, batch: int = SCAN_BATCH_ROWS) -> Generator[list[Event]]:
        with closing(self._db.execute(*self._table.scan(selection))) as cursor:
            while rows := cursor.fetchmany(batch):
                yield self._table.events(rows)  # type: ignore[misc] - rows of the table are events

    def count(self) -> int:
        return self.rows("SELECT count(*) FROM rows")[0][0]

    def rows(self, statement: str) -> list[Any]:
        return self._db.execute(statement).fetchall()


def _connection(path: Path, mode: str = "rwc") -> sqlite3.Connection:
    place = f"{path.absolute().as_uri()}?mode={mode}"
    seconds = _PATIENCE.total_seconds()
    return sqlite3.connect(place, timeout=seconds, isolation_level=None, check_same_thread=False, uri=True)


def _origin(db: sqlite3.Connection) -> str | None:
    """What the view of a file is built from; None if it has just been created."""
    if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'facts'").fetchall():
        return None
    ((origin,),) = db.execute("SELECT origin FROM facts")
    return origin


def _state(db: sqlite3.Connection) -> ViewState:
    version, position, *others = db.execute(_STATE).fetchone()
    return ViewState(version, {int(partition): offset for partition, offset in json.loads(position).items()}, *others)


def _moved(db: sqlite3.Connection, begun: ViewState, state: ViewState) -> bool:
    """Stores the new state; False if the view no longer has the old one."""
    statement = (
        "UPDATE state SET version = ?, position = ?, stream_time = ?, skipped = ?, rebuilt = ?, reason = ? "
        "WHERE version = ?"
    )
    facts = (state.stream_time, state.skipped, state.rebuilt, state.reason)
    return db.execute(statement, (state.version, json.dumps(state.position), *facts, begun.version)).rowcount == 1


def _begin(db: sqlite3.Connection, table: SqliteTable, origin: str) -> None:
    for statement in (*_CREATE.split(";")[:-1], *table.create):
        db.execute(statement)
    db.execute("INSERT INTO facts VALUES (?, ?)", (LAYOUT_VERSION, origin))


def _reset(db: sqlite3.Connection, table: SqliteTable, origin: str) -> None:
    """Recreates the file for another view; its version keeps rising."""
    before = _state(db)
    for name in ("rows", "state", "indexes", "facts"):
        db.execute(f"DROP TABLE {name}")
    _begin(db, table, origin)
    _moved(db, ViewState(), ViewState(before.version + 1, {}, -1, 0, before.rebuilt + 1, "the table is another"))
