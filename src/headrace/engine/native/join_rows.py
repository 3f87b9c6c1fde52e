"""Rows of two streams that are joined, on their way from the log to Spark: each with what time it was when it came.

Rows that have a key and a value move the time of their side. One that is older than the window and the grace, by its
own side's time, is late: it is reported, and no later row meets it; it may meet those that are held all the same, so it
goes on. What is reported, the chain itself says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from headrace.engine.native.joins import JoinWork, names
from headrace.engine.native.moments import NEVER
from headrace.engine.native.rows import Judge, Mask, Rows, Times, counted, counting, reported
from headrace.log.rows import integers, numbers

_LATEST = 1 << 52
"""The latest `at`, in ms: Spark's times are microseconds. It is no less right for rows that are later."""
_FIRST = 1
"""The first `at`: Spark's watermark begins at 0, and what is no later counts as late."""
_CLOCKS = ("left-clock", "right-clock")


class Clocks(NamedTuple):
    """The time of each side."""

    left: int = NEVER
    right: int = NEVER


@dataclass(frozen=True)
class Piece:
    """Rows of one side, in order of arrival."""

    side: int
    rows: Rows


def clocks_behind(pieces: Sequence[Piece], work: JoinWork, before: Clocks) -> Clocks:
    """The times when all rows have arrived."""
    latest = list(before)
    for piece in pieces:
        latest[piece.side] = max(latest[piece.side], _latest(piece, work))
    return Clocks(*latest)


def _latest(piece: Piece, work: JoinWork) -> int:
    return int(counted(piece.rows, work.sides[piece.side]).times.max(initial=NEVER))


def timed(pieces: Sequence[Piece], work: JoinWork, before: Clocks) -> list[pa.RecordBatch]:
    """All rows that can meet others, for Spark; each piece has then all that the chain reports of its rows."""
    masks = [_counts(piece, work) for piece in pieces]
    found = zip(pieces, masks, _times(pieces, masks, before), strict=True)
    return [_arrow(Piece(one.side, _judged(one, work, mask, told).where(mask)), work) for one, mask, told in found]


def in_batch(piece: Piece, work: JoinWork, before: Clocks) -> pa.RecordBatch:
    """The same where rows of a batch are in order of their times: only the times before it count for others."""
    mask, own, other = _counts(piece, work), before[piece.side], before[1 - piece.side]
    told = Told(np.maximum(piece.rows.times, own), np.full(len(piece.rows.times), other), min(before))
    return _arrow(Piece(piece.side, _judged(piece, work, mask, told).where(mask)), work)


def _counts(piece: Piece, work: JoinWork) -> Mask:
    mask = counting(piece.rows, work.sides[piece.side])
    return np.ones(len(piece.rows.times), bool) if mask is None else mask


@dataclass(frozen=True)
class Told:
    """What time it was when each row of a piece had come."""

    own: Times
    other: Times
    both: Times | int
    """No later than any row that comes behind it, on either side."""


def _times(pieces: Sequence[Piece], masks: Sequence[Mask], before: Clocks) -> list[Told]:
    """Of all pieces in one order of arrival."""
    sides = np.concatenate([np.full(len(mask), piece.side) for piece, mask in zip(pieces, masks, strict=True)])
    order = np.argsort(np.concatenate([numbers(piece.rows.columns["sequence"]) for piece in pieces]))
    times = np.where(np.concatenate(masks), np.concatenate([piece.rows.times for piece in pieces]), NEVER)
    clocks = np.empty((2, len(order)), np.int64)
    for side, now in enumerate(before):
        risen = np.where(sides == side, times, now)[order]
        clocks[side, order] = np.maximum(np.maximum.accumulate(risen), now)
    parts = np.split(clocks, np.cumsum([len(mask) for mask in masks])[:-1], axis=1)
    return [
        Told(part[piece.side], part[1 - piece.side], part.min(axis=0))
        for piece, part in zip(pieces, parts, strict=True)
    ]


def _judged(piece: Piece, work: JoinWork, counts: Mask, told: Told) -> Rows:
    rows, own = piece.rows, work.sides[piece.side]
    suspects = np.flatnonzero(~counts | (rows.times <= told.own - work.bounds.retention))
    if len(suspects):
        judge = Judge(own.plan, _CLOCKS[piece.side], piece.side)
        rows.problems += reported(rows, own, suspects, told.own, judge)
    rows.columns["now"] = integers(told.other)
    rows.columns["at"] = integers(np.minimum(np.maximum(rows.times, told.both), _LATEST) + _FIRST)
    return rows


def _arrow(piece: Piece, work: JoinWork) -> pa.RecordBatch:
    columns, count = piece.rows.columns, len(piece.rows.times)
    given = {half: columns[name] for name, half in names(work.sides[piece.side])}
    given |= {name: columns[name] for name in ("time", *work.places, "now", "at", "headers")}
    given["side"] = pa.repeat(pa.scalar(piece.side, pa.int8()), count)
    arrow = work.arrow
    made = [
        given[field.name].cast(field.type) if field.name in given else pa.nulls(count, field.type) for field in arrow
    ]
    return pa.RecordBatch.from_arrays(made, schema=arrow)
