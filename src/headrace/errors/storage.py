"""Errors of the data folder and the operating system."""

from __future__ import annotations

from headrace.errors.base import Retry, Stop, UserError


class DamagedExtent(Stop, code="damaged-extent"):
    """Stored bytes do not match their checksum."""


class RecordsLost(DamagedExtent, code="records-lost"):
    """Rows were lost to damage, and readers are to stop there."""


class NotRepairable(Stop, code="not-repairable"):
    """A damaged log does not contain enough to repair it."""


class DamagedLog(Stop, code="damaged-log"):
    """The database of the log is damaged or missing, or has lost rows that were durable."""


class DiskFull(Retry, code="disk-full"):
    """There is no space left on the device; nothing of the append was stored."""


class ReadOnly(Stop, code="read-only"):
    """The data folder cannot be written."""


class AccessDenied(UserError, code="permission-denied"):
    """The operating system denies access to a file or folder."""


class SystemFailed(Stop, code="system-error"):
    """The operating system reports an error."""


class InternalError(Stop, code="internal-error"):
    """An error in headrace itself; the details are in the file that the error names."""


class NewerFormat(Stop, code="newer-format"):
    """A later version of headrace wrote the data folder."""


class NotADataFolder(UserError, code="not-a-data-folder"):
    """The folder contains something other than a headrace log."""


class LogBusy(Retry, code="log-busy"):
    """Another process held the log's write lock for too long."""


class BackupFailed(UserError, code="backup-failed"):
    """A backup or restore cannot be done as requested."""
