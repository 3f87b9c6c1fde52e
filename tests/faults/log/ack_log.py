"""Acknowledged facts of workers, one line each, appended to a file that outlives the worker.

A line is written by one call of the system right after the acknowledgement, so a fact in the file is a promise that
the log made. A worker that is killed in between leaves a promise out, which is the safe side.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

AckEntry = list[str]  # its kind, then its fields


class AckLog:
    """Where one life writes its facts."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def note(self, *facts: Sequence[object]) -> None:
        os.write(self._fd, "".join(" ".join(map(str, fact)) + "\n" for fact in facts).encode())


def read_acks(folder: Path) -> Iterator[AckEntry]:
    """All facts of all lives; a line that was cut off is no fact."""
    for path in sorted(folder.glob("*.facts")):
        *whole, _ = path.read_text().split("\n")
        yield from (line.split(" ") for line in whole)
