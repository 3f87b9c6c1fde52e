"""When a table's changes go on, as values: the trigger of an `Emit` node.

Time is stream time: the latest time among the changes so far and the ticks. Between two moments of a trigger the
changes of a key are held back, and only what they come to goes on, at the time of the last of them: nothing if the key
is gone again and nobody heard of it. What is due at the same moment goes out in the order in which the keys first
changed, before the change that moved the time.

    PerRecord       every change by itself
    PerBatch        at the end of each batch, so that how the input is cut into batches shows
    Every(n)        when time reaches the next multiple of n since 1970: all keys together
    After(n)        n after a key's first change since it last went out: each key by itself
    Panes(e, l)     for windows: up to the window's end by the trigger `e` (early; None is never), then at its end (on
                    time), then what comes in the grace by the trigger `l` (late). A pane without news is left out.

After the window's idle time-out a tick gives out all panes that are held.

EMIT FINAL, once per window after its grace, is the node `Final`. A session's end, for this, is when its gap is over.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum


@dataclass(frozen=True)
class PerRecord:
    pass


@dataclass(frozen=True)
class PerBatch:
    pass


@dataclass(frozen=True)
class Every:
    period: timedelta


@dataclass(frozen=True)
class After:
    delay: timedelta


Pace = PerRecord | Every | After


@dataclass(frozen=True)
class Panes:
    """Without `late` the window must have no grace: what comes after its end is late for the aggregate itself."""

    early: Pace | None = None
    late: Pace | None = None


Trigger = Pace | PerBatch | Panes


class Results(StrEnum):
    """What a result is about, if the key had one before."""

    ACCUMULATING = "accumulating"
    """All rows so far: it replaces the one before."""
    DISCARDING = "discarding"
    """The rows since the one before: results add up. Nothing is ever deleted."""
    RETRACTING = "retracting"
    """All rows so far, and the one before is deleted first."""
