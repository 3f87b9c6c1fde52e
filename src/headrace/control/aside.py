"""What Spark's processes say, aside: into a file, and not among what people read.

The Java process, and every worker it starts, inherits the standard output and error of the moment it is started.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from headrace.log.embedded.store import translated

_LIMIT = 10 << 20
"""Bytes after which the file begins anew; Spark only speaks when something is wrong."""


@contextlib.contextmanager
def appended(path: Path) -> Iterator[int]:
    """The file's descriptor, for those who write to its end; not inherited unless it is handed on."""
    with translated(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and path.stat().st_size > _LIMIT:
            path.replace(path.with_suffix(".log.1"))
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        yield file
    finally:
        os.close(file)


@contextlib.contextmanager
def output_into(path: Path) -> Iterator[None]:
    """While inside, standard output and error of this process, and of those that it starts, go to the file."""
    with appended(path) as file:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        kept = [(number, os.dup(number)) for number in (1, 2)]
        try:
            for number, _ in kept:
                os.dup2(file, number)
            yield
        finally:
            for number, copy in kept:
                os.dup2(copy, number)
                os.close(copy)
