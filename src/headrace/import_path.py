"""Where Python processes import from: nothing from the working folder, and no module that hides one of Python's own.

Python puts the folder of a script, or the working folder, in front of its own modules. A process that a server starts
in a folder with somebody's `queue.py` would execute that file.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

SAFE = {"PYTHONSAFEPATH": "1"}
"""The environment in which Python, and each Python that it starts, adds no folder by itself."""


def add_folder(folder: str) -> None:
    """Make the modules of a folder importable, except those named like one of Python's own."""
    if folder not in sys.path:
        sys.path.insert(_after_own(sys.path), folder)


def child_environment() -> Mapping[str, str]:
    """The environment of a Python process that imports from the same folders as this one.

    At a prompt and in a notebook the working folder is one of them, and comes after Python's own modules.
    """
    path = [entry for entry in sys.path if entry]
    if "" in sys.path:
        path.insert(_after_own(path), str(Path.cwd()))
    return {**os.environ, **SAFE, "PYTHONPATH": os.pathsep.join(path)}


@contextmanager
def safe_children() -> Iterator[None]:
    """Processes that the block starts, and theirs, add no folder by themselves."""
    before = {name: os.environ.get(name) for name in SAFE}
    os.environ.update(SAFE)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _after_own(path: list[str]) -> int:
    """The place behind Python's own modules."""
    own = {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}
    own |= {str(Path(folder, "lib-dynload")) for folder in own if folder}
    return max((number + 1 for number, entry in enumerate(path) if entry in own), default=0)
