"""Backup and restore of a data folder, while any number of processes use it.

The databases are copied with SQLite's backup API, each as of one moment: groups first, so that no committed offset lies
beyond the end of the log, which is copied after them. Then come the files that the copied commit log references. They
never change, so they are hard links where the filesystem allows it. If merging removes one of them before it is copied,
the commit log is copied again, and only new files are fetched.

A copy is built under a hidden name and renamed once all of it is durable; `FORMAT`, without which no folder is a data
folder, is written last. So an incomplete copy is never mistaken for a complete one.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import sqlite3
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from headrace.errors import BackupFailed, DiskFull, NotADataFolder
from headrace.log.embedded.maintenance.check import check
from headrace.log.embedded.storage.extents import ARCHIVE, storage_error
from headrace.log.embedded.storage.store import FORMAT, open_folder, translate_errors
from headrace.private_folder import close_to_others, make_private

Progress = Callable[[int, int], None]
AlsoCopy = Callable[[Path, Path, Mapping[str, int | None], Callable[[Path, Path], None]], None]
"""Called with both folders, the last number of each writer in the copied log, and the function that copies a file."""
_ROUNDS = 10
_FILE = re.compile(r"[A-Za-z0-9]+-[A-Za-z0-9]+\.[a-z]+")  # as `ExtentEncoder.new_path` names them
_PAGES = 2_000  # SQLite pages copied in one step


@dataclass(frozen=True)
class BackupSummary:
    """What a copy contains."""

    rows: int
    extents: int
    files: int
    bytes: int


def backup(folder: Path, dest: Path, progress: Progress | None = None, also: AlsoCopy | None = None) -> BackupSummary:
    """Copy a data folder that may be in use; `also` copies what belongs to the log, as the log was copied."""
    with _errors(dest), _staged(folder, dest) as staging:
        copied = _copy(folder, staging, progress or _no_progress, link=True)
        if also is not None:
            also(folder, staging, _writer_numbers(staging), partial(_fetch_file, link=True))
        return copied


def restore(
    source: Path, folder: Path, progress: Progress | None = None, also: AlsoCopy | None = None
) -> BackupSummary:
    """Create a data folder from a backup: a full copy, verified completely before the folder appears."""
    with _errors(folder), _staged(source, folder) as staging:
        copied = _copy(source, staging, progress or _no_progress, link=False)
        if also is not None:
            also(source, staging, _writer_numbers(staging), partial(_fetch_file, link=False))
        damage = check(staging).damage
        if damage:
            raise BackupFailed(
                f'backup "{source}" is damaged: {damage[0].what}'
                + (f", and {len(damage) - 1} more" * (len(damage) > 1)),
                where=damage[0].where,
                fix=f"`headrace --data {source} storage check` lists all damage; restore another backup",
            )
        return copied


def _no_progress(done: int, total: int) -> None:
    """No progress output."""


# -- destination ------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _staged(source: Path, dest: Path) -> Iterator[Path]:
    """A staging folder, which becomes `dest` at the end of the block, or is removed on failure."""
    _check_source(source)
    if dest.exists() and (not dest.is_dir() or any(p.name != _inner(dest).name for p in dest.iterdir())):
        raise BackupFailed(f'"{dest}" exists and is not empty', fix="use a new or empty folder")
    # An empty folder that exists may be a mount point, which cannot be renamed over: build inside it.
    staging = _inner(dest) if dest.is_dir() else dest.absolute().parent / f".{dest.name}.partial"
    make_private(staging.parent)
    with _alone(staging):
        try:
            yield staging
            _publish(staging, dest)
        finally:
            shutil.rmtree(staging, ignore_errors=True)


def _inner(dest: Path) -> Path:
    return dest / ".partial"


def _check_source(source: Path) -> None:
    if not (source / "FORMAT").is_file() or not (source / "log.db").is_file():
        raise NotADataFolder(f'"{source}" is neither a data folder nor a backup', fix="use a folder with a FORMAT file")
    open_folder(source)


@contextlib.contextmanager
def _alone(staging: Path) -> Iterator[None]:
    """One copy at a time per destination; removes what a killed one left."""
    make_private(staging)
    fd = os.open(staging, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for left in staging.iterdir():
            shutil.rmtree(left) if left.is_dir() else left.unlink()
        yield
    except BlockingIOError as error:
        raise BackupFailed(
            f'another copy to "{staging.parent}" is in progress', fix="wait until it has finished"
        ) from error
    finally:
        os.close(fd)


def _publish(staging: Path, dest: Path) -> None:
    if staging.parent != dest:
        _write_mark(staging)
        staging.rename(dest)
        _sync(dest.absolute().parent)
        return
    close_to_others(dest)
    for entry in sorted(staging.iterdir()):
        entry.rename(dest / entry.name)
    staging.rmdir()
    _write_mark(dest)


def _write_mark(folder: Path) -> None:
    mark = folder / "FORMAT"
    mark.write_text(f"headrace {FORMAT}\n")
    for path in (mark, folder):
        _sync(path)


@contextlib.contextmanager
def _errors(dest: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        ours = storage_error(error, dest.parent)
        if isinstance(ours, DiskFull):
            raise ours from error
        raise BackupFailed(
            f'"{dest}" cannot be written: {error.strerror or error}', fix="check the path, its owner and permissions"
        ) from error


# -- copy -------------------------------------------------------------------------------------------------------------


def _copy(source: Path, staging: Path, progress: Progress, *, link: bool) -> BackupSummary:
    for name in ("extents", "archive", "owners"):
        make_private(staging / name)
    _copy_groups(source, staging)
    for _ in range(_ROUNDS):
        _copy_database(source / "log.db", staging / "log.db", "DELETE FROM extents WHERE replaced_at IS NOT NULL")
        named = _named(staging)
        if _fetch(source, staging, named, progress, link):
            _remove_others(staging, named)
            return _counted(staging, named)
    raise BackupFailed(
        "merging removed files faster than they could be copied",
        fix="raise the setting storage.file_delete_delay of the processes that use the data folder",
    )


def _copy_groups(source: Path, staging: Path) -> None:
    if (source / "groups.db").is_file():
        # Members of the original groups do not exist in the copy.
        _copy_database(source / "groups.db", staging / "groups.db", "DELETE FROM members; DELETE FROM assignments")


def _copy_database(source: Path, target: Path, then: str) -> None:
    for path in (target, Path(f"{target}-wal"), Path(f"{target}-shm")):
        path.unlink(missing_ok=True)
    with (
        translate_errors(target.parent),
        contextlib.closing(sqlite3.connect(source, timeout=30, isolation_level=None)) as original,
        contextlib.closing(sqlite3.connect(target, isolation_level=None)) as copy,
    ):
        # In an open transaction every step sees the same snapshot; without it each commit would restart the copy.
        original.execute("BEGIN")
        original.execute("SELECT count(*) FROM sqlite_master").fetchone()
        original.backup(copy, pages=_PAGES, sleep=0)
        original.execute("ROLLBACK")
        copy.executescript(f"BEGIN; {then}; COMMIT;")
        # A single file without a WAL, so that a backup can be read from a read-only disk.
        copy.execute("PRAGMA journal_mode = DELETE")
    _sync(target)


def _named(staging: Path) -> dict[Path, int]:
    """The files that the copied commit log references, with their sizes. Small ones first: they are merged soonest."""
    with contextlib.closing(sqlite3.connect(staging / "log.db")) as db:
        rows = db.execute("SELECT kind, file, bytes FROM extents WHERE file IS NOT NULL ORDER BY bytes, id").fetchall()
    for _, file, _ in rows:
        _check_name(file)
    return {Path("archive" if kind == ARCHIVE else "extents") / file: size for kind, file, size in rows}


def _check_name(file: object) -> None:
    """The backup may come from an untrusted source: its commit log must not reference files outside the folder."""
    if not isinstance(file, str) or not _FILE.fullmatch(file):
        raise BackupFailed(
            f"the commit log refers to an invalid file name {str(file)[:80]!r}",
            fix="do not use it: it is not a valid backup",
        )


def _fetch(source: Path, staging: Path, named: dict[Path, int], progress: Progress, link: bool) -> bool:
    """Copy what is missing; False if one of the files was gone."""
    complete, done, total = True, 0, sum(named.values())
    for path, size in named.items():
        if not (staging / path).exists():
            try:
                _fetch_file(source / path, staging / path, link)
            except FileNotFoundError:
                complete = False
        done += size
        progress(done, total)
    for folder in ("extents", "archive"):
        _sync(staging / folder)
    return complete


def _fetch_file(source: Path, target: Path, link: bool) -> None:
    if not stat.S_ISREG(source.lstat().st_mode):
        raise BackupFailed(f'"{source}" is not a regular file', fix="do not use it: it is not a valid backup")
    if link:
        try:
            os.link(source, target)
        except FileNotFoundError:
            raise
        except OSError:
            pass  # another filesystem, or one without hard links
        else:
            return
    shutil.copyfile(source, target)
    _sync(target)


def _remove_others(staging: Path, named: dict[Path, int]) -> None:
    """Remove files of an earlier round that merging has replaced since."""
    for folder in ("extents", "archive"):
        for path in (staging / folder).iterdir():
            if path.relative_to(staging) not in named:
                path.unlink()


def _writer_numbers(staging: Path) -> dict[str, int | None]:
    with contextlib.closing(sqlite3.connect(staging / "log.db")) as db:
        return dict(db.execute("SELECT name, last FROM writers"))


def _counted(staging: Path, named: dict[Path, int]) -> BackupSummary:
    with contextlib.closing(sqlite3.connect(staging / "log.db")) as db:
        ((rows, extents),) = db.execute("SELECT coalesce(sum(rows), 0), count(*) FROM extents")
    size = sum(named.values()) + sum(path.stat().st_size for path in staging.glob("*.db"))
    return BackupSummary(rows, extents, len(named), size)


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
