"""Recognizes a commit log that is damaged or missing, before anything is read from it or written to it."""

from __future__ import annotations

from pathlib import Path

from headrace.errors import DamagedLog

CHECK_OR_RESTORE = (
    "`headrace storage check` lists all damage; restore the data folder from a backup, or save what is left with "
    "`headrace storage repair`"
)


def damaged_log(database: Path, reason: str) -> DamagedLog:
    """The error for a database of the log that cannot be used."""
    return DamagedLog(f"the log is damaged: {reason}", where=str(database), fix=CHECK_OR_RESTORE)


def check_present(folder: Path) -> None:
    """Raises if the folder has been used, but its database is missing or empty: SQLite would create a new one."""
    if problem := missing_database(folder):
        raise damaged_log(folder / "log.db", problem)


def missing_database(folder: Path) -> str | None:
    """What is wrong with the database file as such; None if it has contents, or if the folder is new."""
    path, was_used = folder / "log.db", _was_used(folder)  # first: another process may be creating the log
    if path.is_dir():
        return "its database is a folder"
    size = path.stat().st_size if path.exists() else None
    if size or not was_used:
        return None
    return "its database is missing" if size is None else "its database is empty"


def _was_used(folder: Path) -> bool:
    """Whether a log was opened in the folder before: these files are created after the database has its tables."""
    wal = folder / "log.db-wal"
    if (folder / "mail").exists() or (folder / "groups.db").exists() or (wal.exists() and wal.stat().st_size):
        return True
    return any(path.is_dir() and any(path.iterdir()) for path in (folder / "extents", folder / "archive"))


def check_durable(folder: Path, sequence: int, durable: int) -> None:
    """Raises if the database ends before rows that were durable: its write-ahead file was removed, or it was copied."""
    if durable > sequence:
        raise damaged_log(folder / "log.db", f"it ends at sequence {sequence}, but rows up to {durable} were stored")
