"""How this program is called from the user's working folder, for commands that are printed to be copied."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path


def program_command(*words: str) -> str:
    """A command line that works as printed: `headrace ...`, or with the path of the program or of Python."""
    return shlex.join([*_program(), *words])


def _program() -> list[str]:
    own = Path(sys.prefix) / "bin" / "headrace"
    found = shutil.which("headrace")
    if found is not None and (not own.exists() or os.path.samefile(found, own)):
        return ["headrace"]
    if own.exists():
        return [_shortest(own)]
    return [_shortest(Path(sys.executable)), "-m", "headrace"]


def _shortest(path: Path) -> str:
    """The path from the working folder if it is inside it, else the absolute path."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)
