"""Redirects the output of Spark's processes to a file, away from the terminal.

The Java process, and every worker that it starts, inherits standard output and error at the moment of its start.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from headrace.log.embedded.storage.store import translate_errors
from headrace.private_folder import make_private

_LIMIT = 10 << 20
"""Size in bytes at which the file is rotated; Spark only writes when something is wrong."""


@contextlib.contextmanager
def open_for_append(path: Path) -> Iterator[int]:
    """A file descriptor in append mode; not inherited by child processes unless passed explicitly."""
    with translate_errors(path.parent):
        make_private(path.parent)
        if path.exists() and path.stat().st_size > _LIMIT:
            path.replace(path.with_suffix(".log.1"))
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        yield file
    finally:
        os.close(file)


@contextlib.contextmanager
def redirect_output(path: Path) -> Iterator[None]:
    """In the block, standard output and error of this process, and of processes that it starts, go to the file."""
    with open_for_append(path) as file:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        saved = [(number, os.dup(number)) for number in (1, 2)]
        try:
            for number, _ in saved:
                os.dup2(file, number)
            yield
        finally:
            for number, copy in saved:
                os.dup2(copy, number)
                os.close(copy)
