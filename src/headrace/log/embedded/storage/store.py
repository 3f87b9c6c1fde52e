"""The commit log's database: one SQLite file in WAL mode, one writer at a time, any number of readers.

All changes go through `Store.transaction`, one after another, under the fair lock. A commit is first only written;
`sync` makes it durable, for all processes that committed before, in one system call. Connections never cross a fork.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headrace.errors import Closed, DiskFull, HeadraceError, LogBusy, NewerFormat, NotADataFolder, ReadOnly
from headrace.log.embedded.ipc.commit_signal import CommitSignal
from headrace.log.embedded.ipc.fair_lock import FairLock, TryLock, descriptor
from headrace.log.embedded.storage.damage import check_durable, check_present, damaged_log
from headrace.log.embedded.storage.extents import storage_error
from headrace.private_folder import close_to_others, make_private

FORMAT = 1
_PATIENCE = 0.005  # seconds between two attempts to get the sync lock
_LOG = "FORMAT lock sync bell log.db log.db-wal log.db-shm extents archive owners"
_OURS = frozenset(f"{_LOG} logs secrets token.secret local.secret push.key kafka checkpoints views".split())

_TABLES = """
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
INSERT OR IGNORE INTO meta VALUES ('sequence', 0), ('catalog', 0);
CREATE TABLE IF NOT EXISTS topics (
    id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, version INTEGER NOT NULL,
    spec TEXT NOT NULL, created_at INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS partitions (
    topic INTEGER NOT NULL, partition INTEGER NOT NULL,
    start_offset INTEGER NOT NULL, end_offset INTEGER NOT NULL,
    removed_sequence INTEGER NOT NULL, last_sequence INTEGER NOT NULL, bytes INTEGER NOT NULL,
    PRIMARY KEY (topic, partition)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS extents (
    id INTEGER PRIMARY KEY, topic INTEGER NOT NULL, partition INTEGER NOT NULL,
    base_offset INTEGER NOT NULL, last_offset INTEGER NOT NULL,
    base_sequence INTEGER NOT NULL, last_sequence INTEGER NOT NULL,
    rows INTEGER NOT NULL, min_time INTEGER NOT NULL, max_time INTEGER NOT NULL, bytes INTEGER NOT NULL,
    kind TEXT NOT NULL, merged INTEGER NOT NULL, checksum INTEGER NOT NULL,
    created_at INTEGER NOT NULL, replaced_at INTEGER, file TEXT, payload BLOB
);
CREATE INDEX IF NOT EXISTS extents_by_offset ON extents (topic, partition, last_offset);
CREATE INDEX IF NOT EXISTS extents_by_sequence ON extents (topic, last_sequence);
CREATE UNIQUE INDEX IF NOT EXISTS extents_by_file ON extents (file) WHERE file IS NOT NULL;
CREATE INDEX IF NOT EXISTS extents_replaced ON extents (replaced_at) WHERE replaced_at IS NOT NULL;
CREATE TABLE IF NOT EXISTS mail (owner TEXT PRIMARY KEY, number INTEGER NOT NULL, offsets BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS writers (name TEXT PRIMARY KEY, epoch INTEGER NOT NULL, last INTEGER) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS writer_notes (name TEXT PRIMARY KEY, note TEXT NOT NULL) WITHOUT ROWID;
"""


class Store:
    """The data folder's `log.db` with its lock and commit signal."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "log.db"
        open_folder(folder)
        check_present(folder)
        with translate_errors(folder):
            self.lock = FairLock.of(folder / "lock")
            self.commit_signal = CommitSignal(folder / "bell")
            self._sync_turn = TryLock.of(descriptor(folder / "sync"), 0)
        self._local = threading.local()
        self._readers: list[_Reader] = []
        self._readers_guard = threading.Lock()
        self._writing, self._syncing = threading.Lock(), threading.Lock()
        with translate_errors(folder), self.lock.held():
            self._writer = self._connect()
            self._writer.executescript(_TABLES)
            ((sequence,),) = self._writer.execute("SELECT value FROM meta WHERE name = 'sequence'")
            check_durable(folder, sequence, self.commit_signal.durable)
            self.commit_signal.initialize(sequence)
            self._wal: int | None = os.open(f"{self.path}-wal", os.O_RDONLY | os.O_CLOEXEC)

    def _connect(self) -> sqlite3.Connection:
        with translate_errors(self.folder):
            connection = sqlite3.connect(self.path, timeout=30, isolation_level=None, check_same_thread=False)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA wal_autocheckpoint = 4000")
            return connection

    @property
    def _reader(self) -> _Reader:
        """This thread's read connection."""
        reader = getattr(self._local, "reader", None)
        if reader is None:
            connection = self._connect()
            connection.execute("PRAGMA query_only = ON")
            reader = self._local.reader = _Reader(connection)
            self._add_reader(reader)
        return reader

    def _add_reader(self, reader: _Reader) -> None:
        """Register a thread's connection, and close those of threads that have exited."""
        with self._readers_guard:
            ended = [old for old in self._readers if not old.thread.is_alive()]
            self._readers = [old for old in self._readers if old not in ended]
            self._readers.append(reader)
        for old in ended:
            old.close()

    @contextlib.contextmanager
    def transaction(self, seconds: float = 30.0) -> Iterator[sqlite3.Connection]:
        """An atomic change under the lock. Not durable before `sync`."""
        with translate_errors(self.folder), self.lock.held(seconds), self._writing, transaction(self._writer) as db:
            yield db

    def sync(self, sequence: int | None = None) -> None:
        """Make commits durable, up to a sequence (or all of them); returns early if another process has done it."""
        page = self.commit_signal.page
        if sequence is None:
            self._sync(page.committed)
            return
        while page.synced < sequence:
            seen = self.commit_signal.commits
            if not self._sync_turn.take():
                self.commit_signal.wait(seen, _PATIENCE)
                continue
            try:
                # The caller's sequence is committed, even if the committer died before it updated the page.
                self._sync(max(page.committed, sequence))
            finally:
                self._sync_turn.give()
                self.commit_signal.notify()

    def _sync(self, sequence: int) -> None:
        with self._syncing:  # a descriptor that is closed meanwhile may be reused for another file
            if self._wal is None:
                raise _closed(self.folder)
            os.fdatasync(self._wal)
        self.commit_signal.page.synced = max(self.commit_signal.page.synced, sequence)

    def query(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Rows of a read outside of any transaction."""
        with translate_errors(self.folder):
            return self._reader.query(sql, parameters)

    def wal_bytes(self) -> int:
        """Size of the write-ahead log; it grows while a reader prevents a checkpoint."""
        with self._syncing:
            return 0 if self._wal is None else os.fstat(self._wal).st_size

    def checkpoint(self) -> None:
        """Move the write-ahead log's content into the database and truncate it."""
        with translate_errors(self.folder), self.lock.held(), self._writing:
            self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        """Closes each connection only while its thread does not use it: otherwise SQLite would crash the process."""
        with self._syncing:
            if self._wal is not None:
                os.close(self._wal)
            self._wal = None
        with self._readers_guard:
            readers = list(self._readers)
        for reader in readers:
            reader.close()
        with self._writing, contextlib.suppress(sqlite3.Error):
            self._writer.close()


class _Reader:
    """A thread's connection, which another thread may close."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.thread = threading.current_thread()
        self._connection = connection
        self._busy = threading.Lock()

    def query(self, sql: str, parameters: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        with self._busy:
            return self._connection.execute(sql, parameters).fetchall()

    def close(self) -> None:
        with self._busy, contextlib.suppress(sqlite3.Error):
            self._connection.close()


def open_folder(folder: Path) -> None:
    """Create the data folder, or check that it is one and that this version can read it."""
    mark = folder / "FORMAT"
    try:
        make_private(folder)
        if not mark.exists():
            _claim(folder, mark)
        text = mark.read_text().split()
        for name in ("extents", "archive", "owners"):
            make_private(folder / name)
    except OSError as error:
        if isinstance(storage_error(error, folder), DiskFull):
            raise storage_error(error, folder) from error
        raise ReadOnly(
            f'folder "{folder}" cannot be used: {error.strerror}', fix="check the path, its owner and permissions"
        ) from error
    except UnicodeDecodeError:
        text = []
    if len(text) != 2 or text[0] != "headrace" or not text[1].isdigit():
        raise NotADataFolder(f'file "{mark}" was not written by headrace', fix="choose an empty data folder")
    if int(text[1]) > FORMAT:
        raise NewerFormat(
            f'folder "{folder}" has format {text[1]}, but this version supports only up to {FORMAT}',
            fix="upgrade headrace: pip install --upgrade headrace",
        )


def foreign_files(folder: Path) -> list[str]:
    """Files in a folder without a `FORMAT` file that headrace did not create: such a folder is not used."""
    return sorted(p.name for p in folder.iterdir() if p.name not in _OURS and not p.name.startswith(".FORMAT"))


def _claim(folder: Path, mark: Path) -> None:
    if strange := foreign_files(folder):
        raise NotADataFolder(
            f'folder "{folder}" contains other files: {", ".join(strange[:3])}', fix="choose an empty folder"
        )
    close_to_others(folder)  # it may have existed, empty
    fresh = folder / f".FORMAT-{os.getpid()}-{threading.get_ident()}"
    fresh.write_text(f"headrace {FORMAT}\n")
    fresh.replace(mark)


@contextlib.contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """Commits at the end of the block; rolls back on an error."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield db
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


@contextlib.contextmanager
def translate_errors(folder: Path, database: str = "log.db") -> Iterator[None]:
    """Translates errors of the operating system, and of SQLite for a database, into headrace errors."""
    try:
        yield
    except TimeoutError as error:
        raise lock_timeout_error(folder) from error
    except UnicodeDecodeError as error:  # SQLite's message quotes what it cannot read
        raise damaged_log(folder / database, f"a text cannot be read: {error}") from error
    except (sqlite3.Error, OSError) as error:
        ours = (
            _translated(error, folder / database) if isinstance(error, sqlite3.Error) else storage_error(error, folder)
        )
        if ours is error:
            raise
        raise ours from error


def remove_unnamed(store: Store, file: str, folder: str = "extents") -> None:
    """Remove an extent's file after a failed append, unless the commit log references it after all."""
    with contextlib.suppress(OSError, sqlite3.Error, HeadraceError):
        if not store.query("SELECT 1 FROM extents WHERE file = ?", file):
            (store.folder / folder / file).unlink(missing_ok=True)


def _translated(error: sqlite3.Error, database: Path) -> HeadraceError | sqlite3.Error:
    folder = database.parent
    name = getattr(error, "sqlite_errorname", "") or ""
    text = str(error)
    if name.startswith("SQLITE_FULL") or "disk is full" in text:
        return DiskFull(f'no space left for "{folder}"', fix="free space or shorten retention, then try again")
    if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM")):
        return ReadOnly(
            f'folder "{folder}" cannot be written', fix="check the owner and permissions of the data folder"
        )
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return lock_timeout_error(folder)
    if isinstance(error, sqlite3.ProgrammingError):
        return _closed(folder) if "closed" in text else error
    return damaged_log(database, f"SQLite reports: {text}") if isinstance(error, sqlite3.DatabaseError) else error


def _closed(folder: Path) -> Closed:
    return Closed(f'log "{folder}" is closed', fix="open it again")


def lock_timeout_error(folder: Path, seconds: float | None = None) -> LogBusy:
    """The error for a write lock that was not acquired in time."""
    long = "" if seconds is None else f" for {seconds:g} s"
    return LogBusy(
        f"another process holds the log's write lock{long}",
        where=str(folder),
        fix="find a suspended process that uses this data folder, and end it",
    )
