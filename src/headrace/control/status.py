"""How the queries of a program are doing, for people and for programs: one look now, rates over the last seconds."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from headrace.control.running import Running

_SPAN = 5.0  # seconds over which a rate is taken
_MUCH = 3.0  # seconds of work behind: less is no catching up


@dataclass(frozen=True)
class Status:
    """One query at one moment. `event_time` is the latest that it has seen, in ms; `dead` counts by code."""

    query: str
    sink: str
    way: str
    state: str
    """running, paused, stopped or failed."""
    records: int = 0
    written: int = 0
    rate: float = 0.0
    """Records read in a second."""
    waiting: int = 0
    """Records that it has yet to read."""
    done: float | None = None
    """While it is catching up: how much of that is done, from 0 to 1."""
    seconds_left: float | None = None
    batches: int = 0
    batch_time: Mapping[str, int] = field(default_factory=dict)
    """Of the last batch, in ms: `total`, and for what."""
    entries: int = 0
    """How much its state holds."""
    event_time: int | None = None
    late: int = 0
    dead: Mapping[str, int] = field(default_factory=dict)


@dataclass
class Course:
    """What is remembered of a query between looks."""

    seen: deque[tuple[float, int]] = field(default_factory=deque)
    most: int = 0
    """The most that was waiting since there was nothing left to read."""

    def rate(self, at: float, records: int) -> float:
        self.seen.append((at, records))
        while len(self.seen) > 2 and at - self.seen[0][0] > _SPAN:
            self.seen.popleft()
        first_at, first = self.seen[0]
        return (records - first) / (at - first_at) if at > first_at else 0.0

    def catching_up(self, waiting: int, rate: float) -> tuple[float | None, float | None]:
        """How much is done, and the seconds left; None where there is nothing worth waiting for."""
        self.most = max(self.most, waiting) if waiting else 0
        if not rate or waiting < rate * _MUCH:
            return None, None
        return 1 - waiting / self.most, waiting / rate


class Watch:
    """Looks at queries again and again."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._courses: dict[str, Course] = {}

    def look(self, running: Running) -> Status:
        progress, at = running.progress, self._now()
        course = self._courses.setdefault(running.query.id, Course(deque([(at, 0)])))
        waiting = running.waiting()
        rate = course.rate(at, progress.records)
        done, left = course.catching_up(waiting, rate)
        return Status(
            running.query.id,
            running.query.sink.topic,
            running.way,
            "running" if running.is_active else "failed" if running.failure() else "stopped",
            progress.records,
            progress.written,
            rate,
            waiting,
            done,
            left,
            progress.batches,
            running.batch_time,
            progress.state,
            progress.time,
            progress.late,
            dict(progress.problems),
        )
