"""The progress of a running query: counters that grow with its batches, for users and for the reconciler."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Progress:
    """Totals since the query was started, and details of the last batch."""

    batches: int = 0
    records: int = 0
    written: int = 0
    problems: dict[str, int] = field(default_factory=dict)
    """Records that became dead letters, by code; late ones are `late-record`."""
    time: int | None = None
    """The latest event time seen, in ms."""
    deadlines: dict[int, int | None] = field(default_factory=dict)
    """By key group: when its next tick is due, in event time."""
    entries: dict[int, int] = field(default_factory=dict)
    """By key group: the number of entries in its state."""
    follows: bool = False
    """Whether another batch follows at once, even without input."""
    last: dict[str, Any] = field(default_factory=dict)
    """Spark's figures of the last batch."""

    @property
    def deadline(self) -> int | None:
        return min((due for due in self.deadlines.values() if due is not None), default=None)

    @property
    def state(self) -> int:
        return sum(self.entries.values())

    @property
    def late(self) -> int:
        return self.problems.get("late-record", 0)

    @property
    def dead(self) -> int:
        return sum(self.problems.values())

    def add(self, reports: Any) -> None:
        """Adds the reports of a batch's tasks."""
        self.batches += 1
        self.follows = any(report.follows for report in reports)
        for report in reports:
            self.records += report.records
            self.written += report.written
            self.deadlines[report.key_group] = report.deadline
            self.entries[report.key_group] = report.entries
            for code, count in report.problems.items():
                self.problems[code] = self.problems.get(code, 0) + count
            if report.time is not None:
                self.time = report.time if self.time is None else max(self.time, report.time)


_PHASES = {
    "fetch": ("latestOffset", "getBatch"),
    "planning": ("queryPlanning",),
    "execution": ("addBatch",),
    "commit": ("walCommit", "commitOffsets", "commitBatch"),
}
"""The phases of a batch, by Spark's names."""


def batch_phases(progress: Mapping[str, Any]) -> dict[str, int]:
    """The duration of a batch from Spark's progress, in milliseconds: in total and by phase."""
    durations = progress["durationMs"]
    phases = {phase: sum(int(durations.get(name, 0)) for name in names) for phase, names in _PHASES.items()}
    return {"total": int(progress["batchDuration"]), **phases}
