"""How this program is called from the user's working folder, for commands that are printed to be copied."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path


def program_command(*words: str, folder: Path | None = None) -> str:
    """A command line that works as printed in `folder` (default: the working folder).

    It is `headrace ...`, or begins with the path of the program or of Python.
    """
    return shlex.join([*_program(folder or Path.cwd()), *words])


def python_command(folder: Path | None = None) -> str:
    """The Python that has headrace, as `program_command` writes it."""
    own = Path(sys.executable)
    on_path = shutil.which("python")
    same = on_path is not None and os.path.realpath(Path(on_path).parent) == os.path.realpath(own.parent)
    return "python" if same else shlex.quote(_shortest(own, folder or Path.cwd()))


def _program(folder: Path) -> list[str]:
    own = Path(sys.prefix) / "bin" / "headrace"
    on_path = shutil.which("headrace")
    if on_path is not None and (not own.exists() or os.path.samefile(on_path, own)):
        return ["headrace"]
    if own.exists():
        return [_shortest(own, folder)]
    return [_shortest(Path(sys.executable), folder), "-m", "headrace"]


def _shortest(path: Path, folder: Path) -> str:
    """The path from the folder if it is inside it, else the absolute path."""
    try:
        return str(path.relative_to(folder))
    except ValueError:
        return str(path)
