"""Python interpreters of peers: each peer that has requirements gets its own virtual environment.

The environment is created on demand in the user's cache folder, under a name derived from its contents: a changed
requirements file creates a new one, an unchanged file reuses it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

from headrace.errors import MissingDependency


def cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headrace" / "bench"


def interpreter(requirements: Path | None, cache: Path | None = None) -> Path:
    """The Python to run a side with; creates its environment if it does not exist."""
    if requirements is None:
        return Path(sys.executable)
    folder = (cache or cache_folder()) / f"{requirements.stem}-{_fingerprint(requirements)}"
    python = folder / "bin" / "python"
    if not (folder / ".complete").exists():
        _make(folder, python, requirements)
    return python


def _fingerprint(requirements: Path) -> str:
    return hashlib.sha256(f"{sys.version}\n{requirements.read_text()}".encode()).hexdigest()[:12]


def _wants_packages(requirements: Path) -> bool:
    lines = (line.partition("#")[0].strip() for line in requirements.read_text().splitlines())
    return any(lines)


def _make(folder: Path, python: Path, requirements: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)  # incomplete, from a run that was stopped
    needs_packages = _wants_packages(requirements)
    venv.create(folder, with_pip=needs_packages)
    if needs_packages:
        _install(python, requirements)
    (folder / ".complete").touch()


def _install(python: Path, requirements: Path) -> None:
    command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", requirements]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise MissingDependency(
            f'the environment of peer "{requirements.stem}" cannot be made: {done.stderr.strip()[-500:]}',
            fix=f"see that pip can install {requirements.name}",
        )
