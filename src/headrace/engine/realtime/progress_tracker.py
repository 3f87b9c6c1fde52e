"""Tracks the progress of a realtime query from Spark's reports, which come at intervals."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from headrace.engine.progress import Progress
from headrace.engine.realtime.envelope import CODES
from headrace.engine.task_report import TaskReport

COUNTS_METRIC = "counts"
"""The name of Spark's observed metric with the counts of a batch."""


class ProgressTracker:
    """Updates a query's progress; Spark retains a hundred batches, so `add` must be called from time to time."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._last = -1

    def add(self, batches: Iterable[Any]) -> None:
        """Adds Spark's recent reports; those added before are skipped."""
        for batch in batches:
            if batch["batchId"] > self._last:
                self._last = batch["batchId"]
                self._progress.add([_report(batch)])


def _report(batch: Any) -> TaskReport:
    counts = batch["observedMetrics"].get(COUNTS_METRIC)
    problems = {code: counts[code] for code in CODES if counts[code]} if counts else {}
    results = counts["all"] - sum(problems.values()) if counts else 0
    return TaskReport(0, batch["numInputRows"], results, problems)
