"""Places at which a process can be made to die, so that the fault campaign hits the moments that matter.

`reach` does nothing unless `HEADRACE_FAULTPOINT` is set to `name:count:mark`: then the process writes its point's name
into the file `mark` and kills itself with SIGKILL when it reaches that name for the given time. Where the file is, one
has died: those that are started in its stead live.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
from pathlib import Path

VARIABLE = "HEADRACE_FAULTPOINT"

# Read once: a point that is not asked for costs no more than a call.
_NAME, _, _REST = os.environ.get(VARIABLE, "").partition(":")
_reached = itertools.count(1)


def reach(name: str) -> None:
    """Say that the process is at a point; it may not come back."""
    if name == _NAME:
        _die(name)


def _die(name: str) -> None:
    count, _, mark = _REST.partition(":")
    if next(_reached) == int(count):  # a count is atomic, so of several threads exactly one is chosen
        with contextlib.suppress(FileExistsError), Path(mark).open("x") as note:
            note.write(name)
            note.flush()
            os.kill(os.getpid(), signal.SIGKILL)
