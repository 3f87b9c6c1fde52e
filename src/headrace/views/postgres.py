"""Views in PostgreSQL: one schema per data folder, with one table per view and one table for their states.

A transaction that changes rows first advances the view's state from the version and position that the changes were read
from; if another server has advanced it already, the update matches no row and nothing is applied. So any number of
servers may materialize the same view. Commits do not wait for the disk: a crash of the database may take a view back to
an earlier commit, rows and position together, and the missing records are read from the topic again.

The database is not contacted before a view is used, so a server starts without it. If the schema is dropped, the views
are rebuilt. If another server has recreated a view for another table, a server that knows the old table gets an error.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any

from pg8000.exceptions import DatabaseError

from headrace.clock import millis
from headrace.contracts import Topic
from headrace.errors import Closed, ColumnNotFound, DatabaseRefused, DatabaseUnreachable, ViewUnreadable, suggestion
from headrace.faultpoints import reach
from headrace.plan.analysis.lookup import EVERYTHING, Selection
from headrace.plan.relations import Relation
from headrace.plan.sources import SourceInfo
from headrace.plan.steps import Event, Key
from headrace.views.contract import SCAN_BATCH_ROWS, Position, ViewState, view_replaced
from headrace.views.materializer import origin_fingerprint
from headrace.views.postgres_connection import UNDEFINED_TABLE, ConnectionPool, PostgresSession, sqlstate
from headrace.views.postgres_table import PostgresTable, array_literal
from headrace.views.sqlite import export_view

LAYOUT_VERSION = 1
_SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_STATE = "version, position, stream_time, skipped, rebuilt, reason"
_CREATE = """
CREATE TABLE {schema}.views (
    number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name TEXT NOT NULL UNIQUE, layout BIGINT NOT NULL,
    origin TEXT NOT NULL, version BIGINT NOT NULL, position TEXT NOT NULL, stream_time BIGINT NOT NULL,
    skipped BIGINT NOT NULL, rebuilt BIGINT NOT NULL, reason TEXT NOT NULL);
CREATE TABLE {schema}.indexes (
    number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    view BIGINT NOT NULL REFERENCES {schema}.views ON DELETE CASCADE, columns TEXT NOT NULL);
"""


class PostgresStore:
    """Stores the views of a data folder."""

    is_near = False

    def __init__(self, folder: Path, url: str) -> None:
        self.schema = f"headrace_{sha256(str(folder.resolve()).encode()).hexdigest()[:12]}"
        self._database = ConnectionPool(url)

    def open(self, source: SourceInfo, topic: Topic) -> PostgresView:
        return PostgresView(
            self._database, self.schema, source.name, source.relation, origin_fingerprint(source, topic)
        )

    def reader(self, source: SourceInfo, topic: Topic) -> PostgresView:
        origin = origin_fingerprint(source, topic)
        return PostgresReader(self._database, self.schema, source.name, source.relation, origin)

    def file(self, source: SourceInfo, topic: Topic, folder: Path) -> Path | None:
        path = folder / "copy.sqlite"
        return path if self.open(source, topic).copied(path) else None

    def close(self) -> None:
        self._database.close()


@dataclass(frozen=True)
class TableLocation:
    """A view in the database: its number and its table."""

    number: int
    table: PostgresTable


class PostgresView:
    """`View` in a table. `origin` identifies what it is built from: if the stored one differs, it is recreated."""

    def __init__(self, database: ConnectionPool, schema: str, name: str, relation: Relation, origin: str) -> None:
        self.name, self.relation = name, relation
        self._database, self._schema, self._origin = database, schema, origin
        self._known: TableLocation | None = None
        self._closed = False
        self._columns = PostgresTable(relation, "").places
        retention = relation.window.retention if relation.window else None
        self._retention = None if retention is None else millis(retention)

    # -- reading ----------------------------------------------------------------------------------------------------

    def state(self) -> ViewState:
        with self.snapshot() as snapshot:
            return snapshot.state

    @contextmanager
    def snapshot(self) -> Iterator[PostgresSnapshot]:
        with self._transaction(_SNAPSHOT) as (db, place):
            yield PostgresSnapshot(db, place.table, self._read(db, place))

    def _read(self, db: PostgresSession, place: TableLocation) -> ViewState:
        rows = db.run(f"SELECT {_STATE} FROM {self._schema}.views WHERE number = {place.number}")
        if not rows:
            raise self._unreadable("somebody else keeps it as another table, or has removed it")
        ((version, position, *others),) = rows
        return ViewState(
            version, {int(partition): offset for partition, offset in json.loads(position).items()}, *others
        )

    def copied(self, path: Path) -> bool:
        """Copies the current state into a file; False if there is none, or only that of an earlier table of the
        name.
        """
        with self._translated(), self._database.transaction(_SNAPSHOT) as db:
            ((views,),) = db.run(f"SELECT to_regclass('{self._schema}.views')")
            statement = f"SELECT number, layout FROM {self._schema}.views WHERE name = $1 AND origin = $2"
            rows = db.run(statement, self.name, self._origin) if views else []
            for number, layout in rows:
                place = self._place_of(number, layout)
                snapshot = PostgresSnapshot(db, place.table, self._read(db, place))
                export_view(snapshot, path, self.relation, self._origin)
            return bool(rows)

    def indexes(self) -> list[tuple[str, ...]]:
        with self._transaction(_SNAPSHOT) as (db, place):
            statement = f"SELECT columns FROM {self._schema}.indexes WHERE view = {place.number} ORDER BY number"
            return [tuple(json.loads(text)) for (text,) in db.run(statement)]

    # -- writing ----------------------------------------------------------------------------------------------------

    def apply(
        self, begun: ViewState, events: Sequence[Event], position: Position, *, skipped: int = 0
    ) -> ViewState | None:
        state = begun.after(events, position, skipped)
        with self._transaction() as (db, place):
            if not self._moved(db, place, begun, state):
                return None
            self._change(db, place.table, events, state)
        return state

    def _change(self, db: PostgresSession, table: PostgresTable, events: Sequence[Event], state: ViewState) -> None:
        latest = {(stored := table.stored_key(key))[0]: (stored, time, row) for time, key, row in events if key}
        deleted = [name for name, (_, _, row) in latest.items() if row is None]
        if deleted:
            db.run(table.delete, array_literal("BYTEA", deleted))
        reach("view-half")
        values = table.values.stored
        upserted = [(*key, str(time), *values(row)) for key, time, row in latest.values() if row is not None]
        if upserted:
            columns = map(array_literal, table.types, zip(*upserted, strict=True))
            db.run(table.put, *columns, str(state.version))
        if self._retention is not None:
            db.run(f"DELETE FROM {table.name} WHERE we < {int(state.stream_time - self._retention)}")
        reach("view-whole")

    def recover(self) -> bool:
        return False  # PostgreSQL keeps its own files

    def restart(self, begun: ViewState, reason: str) -> ViewState | None:
        state = begun.anew(reason)
        with self._transaction() as (db, place):
            if not self._moved(db, place, begun, state):
                return None
            db.run(f"DELETE FROM {place.table.name}")
        return state

    def _moved(self, db: PostgresSession, place: TableLocation, begun: ViewState, state: ViewState) -> bool:
        """Stores the new state; False if the view no longer has the old one."""
        statement = (
            f"UPDATE {self._schema}.views SET version = CAST($1 AS BIGINT), position = $2, stream_time = "
            "CAST($3 AS BIGINT), skipped = CAST($4 AS BIGINT), rebuilt = CAST($5 AS BIGINT), reason = $6 "
            f"WHERE number = {place.number} AND version = CAST($7 AS BIGINT) AND position = $8"
        )
        return db.count(statement, *_facts(state), str(begun.version), _text(begun.position)) == 1

    def create_index(self, columns: Sequence[str]) -> None:
        names = [self._place(column) for column in columns]
        text = json.dumps(list(columns))
        with self._transaction() as (db, place):
            db.run(f"SELECT 1 FROM {self._schema}.views WHERE number = {place.number} FOR UPDATE")
            known = f"SELECT 1 FROM {self._schema}.indexes WHERE view = {place.number} AND columns = $1"
            if not db.run(known, text):
                statement = f"INSERT INTO {self._schema}.indexes (view, columns) VALUES ({place.number}, $1)"
                ((number,),) = db.run(f"{statement} RETURNING number", text)
                db.run(place.table.index(names, f"own{number}"))

    def drop_index(self, columns: Sequence[str]) -> None:
        with self._transaction() as (db, place):
            statement = f"DELETE FROM {self._schema}.indexes WHERE view = {place.number} AND columns = $1"
            for (number,) in db.run(f"{statement} RETURNING number", json.dumps(list(columns))):
                db.run(f"DROP INDEX {self._schema}.own{number}")

    def _place(self, column: str) -> str:
        entry = self._columns.get(column)
        if entry is None:
            known = ", ".join(self._columns)
            raise ColumnNotFound(
                f'the view has no column "{column}"', fix=suggestion(column, self._columns, f"its columns are: {known}")
            )
        return entry[0]

    def close(self) -> None:
        self._closed = True

    def remove(self) -> None:
        self.close()
        with self._translated(), self._database.transaction() as db:
            for (number,) in db.run(f"DELETE FROM {self._schema}.views WHERE name = $1 RETURNING number", self.name):
                db.run(f"DROP TABLE {self._schema}.rows{number}")

    # -- location in the database
    # ----------------------------------------------------------------------------------------

    @contextmanager
    def _transaction(self, begin: str = "BEGIN") -> Iterator[tuple[PostgresSession, TableLocation]]:
        if self._closed:
            raise Closed(f'view "{self.name}" is closed', fix="open it again")
        with self._translated():
            place = self._known or self._location()
            with self._database.transaction(begin) as db:
                yield db, place

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except DatabaseError as error:
            if sqlstate(error) == UNDEFINED_TABLE:
                self._known = None  # it was dropped: the next access creates it again
                raise self._unreachable() from error
            if sqlstate(error).startswith("XX"):
                raise self._unreadable(error.args[0].get("M", "")) from error
            raise

    def _location(self) -> TableLocation:
        """Creates the schema and the table if needed, or replaces an outdated table; one server at a time."""
        with self._database.transaction() as db:
            db.run(f"SELECT pg_advisory_xact_lock({int(self._schema[-12:], 16)})")
            _check_encoding(db)
            _create(db, self._schema)
            statement = f"SELECT number, layout, origin, version, rebuilt FROM {self._schema}.views WHERE name = $1"
            rows = db.run(statement, self.name)
            self._known = self._existing_location(db, *rows[0]) if rows else self._begin(db, ViewState())
        return self._known

    def _existing_location(
        self, db: PostgresSession, number: int, layout: int, noted: str, version: int, rebuilt: int
    ) -> TableLocation:
        place = self._place_of(number, layout)
        if noted == self._origin:
            return place
        db.run(f"DELETE FROM {self._schema}.views WHERE number = {number}")
        db.run(f"DROP TABLE {self._schema}.rows{number}")
        return self._begin(db, ViewState(version + 1, {}, -1, 0, rebuilt + 1, "the table is another"))

    def _place_of(self, number: int, layout: int = LAYOUT_VERSION) -> TableLocation:
        if layout != LAYOUT_VERSION:
            raise self._unreadable(f"its layout is {layout}, and this version knows {LAYOUT_VERSION}")
        return TableLocation(number, PostgresTable(self.relation, f"{self._schema}.rows{number}"))

    def _begin(self, db: PostgresSession, state: ViewState) -> TableLocation:
        """Creates the view's table. Numbers are never reused, so it cannot be mistaken for an earlier one."""
        names = f"name, layout, origin, {_STATE}"
        numbers = "CAST($3 AS BIGINT), $4, CAST($5 AS BIGINT), CAST($6 AS BIGINT), CAST($7 AS BIGINT)"
        marks = f"$1, {LAYOUT_VERSION}, $2, {numbers}"
        statement = f"INSERT INTO {self._schema}.views ({names}) VALUES ({marks}, $8) RETURNING number"
        ((number,),) = db.run(statement, self.name, self._origin, *_facts(state))
        place = self._place_of(number)
        for create_statement in place.table.create:
            db.run(create_statement)
        return place

    def _unreadable(self, reason: str) -> ViewUnreadable:
        return ViewUnreadable(
            f'view "{self.name}" cannot be read: {reason}',
            where=f"schema {self._schema} of {self._database.address}",
            fix=f"DROP SCHEMA {self._schema} CASCADE; the views are then rebuilt from their topics",
        )

    def _unreachable(self) -> DatabaseUnreachable:
        return DatabaseUnreachable(
            f'view "{self.name}" no longer exists in the database',
            where=f"schema {self._schema} of {self._database.address}",
            fix="try again; it is rebuilt from its topic",
        )


class PostgresReader(PostgresView):
    """Reads the table of a view that another process materializes, as long as it is that of the same table."""

    def _location(self) -> TableLocation:
        """Creates and replaces nothing."""
        with self._database.transaction(_SNAPSHOT) as db:
            ((views,),) = db.run(f"SELECT to_regclass('{self._schema}.views')")
            statement = f"SELECT number, layout FROM {self._schema}.views WHERE name = $1 AND origin = $2"
            found = db.run(statement, self.name, self._origin) if views else []
        if not found:
            raise view_replaced(self.name)
        self._known = self._place_of(*found[0])
        return self._known


class PostgresSnapshot:
    """A read transaction."""

    def __init__(self, db: PostgresSession, table: PostgresTable, state: ViewState) -> None:
        self._db, self._table, self.state = db, table, state
        self._scans = count()

    def get(self, keys: Iterable[Key]) -> list[Event]:
        stored = self._table.stored_key
        rows = self._db.run(self._table.get, array_literal("BYTEA", (stored(key)[0] for key in keys)))
        return self._table.events(rows)  # type: ignore[return-value] - rows of the table are events

    def scan(self, selection: Selection = EVERYTHING, *, batch: int = SCAN_BATCH_ROWS) -> Generator[list[Event]]:
        """Reads through a server-side cursor, which ends with the transaction."""
        statement, values = self._table.scan(selection)
        name = f"scan{next(self._scans)}"
        self._db.run(f"DECLARE {name} NO SCROLL CURSOR FOR {statement}", *values)
        while rows := self._db.run(f"FETCH {int(batch)} FROM {name}"):
            yield self._table.events(rows)  # type: ignore[misc] - rows of the table are events

    def count(self) -> int:
        return self._db.run(f"SELECT count(*) FROM {self._table.name}")[0][0]


def _facts(state: ViewState) -> tuple[Any, ...]:
    counts = (str(state.stream_time), str(state.skipped), str(state.rebuilt))
    return (str(state.version), _text(state.position), *counts, state.reason)


def _text(position: Position) -> str:
    return json.dumps(dict(sorted(position.items())))


def _create(db: PostgresSession, schema: str) -> None:
    """Creates what does not exist yet: a user with more rights may have created the schema."""
    ((space, views),) = db.run(f"SELECT to_regnamespace('{schema}'), to_regclass('{schema}.views')")
    if space is None:
        db.run(f"CREATE SCHEMA {schema}")
    if views is None:
        db.run(_CREATE.format(schema=schema))


def _check_encoding(db: PostgresSession) -> None:
    ((encoding,),) = db.run("SHOW server_encoding")
    if encoding != "UTF8":
        raise DatabaseRefused(
            f"the database of the views has the encoding {encoding}, which does not support all characters",
            fix="CREATE DATABASE ... ENCODING 'UTF8' TEMPLATE template0, and set views.postgres_url to that database",
        )
