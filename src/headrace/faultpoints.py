"""Fault injection: named points in the code at which the fault tests can kill a process.

`reach` does nothing unless `HEADRACE_FAULTPOINT` is set to `name:count:mark`. Then the process that reaches the point
`name` for the `count`-th time writes the name to the file `mark` and kills itself with SIGKILL. If the file exists, a
process has already died there, and its replacement does not.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
from pathlib import Path

VARIABLE = "HEADRACE_FAULTPOINT"

# Read once, so that an inactive point costs no more than a call.
_NAME, _, _REST = os.environ.get(VARIABLE, "").partition(":")
_reached = itertools.count(1)


def reach(name: str) -> None:
    """Mark that the process has reached a point; may kill the process."""
    if name == _NAME:
        _die(name)


def _die(name: str) -> None:
    count, _, mark = _REST.partition(":")
    if next(_reached) == int(count):  # the counter is atomic, so exactly one thread gets this number
        with contextlib.suppress(FileExistsError), Path(mark).open("x") as note:
            note.write(name)
            note.flush()
            os.kill(os.getpid(), signal.SIGKILL)
