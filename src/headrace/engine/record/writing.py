"""What a page's batch gave out, as rows of the sink's topic.

A raw topic gets records, encoded in the sink's formats. A topic with a schema gets columns: nothing is encoded, so what
a query writes there costs it, and who reads it, next to nothing. What cannot be written is a dead letter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from headrace.contracts import HEADERS_TYPE, Topic
from headrace.engine.payloads import WORTH, entries_of
from headrace.engine.record.packing import header_items, packed_columns, packed_rows, unpacked_rows
from headrace.engine.record.results import Results
from headrace.engine.record.target import Target
from headrace.plan.chain.contract import Problem
from headrace.plan.chain.records import FAULTS, BadTime, Encoder, Raw, extractor, reason_of
from headrace.plan.nodes import Sink

MOST = 100_000
"""Rows that are packed together."""

Report = Callable[[Problem], None]
Written = tuple[int, bytes]
"""How many rows, and the rows, packed."""


class Writer:
    """Writes results; `target` says into which columns, None into the bytes of a raw topic."""

    def __init__(self, sink: Sink, target: Target | None) -> None:
        self._write = _Records(sink) if target is None else _Columns(sink, target)

    def write(self, results: Results, report: Report) -> list[Written]:
        """Rows for the topic; what could not be written is reported."""
        return [written for piece in _pieces(results) for written in self._write(piece, report)]


def _pieces(results: Results) -> Iterator[Results]:
    """A column of bytes holds 2 GB at most, and so does a row of Spark's."""
    for start in range(0, len(results), MOST):
        yield results if len(results) <= MOST else results.at(range(start, min(start + MOST, len(results))))


def unpacked(payload: bytes, topic: Topic) -> pa.RecordBatch:
    """Rows that were packed for the topic."""
    if topic.schema.is_raw:
        return unpacked_rows(payload)
    return pa.ipc.open_stream(pa.py_buffer(payload)).read_next_batch()


class _Records:
    def __init__(self, sink: Sink) -> None:
        self._encoder = Encoder(sink)
        self._entries = entries_of(sink)

    def __call__(self, results: Results, report: Report) -> Iterator[Written]:
        """All at once where that gives the same bytes, else one by one."""
        plain = self._entries if results.headers is None and len(results) >= WORTH else None
        columns = plain and plain.rows(results.entries)
        if columns is None:
            yield from self._one_by_one(results, report)
        else:
            yield len(results), packed_columns(*columns)

    def _one_by_one(self, results: Results, report: Report) -> Iterator[Written]:
        encode, headers = self._encoder.encode, results.headers
        pairs = zip(results.entries, headers, strict=True) if headers else ((entry, ()) for entry in results.entries)
        made = [encode(entry, carried) for entry, carried in pairs]
        for record in made:
            if isinstance(record, Problem):
                report(record)
        rows = [record for record in made if isinstance(record, Raw)]
        if rows:
            yield len(rows), packed_rows(rows)


class _Columns:
    def __init__(self, sink: Sink, target: Target) -> None:
        self._sink = sink
        self._target = target
        self._time = extractor(sink.timestamp, sink.relation)
        self._no_key = (None,) * (len(sink.relation.key) + (sink.relation.window is not None))
        self._no_row = (None,) * len(sink.relation.value)

    def __call__(self, results: Results, report: Report) -> Iterator[Written]:
        """All at once; if something cannot be written, halves of it, until what is left out is that alone."""
        try:
            yield len(results), _packed(self._rows(results))
        except FAULTS as error:
            if len(results) == 1:
                report(self._problem(results.entries[0], error))
                return
            middle = len(results) // 2
            yield from self(results.at(range(middle)), report)
            yield from self(results.at(range(middle, len(results))), report)

    def _rows(self, results: Results) -> dict[str, pa.Array]:
        times = self._times(results.entries)
        keys, rows = ([entry[place] for entry in results.entries] for place in (1, 2))
        columns = self._target.columns(_filled(keys, self._no_key), _filled(rows, self._no_row))
        columns["$timestamp"] = pa.array(times, pa.int64())
        if None in rows:
            columns["$deleted"] = pa.array([True if row is None else None for row in rows], pa.bool_())
        if results.headers is not None:
            columns["$headers"] = pa.array([header_items(headers) for headers in results.headers], HEADERS_TYPE)
        return columns

    def _times(self, entries: Sequence[Any]) -> list[int]:
        read = self._time
        times = [entry[0] if read is None else read(*entry[:3]) for entry in entries]
        if min(times) < 0:
            raise BadTime(f"its time, {min(times)}, is before 1970")
        return times

    def _problem(self, entry: Sequence[Any], error: Exception) -> Problem:
        code = "bad-time" if isinstance(error, BadTime) else "not-written"
        return Problem(code, reason_of(error), f"topic {self._sink.topic}", entry[0], entry[1], entry[2])


def _filled(values: list[Any], nothing: tuple[None, ...]) -> list[Any]:
    return [nothing if value is None else value for value in values] if None in values else values


def _packed(columns: dict[str, pa.Array]) -> bytes:
    """With its schema: which columns there are is not always the same."""
    rows = pa.RecordBatch.from_arrays(list(columns.values()), list(columns))
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, rows.schema) as stream:
        stream.write_batch(rows)
    return out.getvalue().to_pybytes()
