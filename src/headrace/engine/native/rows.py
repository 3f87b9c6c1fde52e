"""Rows of a topic as the source gives them to Spark: columns of a frame, without those that cannot be used.

A topic with a schema is read column by column; a raw one by the formats (see `raw`). What is wrong with a row
(`bad-record`, `bad-time`, no group, late) is told by the chain itself: rows that *may* be reported are picked out
vectorised, and only those few are run through it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.contracts import Batch, Topic
from headrace.engine.batch.frames import tuples, type_of
from headrace.engine.native import raw
from headrace.engine.native.columns import carried, matched
from headrace.engine.native.conditions import holding
from headrace.engine.native.headers import packed
from headrace.engine.native.work import Hops, Work
from headrace.log.rows import integers, numbers
from headrace.plan.chain.chain import Chain
from headrace.plan.chain.contract import Context, Event, Problem, Store
from headrace.plan.nodes import Query, Source

Mask = npt.NDArray[np.bool_]
Times = npt.NDArray[np.int64]
_NO_TIME = -1
_LAST = 9_000_000_000_000_000
"""The last time, in ms, of which a window can be closed by Spark, whose times are microseconds: some 285,000 years."""


@dataclass
class Rows:
    """Columns by name, of rows in order of arrival, and what was wrong with others."""

    columns: dict[str, pa.Array]
    problems: list[Problem] = field(default_factory=list)

    @property
    def times(self) -> Times:
        return numbers(self.columns["time"])

    def where(self, mask: Mask) -> Rows:
        if mask.all():
            return self
        chosen = pa.array(mask)
        return Rows({name: column.filter(chosen) for name, column in self.columns.items()}, self.problems)


def read(batch: Batch, topic: Topic, work: Work) -> Rows:
    """All rows of a batch that have a time and fit; those that cannot be read are told of."""
    if not topic.schema.is_raw:
        return _fitting(_typed(batch, topic, work), work)
    rows = Rows(*raw.decoded(batch, work))
    return _fitting(rows if work.hops is None else _near(rows, batch, work.source), work)


def _fitting(rows: Rows, work: Work) -> Rows:
    if work.condition is None:
        return rows
    fits = holding(work.condition, work.source.relation, rows.columns)
    return rows.where(_bits(pc.and_(rows.columns["valued"], fits)))


# -- topics with a schema -------------------------------------------------------------------------------------------


def _typed(batch: Batch, topic: Topic, work: Work) -> Rows:
    source, rows = work.source, batch.rows
    names = _matched(work, topic)
    columns = {name: carried(rows.column(names[name]), type_of(name, source.relation)) for name in work.columns}
    columns["time"] = _time(rows, names, source)
    columns["valued"] = _valued(rows.column("$deleted"))
    single = len(source.relation.key) == 1 and "k0" in columns
    columns["keyed"] = columns["k0"].is_valid() if single else _all_true(rows.num_rows)
    columns["sequence"] = rows.column("$sequence")
    if work.carries_headers:
        columns["headers"] = packed(rows.column("$headers"))
    return _timed(Rows(columns), batch, source, _LAST if work.hops else None)


@lru_cache(64)
def _matched(work: Work, topic: Topic) -> dict[str, str]:
    """By the frame's column the topic's."""
    relation = work.source.relation
    found = matched(relation.columns, topic, work.source.name)
    fields = {"k": relation.key, "v": relation.value}
    return {f"{letter}{i}": found[f.name] for letter, those in fields.items() for i, f in enumerate(those)}


def _valued(deleted: pa.Array) -> pa.Array:
    if deleted.null_count < len(deleted):
        return pc.invert(pc.fill_null(deleted, False))
    return _all_true(len(deleted))


def _all_true(count: int) -> pa.Array:
    return pa.Array.from_buffers(pa.bool_(), count, [None, pa.py_buffer(b"\xff" * (count // 8 + 1))])


def _time(rows: pa.RecordBatch, names: dict[str, str], source: Source) -> pa.Array:
    """A row's own time, or what a column says; a row without a payload keeps its own."""
    own = rows.column("$timestamp")
    if source.timestamp is None:
        return own
    place = [f.name for f in source.relation.columns].index(source.timestamp.column)
    width = len(source.relation.key)
    name = f"k{place}" if place < width else f"v{place - width}"
    said = pc.fill_null(rows.column(names[name]).cast(pa.int64()), _NO_TIME)
    return pc.if_else(pc.fill_null(rows.column("$deleted"), False), own, said) if name[0] == "v" else said


def _timed(rows: Rows, batch: Batch, source: Source, last: int | None) -> Rows:
    if rows.times.min(initial=0) >= 0 and (last is None or rows.times.max(initial=0) <= last):
        return rows
    good = rows.times >= 0
    if last is not None:
        good &= rows.times <= last
    bad = np.flatnonzero(~good)
    for place in bad.tolist():
        at = batch.rows.column("$offset")[place].as_py()
        partition = f", partition {batch.partition}" if batch.partition >= 0 else ""
        where = f"topic {source.topic}{partition}, offset {at}"
        time = batch.rows.column("$timestamp")[place].as_py()
        rows.problems.append(Problem("bad-time", _bad_time(rows, place, source), where, time))
    return rows.where(good)


def _near(rows: Rows, batch: Batch, source: Source) -> Rows:
    """Of a raw topic, on Kafka, where a row's place is its offset."""
    good = rows.times <= _LAST
    for place in np.flatnonzero(~good).tolist():
        offset = rows.columns["sequence"][place].as_py()
        where = f"topic {source.topic}, partition {batch.partition}, offset {offset}"
        rows.problems.append(Problem("bad-time", _bad_time(rows, place, source), where, int(rows.times[place])))
    return rows.where(good)


def _bad_time(rows: Rows, place: int, source: Source) -> str:
    time = int(rows.times[place])
    if source.timestamp is not None and time == _NO_TIME:
        return "the column that holds its time is null"
    return f"its time, {time}, is {'before 1970' if time < 0 else 'too far ahead'}"


# -- what counts, and what is reported ------------------------------------------------------------------------------


def counting(rows: Rows, work: Work) -> Mask | None:
    """Rows that reach the aggregate's groups: they, and no others, move the time of the stream. None is all."""
    valued, groups = rows.columns["valued"], [rows.columns[group] for group in work.groups]
    if not valued.false_count and not any(group.null_count for group in groups):
        return None
    return np.logical_and.reduce([_bits(valued), *(_bits(group.is_valid()) for group in groups)])


def counted(rows: Rows, work: Work) -> Rows:
    mask = counting(rows, work)
    return rows if mask is None else rows.where(mask)


def time_behind(rows: Rows, work: Work, now: int) -> int:
    """The time of the stream when all rows have arrived; it was `now` before the first."""
    return int(times_that_count(rows, work).max(initial=now))


def times_that_count(rows: Rows, work: Work) -> Times:
    mask = counting(rows, work)
    return rows.times if mask is None else rows.times[mask]


def judged(rows: Rows, work: Work, now: int) -> tuple[Rows, int]:
    """The rows for Spark, with all that the chain reports of them; and the time of the stream behind them."""
    if not (work.aggregates or work.distinct) or not len(rows.times):
        return rows, now
    mask = counting(rows, work)
    if work.hops is None:
        return _told(rows, work, None if mask is None else ~mask, None), now
    behind = time_behind(rows, work, now)
    if not _may_be_late(int(rows.times.min()), behind, work.hops):
        rows.columns["now"] = integers(np.full(len(rows.times), now))
        return _told(rows, work, None if mask is None else ~mask, None), behind
    nows = np.maximum(rows.times if mask is None else np.where(mask, rows.times, now), now)
    if not work.by_time:
        nows = np.maximum.accumulate(nows)
    rows.columns["now"] = integers(nows)
    late, kept = _late(rows.times, nows, work.hops)
    return _told(rows, work, late if mask is None else late | ~mask, nows).where(kept), behind


def _told(rows: Rows, work: Work, suspect: Mask | None, nows: Times | None) -> Rows:
    """The rows, with what the chain says of those that are suspect."""
    places = [] if suspect is None else np.flatnonzero(suspect)
    if len(places):
        rows.problems += reported(rows, work, np.asarray(places), nows, Judge(work.plan))
    return rows


def _may_be_late(first: int, now: int, hops: Hops) -> bool:
    """Whether any window of a row of that time is closed: then rows must be looked at one by one."""
    return max(first - hops.size + hops.advance, 0) // hops.advance * hops.advance + hops.size <= now - hops.grace


def _late(times: Times, nows: Times, hops: Hops) -> tuple[Mask, Mask]:
    """Rows of which some window had closed; and rows of which some window is open."""
    closed = nows - hops.grace
    first = np.maximum(times - hops.size + hops.advance, 0) // hops.advance * hops.advance
    last = times // hops.advance * hops.advance
    return first + hops.size <= closed, last + hops.size > closed


def _bits(array: pa.Array) -> Mask:
    return array.to_numpy(zero_copy_only=False)


def reported(rows: Rows, work: Work, places: npt.NDArray[np.intp], nows: Times | None, judge: Judge) -> list[Problem]:
    """What the judge says of the rows at these places, if it was that time when they came."""
    chosen = {name: column.take(pa.array(places)) for name, column in rows.columns.items()}
    times = [None] * len(places) if nows is None else nows[places].tolist()
    return [p for event, now in zip(_events(chosen, work.source), times, strict=True) for p in judge(event, now)]


def _events(columns: dict[str, pa.Array], source: Source) -> Sequence[Event]:
    relation = source.relation
    keys, values = tuples(columns, "k", relation, "keyed"), tuples(columns, "v", relation, "valued")
    return list(zip(columns["time"].to_pylist(), keys, values, strict=True))


class Judge:
    """The chain of a query, asked about single rows: what would it report?"""

    def __init__(self, plan: Query, clock: str = "clock", entrance: int = 0) -> None:
        self._clock = clock
        self._stores: dict[str, dict[Any, Any]] = {}
        self._found: list[Problem] = []
        self._chain = Chain(plan, Context(self._store, self._found.append), rules=())
        self._feed = self._chain.entrances[entrance].feed

    def _store(self, name: str) -> Store:
        return self._stores.setdefault(name, {})

    def __call__(self, event: Event, now: int | None) -> list[Problem]:
        for name, store in self._stores.items():
            store.clear()
            if now is not None and name.rpartition("/")[2] == self._clock:
                store["now"] = now
        self._feed([event])
        found = list(self._found)
        self._found.clear()
        return found
