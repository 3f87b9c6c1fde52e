"""What tasks say beside the rows they give: how much they read, and which records could not be used.

An aggregate lets nothing through but its results, so tasks that read leave a *note*, a small file, for each range they
read; the driver collects the notes of an attempt when the batch has run, and commits the dead letters with the batch's
results. A task that is tried again overwrites its note. An attempt has a name of its own, so that what a task of an
attempt that was given up writes late is never taken for the next one's.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Sequence
from pathlib import Path

from pyspark import TaskContext
from pyspark.sql import SparkSession

from headrace.engine.record.packing import packed_rows
from headrace.engine.reports import Report
from headrace.plan.chain.records import Raw

_ATTEMPT = "headrace.attempt"


class Attempt:
    """One try of a batch, in the driver."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        name = secrets.token_hex(8)
        self._folder = folder / name
        self._folder.mkdir(parents=True)
        spark.sparkContext.setLocalProperty(_ATTEMPT, name)

    def notes(self) -> list[tuple[Report, bytes]]:
        """A report of each range, and its dead letters packed; no bytes if there are none."""
        return [_parsed(path.read_bytes()) for path in sorted(self._folder.glob("*.note"))]


def leave(folder: str, name: str, report: Report, letters: Sequence[Raw]) -> None:
    """In a task: note what was read under this name."""
    context = TaskContext.get()
    attempt = context.getLocalProperty(_ATTEMPT) if context else None
    if attempt is None or not folder:
        return  # nobody asks: rows are read outside of a query
    path = Path(folder) / attempt / f"{name}.note"
    new = path.with_suffix(f".{os.getpid()}")
    new.write_bytes(report.packed() + b"\n" + (packed_rows(letters) if letters else b""))
    new.replace(path)


def _parsed(data: bytes) -> tuple[Report, bytes]:
    report, _, letters = data.partition(b"\n")
    return Report.unpacked(report), letters
