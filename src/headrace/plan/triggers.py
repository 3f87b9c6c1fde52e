"""Triggers: when the changes of a table are emitted, as values of an `Emit` node.

Time is stream time: the latest time among the changes so far and the ticks. Until the trigger fires, the changes of a
key are held back, and only their net result is emitted, at the time of the last of them: nothing if the key was created
and deleted in between. Changes that are due at the same time are emitted in the order in which the keys first changed,
before the change that advanced the time.

    PerRecord       every change by itself
    PerBatch        at the end of each batch, so that results depend on how the input is cut into batches
    Every(n)        when time reaches the next multiple of n since 1970: all keys together
    After(n)        n after a key's first change since it was last emitted: each key by itself
    Panes(e, l)     for windows: up to the window's end by the trigger `e` (early; None is never), then at its end (on
                    time), then in the grace period by the trigger `l` (late). A pane without changes is skipped.

After the window's idle timeout a tick emits all held panes.

EMIT FINAL, once per window after its grace, is the node `Final`. A session's end, here, is when its gap is over.
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
    """Without `late` the window must have no grace: a row after its end is then late for the aggregate itself."""

    early: Pace | None = None
    late: Pace | None = None


Trigger = Pace | PerBatch | Panes


class Results(StrEnum):
    """How a result relates to an earlier one of the same key."""

    ACCUMULATING = "accumulating"
    """Covers all rows so far: it replaces the earlier one."""
    DISCARDING = "discarding"
    """Covers the rows since the earlier one: results add up. Nothing is ever deleted."""
    RETRACTING = "retracting"
    """Covers all rows so far, and the earlier one is deleted first."""
