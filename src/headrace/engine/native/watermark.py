"""The stream time of a windowed query, and what follows from it: which windows are closed, and when the next closes.

With EMIT FINAL a window is emitted when stream time has reached its end plus the grace. Rows advance stream time, and
ticks do where rows do not. The windows that have rows must be known, to request a tick at the right time: they are
stored by their numbers (a window's start is its number times the advance), in ranges, since most streams fill window
after window. Where a stream has more gaps than are stored, a tick may be sent for an empty window.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from math import gcd
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from headrace.engine.native.task_spec import NativeTaskSpec, WindowSpec
from headrace.engine.task_report import TaskReport

NEVER = -1
"""The time of a stream without any row."""
_MOST = 64
"""Most ranges stored: they are a part of every offset."""

WindowRange = tuple[int, int]
"""The numbers of the first and of the last window."""
Times = npt.NDArray[np.int64]


class WatermarkState(NamedTuple):
    now: int = NEVER
    """The stream time."""
    open: tuple[WindowRange, ...] = ()
    """Windows that have rows and are not closed; only where windows are emitted once."""

    def met(self, times: Times, work: NativeTaskSpec) -> WatermarkState:
        """The state after rows of these times."""
        windows = tuple(_windows(times, work.hops)) if work.final and work.hops else ()
        return self.joined(WatermarkState(int(times.max(initial=NEVER)), windows), work)

    def ticked(self, time: int, work: NativeTaskSpec) -> WatermarkState:
        return self.joined(WatermarkState(time), work)

    def joined(self, other: WatermarkState, work: NativeTaskSpec) -> WatermarkState:
        """Merges the states of two parts of the stream."""
        now = max(self.now, other.now)
        if not work.final or work.hops is None:
            return WatermarkState(now)
        return WatermarkState(now, _joined([*self.open, *other.open], work.hops.first_open(now)))


def parse_watermark(now: int, windows: Iterable[Sequence[int]] = ()) -> WatermarkState:
    """Parses the stored form."""
    return WatermarkState(now, tuple((first, last) for first, last in windows))


def _windows(times: Times, hops: WindowSpec) -> Iterator[WindowRange]:
    """The windows that contain any of these times."""
    cell = gcd(hops.size, hops.advance)  # all times of a cell are in the same windows
    cells = np.unique(times // cell) * cell
    firsts = np.maximum(cells - hops.size + hops.advance, 0) // hops.advance
    return zip(firsts.tolist(), (cells // hops.advance).tolist(), strict=True)


def _joined(ranges: Iterable[WindowRange], lowest: int) -> tuple[WindowRange, ...]:
    found: list[WindowRange] = []
    for start, last in sorted(ranges):
        first = max(start, lowest)
        if first > last:
            continue
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        else:
            found.append((first, last))
    return tuple(found) if len(found) <= _MOST else _few(found)


def _few(ranges: Sequence[WindowRange]) -> tuple[WindowRange, ...]:
    """Merges ranges; only the widest gaps between them stay."""
    gaps = sorted(range(1, len(ranges)), key=lambda i: ranges[i - 1][1] - ranges[i][0])
    cuts = [0, *sorted(gaps[: _MOST - 1]), len(ranges)]
    return tuple((ranges[a][0], ranges[b - 1][1]) for a, b in pairwise(cuts))


# -- reports of tasks, and the driver's use of them ------------------------------------------------------------------


def report_watermark(report: TaskReport, work: NativeTaskSpec, before: WatermarkState, behind: WatermarkState) -> None:
    """In a task: adds the stream time after its rows to its report."""
    report.time = None if behind.now == NEVER else behind.now
    if work.final and work.hops is not None:
        report.open = list(behind.open)
        report.follows = work.hops.closed(behind.now) > work.hops.closed(before.now)


def merge_watermarks(reports: Iterable[TaskReport], before: WatermarkState, work: NativeTaskSpec) -> WatermarkState:
    """The state after the tasks of a batch."""
    behind = before
    for report in reports:
        behind = behind.joined(parse_watermark(NEVER if report.time is None else report.time, report.open), work)
    return behind


class DeadlineTracker:
    """In the driver: tracks the stream from batch to batch, by the tasks' reports."""

    def __init__(self, work: NativeTaskSpec) -> None:
        self._work = work
        self._reached = WatermarkState()

    def told(self, reports: list[TaskReport]) -> list[TaskReport]:
        """Adds the query's next deadline to the reports of a batch. A batch without rows does not change it."""
        if not self._work.final:
            return reports
        self._reached = merge_watermarks(reports, self._reached, self._work)
        for report in reports:
            report.open, report.deadline = [], self._next()
        return reports

    def _next(self) -> int | None:
        windows, hops = self._reached.open, self._work.hops
        return hops.due(windows[0][0]) if windows and hops else None
