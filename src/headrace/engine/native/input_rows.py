"""Decodes rows of a topic to columns of a frame for Spark, without those that cannot be used.

A topic with a schema is read column by column; a raw one by the formats (see `raw_decoder`). The chain itself reports
what is wrong with a row (`bad-record`, `bad-time`, no group, late): rows that *may* be reported are selected with
vectorised operations, and only those few are run through it.
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
from headrace.engine.native import raw_decoder
from headrace.engine.native.arrow_filter import filter_mask
from headrace.engine.native.header_codec import pack_headers
from headrace.engine.native.schema_match import match_names, to_column_type
from headrace.engine.native.task_spec import NativeTaskSpec, WindowSpec
from headrace.engine.sparksql.frames import row_tuples, type_of
from headrace.log.stored_rows import integer_array, integer_values
from headrace.plan.chain.interpreter import Chain
from headrace.plan.nodes import Query, Source
from headrace.plan.steps import Context, Event, Problem, Store

Mask = npt.NDArray[np.bool_]
Times = npt.NDArray[np.int64]
_NO_TIME = -1
_LAST = 9_000_000_000_000_000
"""The latest time, in ms, whose window Spark can close, as its times are microseconds: some 285,000 years."""


@dataclass
class InputRows:
    """Columns by name, of rows in order of arrival, and the problems of other rows."""

    columns: dict[str, pa.Array]
    problems: list[Problem] = field(default_factory=list)

    @property
    def times(self) -> Times:
        return integer_values(self.columns["time"])

    def where(self, mask: Mask) -> InputRows:
        if mask.all():
            return self
        selected = pa.array(mask)
        return InputRows({name: column.filter(selected) for name, column in self.columns.items()}, self.problems)


def decode_batch(batch: Batch, topic: Topic, spec: NativeTaskSpec) -> InputRows:
    """All rows of a batch that have a time and pass the condition; those that cannot be read are reported."""
    if not topic.schema.is_raw:
        return _filtered(_from_columns(batch, topic, spec), spec)
    rows = InputRows(*raw_decoder.decode_raw(batch, spec))
    return _filtered(rows if spec.hops is None else _without_far_times(rows, batch, spec.source), spec)


def _filtered(rows: InputRows, spec: NativeTaskSpec) -> InputRows:
    if spec.condition is None:
        return rows
    fits = filter_mask(spec.condition, spec.source.relation, rows.columns)
    return rows.where(_to_mask(pc.and_(rows.columns["valued"], fits)))


# -- topics with a schema -------------------------------------------------------------------------------------------


def _from_columns(batch: Batch, topic: Topic, spec: NativeTaskSpec) -> InputRows:
    source, rows = spec.source, batch.rows
    names = _column_names(spec, topic)
    columns = {name: to_column_type(rows.column(names[name]), type_of(name, source.relation)) for name in spec.columns}
    columns["time"] = _time(rows, names, source)
    columns["valued"] = _not_deleted(rows.column("$deleted"))
    single = len(source.relation.key) == 1 and "k0" in columns
    columns["keyed"] = columns["k0"].is_valid() if single else _all_true(rows.num_rows)
    columns["sequence"] = rows.column("$sequence")
    if spec.carries_headers:
        columns["headers"] = pack_headers(rows.column("$headers"))
    return _without_bad_times(InputRows(columns), batch, source, _LAST if spec.hops else None)


@lru_cache(64)
def _column_names(spec: NativeTaskSpec, topic: Topic) -> dict[str, str]:
    """The topic's column by the frame's column."""
    relation = spec.source.relation
    matches = match_names(relation.columns, topic, spec.source.name)
    fields = {"k": relation.key, "v": relation.value}
    return {f"{prefix}{i}": matches[f.name] for prefix, those in fields.items() for i, f in enumerate(those)}


def _not_deleted(deleted: pa.Array) -> pa.Array:
    if deleted.null_count < len(deleted):
        return pc.invert(pc.fill_null(deleted, False))
    return _all_true(len(deleted))


def _all_true(count: int) -> pa.Array:
    return pa.Array.from_buffers(pa.bool_(), count, [None, pa.py_buffer(b"\xff" * (count // 8 + 1))])


def _time(rows: pa.RecordBatch, names: dict[str, str], source: Source) -> pa.Array:
    """A row's own time, or that of the timestamp column; a row without a payload keeps its own."""
    own = rows.column("$timestamp")
    if source.timestamp is None:
        return own
    place = [f.name for f in source.relation.columns].index(source.timestamp.column)
    width = len(source.relation.key)
    name = f"k{place}" if place < width else f"v{place - width}"
    stated = pc.fill_null(rows.column(names[name]).cast(pa.int64()), _NO_TIME)
    return pc.if_else(pc.fill_null(rows.column("$deleted"), False), own, stated) if name[0] == "v" else stated


def _without_bad_times(rows: InputRows, batch: Batch, source: Source, last: int | None) -> InputRows:
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


def _without_far_times(rows: InputRows, batch: Batch, source: Source) -> InputRows:
    """Checks the times of a raw topic's rows, on Kafka, where a row's sequence is its offset."""
    good = rows.times <= _LAST
    for place in np.flatnonzero(~good).tolist():
        offset = rows.columns["sequence"][place].as_py()
        where = f"topic {source.topic}, partition {batch.partition}, offset {offset}"
        rows.problems.append(Problem("bad-time", _bad_time(rows, place, source), where, int(rows.times[place])))
    return rows.where(good)


def _bad_time(rows: InputRows, place: int, source: Source) -> str:
    time = int(rows.times[place])
    if source.timestamp is not None and time == _NO_TIME:
        return "the column that holds its time is null"
    return f"its time, {time}, is {'before 1970' if time < 0 else 'too far ahead'}"


# -- which rows count, and which are reported ------------------------------------------------------------------------


def counting_mask(rows: InputRows, spec: NativeTaskSpec) -> Mask | None:
    """Rows that reach the aggregate's groups: only they advance stream time. None means all."""
    valued, groups = rows.columns["valued"], [rows.columns[group] for group in spec.groups]
    if not valued.false_count and not any(group.null_count for group in groups):
        return None
    return np.logical_and.reduce([_to_mask(valued), *(_to_mask(group.is_valid()) for group in groups)])


def counting_rows(rows: InputRows, spec: NativeTaskSpec) -> InputRows:
    mask = counting_mask(rows, spec)
    return rows if mask is None else rows.where(mask)


def stream_time_after(rows: InputRows, spec: NativeTaskSpec, now: int) -> int:
    """The stream time after all rows have arrived; `now` is that before the first."""
    return int(counting_times(rows, spec).max(initial=now))


def counting_times(rows: InputRows, spec: NativeTaskSpec) -> Times:
    mask = counting_mask(rows, spec)
    return rows.times if mask is None else rows.times[mask]


def validate(rows: InputRows, spec: NativeTaskSpec, now: int) -> tuple[InputRows, int]:
    """The rows for Spark, with all problems that the chain reports of them; and the stream time after them."""
    if not (spec.aggregates or spec.distinct) or not len(rows.times):
        return rows, now
    mask = counting_mask(rows, spec)
    if spec.hops is None:
        return _with_reports(rows, spec, None if mask is None else ~mask, None), now
    stream_time = stream_time_after(rows, spec, now)
    if not _may_be_late(int(rows.times.min()), stream_time, spec.hops):
        rows.columns["now"] = integer_array(np.full(len(rows.times), now))
        return _with_reports(rows, spec, None if mask is None else ~mask, None), stream_time
    stream_times = np.maximum(rows.times if mask is None else np.where(mask, rows.times, now), now)
    if not spec.by_time:
        stream_times = np.maximum.accumulate(stream_times)
    rows.columns["now"] = integer_array(stream_times)
    late, open_rows = _late(rows.times, stream_times, spec.hops)
    return _with_reports(rows, spec, late if mask is None else late | ~mask, stream_times).where(open_rows), stream_time


def _with_reports(rows: InputRows, spec: NativeTaskSpec, suspect: Mask | None, stream_times: Times | None) -> InputRows:
    """The rows, with the chain's reports on suspect ones."""
    places = [] if suspect is None else np.flatnonzero(suspect)
    if len(places):
        rows.problems += _reported(rows, spec, np.asarray(places), stream_times)
    return rows


def _may_be_late(first: int, now: int, hops: WindowSpec) -> bool:
    """Whether any window of a row of that time is closed: then rows must be checked one by one."""
    return max(first - hops.size + hops.advance, 0) // hops.advance * hops.advance + hops.size <= now - hops.grace


def _late(times: Times, stream_times: Times, hops: WindowSpec) -> tuple[Mask, Mask]:
    """Rows that have a closed window; and rows that have an open window."""
    closed = stream_times - hops.grace
    first = np.maximum(times - hops.size + hops.advance, 0) // hops.advance * hops.advance
    last = times // hops.advance * hops.advance
    return first + hops.size <= closed, last + hops.size > closed


def _to_mask(array: pa.Array) -> Mask:
    return array.to_numpy(zero_copy_only=False)


def _reported(
    rows: InputRows, spec: NativeTaskSpec, places: npt.NDArray[np.intp], stream_times: Times | None
) -> list[Problem]:
    """The chain's reports on the rows at these positions, given the stream times of their arrival."""
    validator = RowValidator(spec.plan)
    columns = {name: column.take(pa.array(places)) for name, column in rows.columns.items()}
    times = [None] * len(places) if stream_times is None else stream_times[places].tolist()
    return [p for event, now in zip(_events(columns, spec.source), times, strict=True) for p in validator(event, now)]


def _events(columns: dict[str, pa.Array], source: Source) -> Sequence[Event]:
    relation = source.relation
    keys, values = row_tuples(columns, "k", relation, "keyed"), row_tuples(columns, "v", relation, "valued")
    return list(zip(columns["time"].to_pylist(), keys, values, strict=True))


_CLOCK = "clock"
"""The store in which the chain keeps the stream time."""


class RowValidator:
    """Runs single rows through the chain of a query: what would it report?"""

    def __init__(self, plan: Query) -> None:
        self._stores: dict[str, dict[Any, Any]] = {}
        self._problems: list[Problem] = []
        self._chain = Chain(plan, Context(self._store, self._problems.append), rules=())
        self._feed = self._chain.source_paths[0].feed

    def _store(self, name: str) -> Store:
        return self._stores.setdefault(name, {})

    def __call__(self, event: Event, now: int | None) -> list[Problem]:
        for name, store in self._stores.items():
            store.clear()
            if now is not None and name.rpartition("/")[2] == _CLOCK:
                store["now"] = now
        self._feed([event])
        problems = list(self._problems)
        self._problems.clear()
        return problems
