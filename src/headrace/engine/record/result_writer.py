"""Writes the results of a key group's batch as rows of the sink's topic.

A raw topic gets records, encoded in the sink's formats. A topic with a schema gets columns: nothing is encoded, so
writing and reading it costs almost nothing. A result that cannot be written becomes a dead letter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from headrace.contracts import HEADERS_TYPE, Topic
from headrace.engine.io.payloads import MIN_COLUMNAR_ROWS, entry_encoder
from headrace.engine.io.row_payloads import columns_payload, header_items, payload_rows, rows_payload
from headrace.engine.record.results import Results
from headrace.engine.record.sink_columns import SinkColumns
from headrace.plan.chain.records import CODEC_ERRORS, BadTime, Encoder, RawRecord, error_reason, timestamp_extractor
from headrace.plan.nodes import Sink
from headrace.plan.steps import Problem

MAX_ROWS_PER_PAYLOAD = 100_000
"""Rows per payload."""

OnProblem = Callable[[Problem], None]
WrittenPayload = tuple[int, bytes]
"""The number of rows, and the rows as a payload."""


class ResultWriter:
    """Writes results; `target` are the topic's columns, or None for the bytes of a raw topic."""

    def __init__(self, sink: Sink, target: SinkColumns | None) -> None:
        self._write = _Records(sink) if target is None else _Columns(sink, target)

    def write(self, results: Results, report: OnProblem) -> list[WrittenPayload]:
        """Returns rows for the topic; results that could not be written are reported."""
        return [payload for piece in _pieces(results) for payload in self._write(piece, report)]


def _pieces(results: Results) -> Iterator[Results]:
    """A column of bytes holds 2 GB at most, and so does a Spark row."""
    for start in range(0, len(results), MAX_ROWS_PER_PAYLOAD):
        yield (
            results
            if len(results) <= MAX_ROWS_PER_PAYLOAD
            else results.at(range(start, min(start + MAX_ROWS_PER_PAYLOAD, len(results))))
        )


def read_written(payload: bytes, topic: Topic) -> pa.RecordBatch:
    """Unpacks rows that were packed for the topic."""
    if topic.schema.is_raw:
        return payload_rows(payload)
    return pa.ipc.open_stream(pa.py_buffer(payload)).read_next_batch()


class _Records:
    def __init__(self, sink: Sink) -> None:
        self._encoder = Encoder(sink)
        self._entries = entry_encoder(sink)

    def __call__(self, results: Results, report: OnProblem) -> Iterator[WrittenPayload]:
        """Encodes all at once where that gives the same bytes, else one by one."""
        plain = self._entries if results.headers is None and len(results) >= MIN_COLUMNAR_ROWS else None
        columns = plain and plain.rows(results.entries)
        if columns is None:
            yield from self._one_by_one(results, report)
        else:
            yield len(results), columns_payload(*columns)

    def _one_by_one(self, results: Results, report: OnProblem) -> Iterator[WrittenPayload]:
        encode, headers = self._encoder.encode, results.headers
        pairs = zip(results.entries, headers, strict=True) if headers else ((entry, ()) for entry in results.entries)
        encoded = [encode(entry, carried) for entry, carried in pairs]
        for record in encoded:
            if isinstance(record, Problem):
                report(record)
        rows = [record for record in encoded if isinstance(record, RawRecord)]
        if rows:
            yield len(rows), rows_payload(rows)


class _Columns:
    def __init__(self, sink: Sink, target: SinkColumns) -> None:
        self._sink = sink
        self._target = target
        self._time = timestamp_extractor(sink.timestamp, sink.relation)
        self._no_key = (None,) * (len(sink.relation.key) + (sink.relation.window is not None))
        self._no_row = (None,) * len(sink.relation.value)

    def __call__(self, results: Results, report: OnProblem) -> Iterator[WrittenPayload]:
        """Writes all at once; on failure splits the results in halves, until only the bad ones are left out."""
        try:
            yield len(results), _packed(self._rows(results))
        except CODEC_ERRORS as error:
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
        return Problem(code, error_reason(error), f"topic {self._sink.topic}", entry[0], entry[1], entry[2])


def _filled(values: list[Any], nothing: tuple[None, ...]) -> list[Any]:
    return [nothing if value is None else value for value in values] if None in values else values


def _packed(columns: dict[str, pa.Array]) -> bytes:
    """With its schema: the columns vary."""
    rows = pa.RecordBatch.from_arrays(list(columns.values()), list(columns))
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, rows.schema) as stream:
        stream.write_batch(rows)
    return out.getvalue().to_pybytes()
