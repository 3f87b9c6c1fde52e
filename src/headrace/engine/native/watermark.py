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
_MAX_RANGES = 64
"""Most ranges stored: they are a part of every offset."""

WindowRange = tuple[int, int]
"""The numbers of the first and of the last window."""
Times = npt.NDArray[np.int64]


class WatermarkState(NamedTuple):
    now: int = NEVER
    """The stream time."""
    open: tuple[WindowRange, ...] = ()
    """Windows that have rows and are not closed; only where windows are emitted once."""

    def after_rows(self, times: Times, spec: NativeTaskSpec) -> WatermarkState:
        """The state after rows of these times."""
        windows = tuple(_window_ranges(times, spec.hops)) if spec.final and spec.hops else ()
        return self.merged(WatermarkState(int(times.max(initial=NEVER)), windows), spec)

    def after_tick(self, time: int, spec: NativeTaskSpec) -> WatermarkState:
        return self.merged(WatermarkState(time), spec)

    def merged(self, other: WatermarkState, spec: NativeTaskSpec) -> WatermarkState:
        """Merges the states of two parts of the stream."""
        now = max(self.now, other.now)
        if not spec.final or spec.hops is None:
            return WatermarkState(now)
        return WatermarkState(now, _merge_ranges([*self.open, *other.open], spec.hops.first_open(now)))


def parse_watermark(now: int, windows: Iterable[Sequence[int]] = ()) -> WatermarkState:
    """Parses the stored form."""
    return WatermarkState(now, tuple((first, last) for first, last in windows))


def _window_ranges(times: Times, hops: WindowSpec) -> Iterator[WindowRange]:
    """The windows that contain any of these times."""
    cell = gcd(hops.size, hops.advance)  # all times of a cell are in the same windows
    cells = np.unique(times // cell) * cell
    firsts = np.maximum(cells - hops.size + hops.advance, 0) // hops.advance
    return zip(firsts.tolist(), (cells // hops.advance).tolist(), strict=True)


def _merge_ranges(ranges: Iterable[WindowRange], lowest: int) -> tuple[WindowRange, ...]:
    merged: list[WindowRange] = []
    for start, last in sorted(ranges):
        first = max(start, lowest)
        if first > last:
            continue
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return tuple(merged) if len(merged) <= _MAX_RANGES else _widest_gaps(merged)


def _widest_gaps(ranges: Sequence[WindowRange]) -> tuple[WindowRange, ...]:
    """Merges ranges; only the widest gaps between them stay."""
    gaps = sorted(range(1, len(ranges)), key=lambda i: ranges[i - 1][1] - ranges[i][0])
    cuts = [0, *sorted(gaps[: _MAX_RANGES - 1]), len(ranges)]
    return tuple((ranges[a][0], ranges[b - 1][1]) for a, b in pairwise(cuts))


# -- reports of tasks, and the driver's use of them ------------------------------------------------------------------


def report_watermark(report: TaskReport, spec: NativeTaskSpec, before: WatermarkState, after: WatermarkState) -> None:
    """In a task: adds the stream time after its rows to its report."""
    report.time = None if after.now == NEVER else after.now
    if spec.final and spec.hops is not None:
        report.open = list(after.open)
        report.follows = spec.hops.closed(after.now) > spec.hops.closed(before.now)


def merge_watermarks(reports: Iterable[TaskReport], before: WatermarkState, spec: NativeTaskSpec) -> WatermarkState:
    """The state after the tasks of a batch."""
    merged = before
    for report in reports:
        merged = merged.merged(parse_watermark(NEVER if report.time is None else report.time, report.open), spec)
    return merged


class DeadlineTracker:
    """In the driver: tracks the stream from batch to batch, by the tasks' reports."""

    def __init__(self, spec: NativeTaskSpec) -> None:
        self._spec = spec
        self._reached = WatermarkState()

    def with_deadline(self, reports: list[TaskReport]) -> list[TaskReport]:
        """Adds the query's next deadline to the reports of a batch. A batch without rows does not change it."""
        if not self._spec.final:
            return reports
        self._reached = merge_watermarks(reports, self._reached, self._spec)
        for report in reports:
            report.open, report.deadline = [], self._next()
        return reports

    def _next(self) -> int | None:
        windows, hops = self._reached.open, self._spec.hops
        return hops.due(windows[0][0]) if windows and hops else None
