"""How far a stream with windows has come, and what follows from it: which windows are closed, and when the next one is.

For EMIT FINAL a window goes out when the time of the stream has reached its end and the grace. Rows move that time, and
ticks do where rows do not. Somebody must know which windows have rows, to ask for a tick at the right time: they are
noted by their numbers (a window's start is its number times the advance), in ranges, as most streams fill window after
window. Where a stream is torn into more pieces than are noted, a tick may come for a window that is empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from math import gcd
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from headrace.engine.native.work import Hops, Work
from headrace.engine.reports import Report

NEVER = -1
"""The time of a stream that has had no row."""
_MOST = 64
"""How many ranges are noted: they are a part of every offset."""

Range = tuple[int, int]
"""The numbers of the first and of the last window."""
Times = npt.NDArray[np.int64]


class Moment(NamedTuple):
    now: int = NEVER
    """The time of the stream."""
    open: tuple[Range, ...] = ()
    """Windows that have rows and have not closed; only where they come out once."""

    def met(self, times: Times, work: Work) -> Moment:
        """After rows of these times."""
        windows = tuple(_windows(times, work.hops)) if work.final and work.hops else ()
        return self.joined(Moment(int(times.max(initial=NEVER)), windows), work)

    def ticked(self, time: int, work: Work) -> Moment:
        return self.joined(Moment(time), work)

    def joined(self, other: Moment, work: Work) -> Moment:
        """What two parts of the stream come to."""
        now = max(self.now, other.now)
        if not work.final or work.hops is None:
            return Moment(now)
        return Moment(now, _joined([*self.open, *other.open], work.hops.first_open(now)))


def moment(now: int, windows: Iterable[Sequence[int]] = ()) -> Moment:
    """As it was written down."""
    return Moment(now, tuple((first, last) for first, last in windows))


def _windows(times: Times, hops: Hops) -> Iterator[Range]:
    """Those that hold any of these times."""
    cell = gcd(hops.size, hops.advance)  # all times of a cell lie in the same windows
    cells = np.unique(times // cell) * cell
    firsts = np.maximum(cells - hops.size + hops.advance, 0) // hops.advance
    return zip(firsts.tolist(), (cells // hops.advance).tolist(), strict=True)


def _joined(ranges: Iterable[Range], lowest: int) -> tuple[Range, ...]:
    found: list[Range] = []
    for start, last in sorted(ranges):
        first = max(start, lowest)
        if first > last:
            continue
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        else:
            found.append((first, last))
    return tuple(found) if len(found) <= _MOST else _few(found)


def _few(ranges: Sequence[Range]) -> tuple[Range, ...]:
    """Only the widest gaps between them stay."""
    gaps = sorted(range(1, len(ranges)), key=lambda i: ranges[i - 1][1] - ranges[i][0])
    cuts = [0, *sorted(gaps[: _MOST - 1]), len(ranges)]
    return tuple((ranges[a][0], ranges[b - 1][1]) for a, b in pairwise(cuts))


# -- what tasks say, and the driver makes of it ---------------------------------------------------------------------


def note(report: Report, work: Work, before: Moment, behind: Moment) -> None:
    """In a task: put into its report how far its rows have brought the stream."""
    report.time = None if behind.now == NEVER else behind.now
    if work.final and work.hops is not None:
        report.open = list(behind.open)
        report.follows = work.hops.closed(behind.now) > work.hops.closed(before.now)


def reached(reports: Iterable[Report], before: Moment, work: Work) -> Moment:
    """How far the tasks of a batch have brought the stream."""
    behind = before
    for report in reports:
        behind = behind.joined(moment(NEVER if report.time is None else report.time, report.open), work)
    return behind


class Deadlines:
    """In the driver: a stream from batch to batch, as tasks note it."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._reached = Moment()

    def told(self, reports: list[Report]) -> list[Report]:
        """The reports of a batch, each with the query's next deadline. A batch without rows leaves it as it is."""
        if not self._work.final:
            return reports
        self._reached = reached(reports, self._reached, self._work)
        for report in reports:
            report.open, report.deadline = [], self._next()
        return reports

    def _next(self) -> int | None:
        windows, hops = self._reached.open, self._work.hops
        return hops.due(windows[0][0]) if windows and hops else None
