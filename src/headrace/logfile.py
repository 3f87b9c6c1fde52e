"""Writes the log file: one JSON object per line in `logs/headrace.log` of the data folder, rotated by size.

Any number of processes may write to it: a file lock covers each write and each rotation. Standard output and standard
error belong to the commands.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import sys
import time
from collections.abc import Iterator
from logging.handlers import RotatingFileHandler
from typing import Any

from headrace.errors import BadSetting, HeadraceError, ReadOnly
from headrace.private_folder import make_private
from headrace.secrets import redact
from headrace.settings import Settings

LEVELS = ("debug", "info", "warning", "error")
_USUAL = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}


def configure(settings: Settings) -> logging.Handler:
    """Send the log messages of headrace's modules to the data folder's log file; replaces an earlier log file."""
    if settings.logging.level.lower() not in LEVELS:
        raise BadSetting(
            f'setting "logging.level" cannot be "{settings.logging.level}"', fix=f"choose one of: {', '.join(LEVELS)}"
        )
    path = settings.storage.data / "logs" / "headrace.log"
    try:
        make_private(path.parent)
        handler = SharedFile(path, maxBytes=settings.logging.max_file_bytes, backupCount=settings.logging.max_files)
    except OSError as error:
        raise ReadOnly(
            f'log file "{path}" cannot be written: {error.strerror}', fix="check its owner and permissions"
        ) from error
    handler.setFormatter(JsonLines())
    logger = logging.getLogger("headrace")
    close()
    logger.addHandler(handler)
    logger.setLevel(settings.logging.level.upper())
    logger.propagate = False
    return handler


def close() -> None:
    """Close the log file."""
    logger = logging.getLogger("headrace")
    for old in [h for h in logger.handlers if isinstance(h, SharedFile)]:
        logger.removeHandler(old)
        old.close()
    logger.propagate = True


class SharedFile(RotatingFileHandler):
    """A rotated file that several processes write. While it cannot be written (for example on a full disk), lines are
    lost; this is reported once on standard error."""

    _is_lost = False
    _was_lost = False

    def emit(self, record: logging.LogRecord) -> None:
        self._is_lost = False
        try:
            with _locked(f"{self.baseFilename}.lock"):
                self._follow()
                super().emit(record)
        except OSError:
            self.handleError(record)
        self._was_lost = self._is_lost

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the base class's name
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            super().handleError(record)
            return
        self._is_lost = True
        if not self._was_lost:
            print(f"lines of the log file were lost: {error}", file=sys.stderr)

    def _follow(self) -> None:
        """Reopen the file if another process has rotated it."""
        if self.stream is None:
            return
        try:
            on_disk = os.stat(self.baseFilename)
            opened = os.fstat(self.stream.fileno())
        except FileNotFoundError:
            on_disk, opened = None, None
        if on_disk is None or opened is None or (on_disk.st_dev, on_disk.st_ino) != (opened.st_dev, opened.st_ino):
            self.stream.close()
            self.stream = self._open()


@contextlib.contextmanager
def _locked(path: str) -> Iterator[None]:
    # Opened each time: a descriptor inherited across a fork would share its lock with the parent.
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


class JsonLines(logging.Formatter):
    """Formats a record as one JSON object. Values passed as `extra` are under `fields`."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": _time(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "pid": record.process,
            "message": record.getMessage(),
        }
        fields = {name: value for name, value in vars(record).items() if name not in _USUAL}
        if fields:
            line["fields"] = fields
        if record.exc_info and record.exc_info[1] is not None:
            line["error"] = self._error(record.exc_info[1], record)
        return redact(json.dumps(line, default=str))

    def _error(self, error: BaseException, record: logging.LogRecord) -> dict[str, Any]:
        if isinstance(error, HeadraceError):
            return dict(error.as_dict())
        assert record.exc_info
        return {"code": type(error).__name__, "what": str(error), "trace": self.formatException(record.exc_info)}


def _time(seconds: float) -> str:
    ms = int(seconds * 1000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(ms // 1000))}.{ms % 1000:03d}Z"
