"""Repairs a data folder as far as that is safe: what is damaged is moved aside, never deleted.

A damaged extent is replaced by a mark that its rows are lost: readers that reach it stop (`records-lost`), or go on
after it if that was chosen. A database of which only indexes are damaged is rebuilt from its tables. Nothing else is
guessed: a commit log that cannot be read completely must be restored from a backup, because the files of extents do
not say to which topic they belong.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.errors import LogBusy, NotRepairable
from headrace.log.embedded.ipc.commit_signal import durable_sequence
from headrace.log.embedded.ipc.fair_lock import FairLock
from headrace.log.embedded.ipc.owners import is_alive
from headrace.log.embedded.maintenance.check import CheckFinding, check
from headrace.log.embedded.storage.damage import missing_database
from headrace.log.embedded.storage.extents import ARCHIVE, LOST, SKIPPED
from headrace.log.embedded.storage.store import transaction, translate_errors

ASIDE = "damaged"
"""The folder, in the data folder, to which damaged files are moved."""
_DATABASE_KINDS = frozenset({"database", "sequences"})
_DATABASES = ("log.db", "groups.db")
_REBUILD = "rebuild the database from its tables"


@dataclass(frozen=True)
class RepairStep:
    """One change, as `headrace storage repair` shows it."""

    what: str
    where: str


@contextlib.contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Keeps the data folder for this process; raises if another one uses it."""
    used = [path.stem for path in (folder / "owners").glob("*.lock") if is_alive(folder / "owners", path.stem)]
    if used:
        raise LogBusy(
            f"{len(used)} processes use the data folder",
            where=str(folder),
            fix="stop them: `headrace down`, `headrace status`",
        )
    with translate_errors(folder), FairLock.of(folder / "lock").held():
        yield


def plan(folder: Path, findings: Sequence[CheckFinding], *, skip_lost: bool) -> list[RepairStep]:
    """What `repair` would do about the findings of a check; raises if the database cannot be repaired."""
    interrupted = _interrupted(folder)
    if (missing := missing_database(folder)) is not None and "log.db" not in interrupted:
        raise _not_repairable(missing, folder)
    steps = [RepairStep(_REBUILD, str(folder / name)) for name in interrupted]
    steps += [
        RepairStep(_REBUILD if one.kind == "database" else "accept the lost rows", one.where)
        for one in findings
        if one.damage and one.kind in _DATABASE_KINDS
    ]
    steps += [RepairStep("move the rows aside and mark them as lost", one.where) for one in findings if one.extent]
    if skip_lost:
        steps += [RepairStep("let readers go on after lost rows", str(folder))]
    return list(dict.fromkeys(steps))


def repair(folder: Path, *, skip_lost: bool) -> list[CheckFinding]:
    """Repairs the folder, which must be held by `exclusive`; returns the damage that is left."""
    aside = folder / ASIDE
    aside.mkdir(exist_ok=True)
    for name in _interrupted(folder):
        _put_in_place(folder, name, aside)
    damage = check(folder).damage
    for name in _DATABASES:
        if any(one.kind == "database" and one.where.endswith(name) for one in damage):
            _rebuild(folder, name, aside)
    damage = check(folder).damage
    _mark_lost(folder, [one.extent for one in damage if one.extent is not None], aside, skip_lost=skip_lost)
    if any(one.kind == "sequences" for one in damage) and durable_sequence(folder / "bell"):
        (folder / "bell").rename(_free(aside / "bell"))
    return check(folder).damage


def _rebuild(folder: Path, name: str, aside: Path) -> None:
    """Copies the tables into a new database. Fails without effect if a table cannot be read completely."""
    path, new = folder / name, _rebuilt(folder, name)
    new.unlink(missing_ok=True)
    try:
        with contextlib.closing(sqlite3.connect(new, isolation_level=None)) as db:
            _copy_tables(db, path)
            if (problems := db.execute("PRAGMA main.integrity_check").fetchall()) != [("ok",)]:
                raise sqlite3.DatabaseError(str(problems[0][0]))
    except (sqlite3.Error, UnicodeDecodeError) as error:
        new.unlink(missing_ok=True)
        raise _not_repairable(f"{name} cannot be read completely: {error}", folder) from error
    _put_in_place(folder, name, aside)


def _put_in_place(folder: Path, name: str, aside: Path) -> None:
    """Replaces a database by the rebuilt one. After a crash between the renames, the next repair finishes them."""
    path = folder / name
    for suffix in ("", "-wal", "-shm"):
        old = Path(f"{path}{suffix}")
        if old.exists():
            old.rename(_free(aside / old.name))
    _rebuilt(folder, name).rename(path)


def _interrupted(folder: Path) -> list[str]:
    """The databases that were rebuilt completely (without a journal), and of which only the old one was moved aside."""
    return [
        name
        for name in _DATABASES
        if not (folder / name).exists()
        and (new := _rebuilt(folder, name)).exists()
        and not Path(f"{new}-journal").exists()
    ]


def _rebuilt(folder: Path, name: str) -> Path:
    return folder / f"{name}.rebuilt"


def _copy_tables(db: sqlite3.Connection, path: Path) -> None:
    db.execute("ATTACH ? AS old", (str(path),))
    schema_rows = db.execute("SELECT type, name, sql FROM old.sqlite_master WHERE sql IS NOT NULL").fetchall()
    tables = [(name, sql) for kind, name, sql in schema_rows if kind == "table" and not name.startswith("sqlite_")]
    with transaction(db):
        for name, sql in tables:
            db.execute(sql)
            # With a condition SQLite reads the rows; without one it would copy pages, those of indexes, too.
            db.execute(f"INSERT INTO main.{name} SELECT * FROM old.{name} NOT INDEXED WHERE true")
        if db.execute("SELECT 1 FROM old.sqlite_master WHERE name = 'sqlite_sequence'").fetchone():
            db.execute("DELETE FROM main.sqlite_sequence")
            db.execute("INSERT INTO main.sqlite_sequence SELECT * FROM old.sqlite_sequence")
        for kind, _, sql in schema_rows:
            if kind == "index":
                db.execute(sql)
    db.execute("DETACH old")


def _mark_lost(folder: Path, extents: Sequence[int], aside: Path, *, skip_lost: bool) -> None:
    kind = SKIPPED if skip_lost else LOST
    with contextlib.closing(sqlite3.connect(folder / "log.db", timeout=30, isolation_level=None)) as connection:
        for extent in extents:
            with translate_errors(folder), transaction(connection) as db:
                _mark(folder, db, extent, aside, kind)
        if skip_lost:
            with translate_errors(folder), transaction(connection) as db:
                db.execute("UPDATE extents SET kind = ? WHERE kind = ?", (SKIPPED, LOST))


def _mark(folder: Path, db: sqlite3.Connection, extent: int, aside: Path, kind: str) -> None:
    row = db.execute(
        "SELECT topic, partition, kind, bytes, file, payload, replaced_at FROM extents WHERE id = ?", (extent,)
    ).fetchone()
    topic, partition, was, size, file, payload, replaced_at = row
    if payload is not None:
        _free(aside / f"extent-{extent}.arrow").write_bytes(payload)
    if replaced_at is not None:  # nobody needs it any more
        db.execute("DELETE FROM extents WHERE id = ?", (extent,))
    else:
        db.execute(
            "UPDATE extents SET kind = ?, bytes = 0, checksum = 0, file = NULL, payload = NULL WHERE id = ?",
            (kind, extent),
        )
        db.execute(
            "UPDATE partitions SET bytes = bytes - ? WHERE topic = ? AND partition = ?",
            (0 if was == ARCHIVE else size, topic, partition),
        )
    path = folder / ("archive" if was == ARCHIVE else "extents") / (file or "")
    if file is not None and path.is_file():  # last: after a crash it is an orphan, or still named
        path.rename(_free(aside / path.name))


def _free(path: Path) -> Path:
    """A path that does not exist yet."""
    number = 0
    while (free := path if not number else path.with_name(f"{path.name}.{number}")).exists():
        number += 1
    return free


def _not_repairable(reason: str, folder: Path) -> NotRepairable:
    return NotRepairable(
        f"the log cannot be repaired: {reason}",
        where=str(folder),
        fix="restore it from a backup: `headrace restore BACKUP --data NEW`",
    )
