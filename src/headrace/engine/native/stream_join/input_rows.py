"""Prepares rows of two joined streams for Spark: each with the stream times of its arrival.

Rows that have a key and a value advance the time of their side. A row that is older than window and grace, by its own
side's time, is late: it is reported, and no later row joins it; it may still join rows that are held, so it is passed
on. The chain itself decides what is reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from headrace.engine.native.input_rows import (
    InputRows,
    Mask,
    RowValidator,
    Times,
    counting_mask,
    counting_rows,
    reported_problems,
)
from headrace.engine.native.stream_join.task_spec import JoinTaskSpec, side_columns
from headrace.engine.native.watermark import NEVER
from headrace.log.stored_rows import integer_array, integer_values

_LATEST = 1 << 52
"""The latest `at`, in ms: Spark's times are microseconds. Capping it does not affect correctness."""
_FIRST = 1
"""The first `at`: Spark's watermark begins at 0, and rows that are no later count as late."""
_CLOCKS = ("left-clock", "right-clock")


class JoinClocks(NamedTuple):
    """The time of each side."""

    left: int = NEVER
    right: int = NEVER


@dataclass(frozen=True)
class SideRows:
    """Rows of one side, in order of arrival."""

    side: int
    rows: InputRows


def clocks_after(pieces: Sequence[SideRows], work: JoinTaskSpec, before: JoinClocks) -> JoinClocks:
    """The times after all rows have arrived."""
    latest = list(before)
    for piece in pieces:
        latest[piece.side] = max(latest[piece.side], _latest(piece, work))
    return JoinClocks(*latest)


def _latest(piece: SideRows, work: JoinTaskSpec) -> int:
    return int(counting_rows(piece.rows, work.sides[piece.side]).times.max(initial=NEVER))


def rows_with_clocks(pieces: Sequence[SideRows], work: JoinTaskSpec, before: JoinClocks) -> list[pa.RecordBatch]:
    """All rows that can join others, for Spark; also adds to each piece the problems that the chain reports."""
    masks = [_counts(piece, work) for piece in pieces]
    found = zip(pieces, masks, _times(pieces, masks, before), strict=True)
    return [_arrow(SideRows(one.side, _judged(one, work, mask, told).where(mask)), work) for one, mask, told in found]


def batch_rows_with_clocks(piece: SideRows, work: JoinTaskSpec, before: JoinClocks) -> pa.RecordBatch:
    """As `rows_with_clocks`, where rows of a batch are ordered by time: only the times before the batch count."""
    mask, own, other = _counts(piece, work), before[piece.side], before[1 - piece.side]
    told = RowClocks(np.maximum(piece.rows.times, own), np.full(len(piece.rows.times), other), min(before))
    return _arrow(SideRows(piece.side, _judged(piece, work, mask, told).where(mask)), work)


def _counts(piece: SideRows, work: JoinTaskSpec) -> Mask:
    mask = counting_mask(piece.rows, work.sides[piece.side])
    return np.ones(len(piece.rows.times), bool) if mask is None else mask


@dataclass(frozen=True)
class RowClocks:
    """The stream times at the arrival of each row of a piece."""

    own: Times
    other: Times
    both: Times | int
    """No later than any row that follows, on either side."""


def _times(pieces: Sequence[SideRows], masks: Sequence[Mask], before: JoinClocks) -> list[RowClocks]:
    """The times of all pieces in one order of arrival."""
    sides = np.concatenate([np.full(len(mask), piece.side) for piece, mask in zip(pieces, masks, strict=True)])
    order = np.argsort(np.concatenate([integer_values(piece.rows.columns["sequence"]) for piece in pieces]))
    times = np.where(np.concatenate(masks), np.concatenate([piece.rows.times for piece in pieces]), NEVER)
    clocks = np.empty((2, len(order)), np.int64)
    for side, now in enumerate(before):
        risen = np.where(sides == side, times, now)[order]
        clocks[side, order] = np.maximum(np.maximum.accumulate(risen), now)
    parts = np.split(clocks, np.cumsum([len(mask) for mask in masks])[:-1], axis=1)
    return [
        RowClocks(part[piece.side], part[1 - piece.side], part.min(axis=0))
        for piece, part in zip(pieces, parts, strict=True)
    ]


def _judged(piece: SideRows, work: JoinTaskSpec, counts: Mask, told: RowClocks) -> InputRows:
    rows, own = piece.rows, work.sides[piece.side]
    suspects = np.flatnonzero(~counts | (rows.times <= told.own - work.bounds.retention))
    if len(suspects):
        judge = RowValidator(own.plan, _CLOCKS[piece.side], piece.side)
        rows.problems += reported_problems(rows, own, suspects, told.own, judge)
    rows.columns["now"] = integer_array(told.other)
    rows.columns["at"] = integer_array(np.minimum(np.maximum(rows.times, told.both), _LATEST) + _FIRST)
    return rows


def _arrow(piece: SideRows, work: JoinTaskSpec) -> pa.RecordBatch:
    columns, count = piece.rows.columns, len(piece.rows.times)
    given = {half: columns[name] for name, half in side_columns(work.sides[piece.side])}
    given |= {name: columns[name] for name in ("time", *work.places, "now", "at", "headers")}
    given["side"] = pa.repeat(pa.scalar(piece.side, pa.int8()), count)
    arrow = work.arrow
    made = [
        given[field.name].cast(field.type) if field.name in given else pa.nulls(count, field.type) for field in arrow
    ]
    return pa.RecordBatch.from_arrays(made, schema=arrow)
