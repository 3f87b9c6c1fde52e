"""How a realtime query is doing, from what Spark tells about its batches, one now and then."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from headrace.engine.progress import Progress
from headrace.engine.realtime.envelope import CODES
from headrace.engine.reports import Report

COUNTS = "counts"
"""The name under which Spark tells what a batch had."""


class Course:
    """Keeps a query's progress; Spark remembers a hundred batches, so `add` must be called now and then."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._last = -1

    def add(self, told: Iterable[Any]) -> None:
        """What Spark remembers of the query; what was added before is left out."""
        for batch in told:
            if batch["batchId"] > self._last:
                self._last = batch["batchId"]
                self._progress.add([_report(batch)])


def _report(batch: Any) -> Report:
    counts = batch["observedMetrics"].get(COUNTS)
    problems = {code: counts[code] for code in CODES if counts[code]} if counts else {}
    written = counts["all"] - sum(problems.values()) if counts else 0
    return Report(0, batch["numInputRows"], written, problems)
