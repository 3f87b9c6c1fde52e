"""What tasks report in addition to their rows: how much they read, and which records could not be used.

An aggregate passes on nothing but its results, so tasks that read write a *note*, a small file, for each range they
read; the driver collects the notes of an attempt when the batch has run, and commits the dead letters with the batch's
results. A task that is retried overwrites its note. Each attempt has its own name, so that a late note of an abandoned
attempt is never taken for one of the next.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Sequence
from pathlib import Path

from pyspark import TaskContext
from pyspark.sql import SparkSession

from headrace.engine.io.row_payloads import rows_payload
from headrace.engine.task_report import TaskReport
from headrace.plan.chain.records import RawRecord
from headrace.private_folder import make_private

_ATTEMPT = "headrace.attempt"


class BatchAttempt:
    """One attempt at a batch, in the driver."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        name = secrets.token_hex(8)
        self._folder = folder / name
        make_private(self._folder)
        spark.sparkContext.setLocalProperty(_ATTEMPT, name)

    def notes(self) -> list[tuple[TaskReport, bytes]]:
        """The report of each range, and its packed dead letters; no bytes if there are none."""
        return [_parsed(path.read_bytes()) for path in sorted(self._folder.glob("*.note"))]


def write_note(folder: str, name: str, report: TaskReport, dead_letters: Sequence[RawRecord]) -> None:
    """In a task: writes a note of this name."""
    context = TaskContext.get()
    attempt = context.getLocalProperty(_ATTEMPT) if context else None
    if attempt is None or not folder:
        return  # no attempt: rows are read outside of a query
    path = Path(folder) / attempt / f"{name}.note"
    new = path.with_suffix(f".{os.getpid()}")
    new.write_bytes(report.packed() + b"\n" + (rows_payload(dead_letters) if dead_letters else b""))
    new.replace(path)


def _parsed(data: bytes) -> tuple[TaskReport, bytes]:
    report, _, dead_letters = data.partition(b"\n")
    return TaskReport.unpacked(report), dead_letters
