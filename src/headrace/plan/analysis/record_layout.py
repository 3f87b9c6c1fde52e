"""The Arrow layout in which the records of a topic move between stages, and its conversion to records of the chain.

Records of a raw topic have a key and a value. Of a topic with a schema only the columns that some source reads are
moved, as columns; they become chain values without a format in between. Records of a raw topic that were decoded by
column where they were read also move as columns: all of them, because a dead letter shows them all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.contracts import HEADERS_TYPE, Batch, Topic
from headrace.plan import types as ty
from headrace.plan.analysis.columnar import MIN_COLUMNAR_RECORDS, ColumnarBatch, columnar_decoder
from headrace.plan.analysis.pruning import columns_read
from headrace.plan.analysis.schema_match import match_columns
from headrace.plan.chain.records import WINDOW_BOUND_FIELDS, Headers, RawRecord, needed_bounds
from headrace.plan.nodes import Query, Source
from headrace.plan.relations import payload
from headrace.plan.rewrite import calls_nondeterministic
from headrace.plan.steps import Event
from headrace.schema import Field

ENVELOPE_COLUMNS = (
    ("partition", pa.int32()),
    ("offset", pa.int64()),
    ("sequence", pa.int64()),
    ("time", pa.int64()),
    ("headers", HEADERS_TYPE),
)
_NUMBERS = {ty.DATE: pa.int32(), ty.TIME: pa.int32(), ty.TIMESTAMP: pa.int64()}
"""Storage types of dates and times in the chain."""

WIDENING_CASTS: Mapping[pa.DataType, Sequence[pa.DataType]] = {
    ty.BIGINT: (pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16(), pa.uint32()),
    ty.INT: (pa.int8(), pa.int16(), pa.uint8(), pa.uint16()),
    ty.DOUBLE: (pa.float32(), pa.int8(), pa.int16(), pa.int32()),
}
"""By type: the narrower types all of whose values it can hold."""


@dataclass(frozen=True)
class RecordLayout:
    """The layout of one topic. `columns` are those of its schema, each with its type in the chain; None if it is raw.

    With `columnar`, they are not the topic's columns but those of the only source that reads it.
    """

    topic: str
    columns: tuple[tuple[str, pa.DataType], ...] | None = None
    columnar: bool = False
    fewest: int = MIN_COLUMNAR_RECORDS
    """Batches of fewer records are not decoded by column."""

    @property
    def names(self) -> tuple[str, ...] | None:
        """Names of the topic's own columns."""
        return None if self.columns is None or self.columnar else tuple(name for name, _ in self.columns)

    @cached_property
    def schema(self) -> pa.schema:
        own = [("key", pa.binary()), ("value", pa.binary())]
        if self.columns is not None:
            own = [("$deleted", pa.bool_()), *((_own(name), _NUMBERS.get(kind, kind)) for name, kind in self.columns)]
        return pa.schema([*ENVELOPE_COLUMNS, *own])

    def pack(self, batch: Batch) -> pa.RecordBatch:
        """Converts rows of the log to this layout."""
        rows = batch.rows
        names = ("key", "value") if self.columns is None else ("$deleted", *(name for name, _ in self.columns))
        return self._with_head(batch, [rows.column(name) for name in names])

    def pack_columnar(self, batch: Batch, decoded: ColumnarBatch) -> pa.RecordBatch:
        """Converts rows that were decoded by column to this layout."""
        return self._with_head(batch, [pc.invert(decoded.valued), *decoded.columns.values()])

    def _with_head(self, batch: Batch, own: list[pa.Array]) -> pa.RecordBatch:
        partition = pa.array([batch.partition], pa.int32()).take(pa.array(np.zeros(len(batch), np.int8)))
        head = [batch.rows.column(name) for name in ("$offset", "$sequence", "$timestamp", "$headers")]
        kinds = [kind for _, kind in self.columns or ()]
        columns = own if self.columns is None else [own[0], *map(_cast, own[1:], kinds)]
        return pa.RecordBatch.from_arrays([partition, *head, *columns], schema=self.schema)

    def records(self, rows: pa.Table) -> list[RawRecord]:
        """Converts rows of this layout to records of the chain."""
        partitions, offsets, times = (rows[name].to_pylist() for name in ("partition", "offset", "time"))
        keys, values = self._payloads(rows)
        return list(map(RawRecord, keys, values, times, header_tuples(rows["headers"]), partitions, offsets))

    def _payloads(self, rows: pa.Table) -> tuple[list[Any], list[Any]]:
        if self.columns is None:
            return rows["key"].to_pylist(), rows["value"].to_pylist()
        columns = [_values(rows[_own(name)], kind) for name, kind in self.columns]
        every = list(zip(*columns, [None] * rows.num_rows, strict=True))
        deleted = rows["$deleted"]
        if deleted.null_count == len(deleted):
            return every, every
        return every, [None if is_deleted else row for is_deleted, row in zip(deleted.to_pylist(), every, strict=True)]

    def events(self, rows: pa.Table, source: Source) -> list[Event] | None:
        """Converts rows to events of the only source that reads the topic; None if each record must be examined.

        That is not necessary if no record has headers, is deleted or has a time before 1970, and the source reads
        columns only. Records that were decoded by column can always be converted.
        """
        if self.columnar:
            return self._columnar_events(rows, source)
        if self.columns is None or source.system or source.timestamp or source.relation.window or not rows.num_rows:
            return None
        if any(rows[name].null_count < rows.num_rows for name in ("headers", "$deleted")):
            return None
        if pc.min(rows["time"]).as_py() < 0 or (len(source.relation.key) == 1 and self._key_nulls(rows, source)):
            return None
        keys, values = self._tuples(rows, source)
        return list(zip(rows["time"].to_pylist(), keys, values, strict=True))

    def _tuples(self, rows: pa.Table, source: Source) -> tuple[list[Any], list[Any]]:
        columns = {name.upper(): _values(rows[_own(name)], kind) for name, kind in self.columns or ()}
        nothing = [None] * rows.num_rows
        keys, values = (
            list(zip(*(columns.get(field.name.upper(), nothing) for field in fields), strict=True))
            for fields in (source.relation.key, source.relation.value)
        )
        return keys or nothing, values or [()] * rows.num_rows

    def _columnar_events(self, rows: pa.Table, source: Source) -> list[Event]:
        times, deleted = rows["time"], rows["$deleted"]
        keys, values = self._tuples(rows, source)
        if len(source.relation.key) == 1 and self._key_nulls(rows, source):
            keys = [None if key == (None,) else key for key in keys]
        if pc.any(deleted).as_py():
            values = [None if is_deleted else row for is_deleted, row in zip(deleted.to_pylist(), values, strict=True)]
        if source.timestamp is not None:
            stated, in_key = rows[_own(source.timestamp.column)], source.timestamp.column in _names(source.relation.key)
            times = stated if in_key else pc.if_else(deleted, times, stated)
        return list(zip(times.to_pylist(), keys, values, strict=True))

    def _key_nulls(self, rows: pa.Table, source: Source) -> int:
        return rows[self.column_of(source.relation.key[0].name)].null_count

    def column_of(self, name: str) -> str:
        """Returns the layout's column for a source's column of that name, in any case."""
        return next(_own(own) for own, _ in self.columns or () if own.upper() == name.upper())


def _own(name: str) -> str:
    """Prefixes a column, whose name may be one of `ENVELOPE_COLUMNS`."""
    return f".{name}"


def _names(fields: Sequence[Field]) -> list[str]:
    return [field.name for field in fields]


def header_tuples(column: pa.Array | pa.ChunkedArray) -> list[Headers]:
    """Converts the column of headers."""
    if column.null_count == len(column):
        return [()] * len(column)
    return [tuple((item["name"], item["value"]) for item in items or ()) for items in column.to_pylist()]


def _cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    cast = column if column.type == kind else pc.cast(column, kind, safe=False)
    return cast.cast(_NUMBERS[kind]) if kind in _NUMBERS else cast


def _values(column: pa.ChunkedArray, kind: pa.DataType) -> list[Any]:
    values = column.to_pylist()
    return [None if value is None else dict(value) for value in values] if ty.is_map(kind) else values


def raw_records(batch: Batch) -> list[RawRecord]:
    """Returns the records of a batch of a raw topic."""
    layout = RecordLayout(batch.topic)
    return layout.records(pa.Table.from_batches([layout.pack(batch)]))


# -- which columns --------------------------------------------------------------------------------------------------


def record_layouts(query: Query, topics: Sequence[Topic]) -> tuple[RecordLayout, ...]:
    """Returns the layouts of all topics that the query reads; rejects columns that a topic's schema does not have.

    A raw topic whose records can be decoded by column has a second layout, after all others.
    """
    own = (
        RecordLayout(topic.name) if topic.schema.is_raw else RecordLayout(topic.name, _columns(query, topic))
        for topic in topics
    )
    raw = [topic.name for topic in topics if topic.schema.is_raw]
    return (*own, *(layout for name in raw if (layout := columnar_layout(query, name)) is not None))


def columnar_layout(query: Query, topic: str) -> RecordLayout | None:
    """Returns the layout of a raw topic whose records are decoded by column where they are read; None if they cannot
    be.

    They become events, which do not identify their record: so only one source may read the topic, and no function may
    depend on the record.
    """
    readers = [source for source in query.sources if source.topic == topic]
    if len(readers) != 1 or calls_nondeterministic(query.sink) or columnar_decoder(readers[0]) is None:
        return None
    fields = readers[0].relation.columns
    if len({field.name.upper() for field in fields}) < len(fields) or any(_has_times_inside(f.type) for f in fields):
        return None
    return RecordLayout(topic, tuple((field.name, field.type) for field in fields), columnar=True)


def _columns(query: Query, topic: Topic) -> tuple[tuple[str, pa.DataType], ...]:
    kinds: dict[str, pa.DataType] = {}
    for source in query.sources:
        if source.topic == topic.name:
            kinds |= _declared(source, topic)
    read = {name.upper() for name in columns_read(query).get(topic.name, ())} | {
        field.name for field in WINDOW_BOUND_FIELDS
    }
    return tuple((name, kind) for name, kind in kinds.items() if name.upper() in read)


def _declared(source: Source, topic: Topic) -> dict[str, pa.DataType]:
    """The declared type by the topic's column."""
    bounds = needed_bounds(source.relation)
    declared = (*source.relation.key, *bounds, *payload(source.relation, source.system))
    columns = match_columns(declared, topic, source.name, can_read)
    return {columns[field.name].name: field.type for field in declared}


def can_read(stored: pa.DataType, declared: pa.DataType) -> bool:
    """Whether a column of a topic's schema can be read as the declared type."""
    if stored == declared or stored in WIDENING_CASTS.get(declared, ()):
        return not _has_times_inside(declared)
    return _OTHER_UNITS.get(declared, _never)(stored)


def _never(stored: pa.DataType) -> bool:
    del stored
    return False


_OTHER_UNITS = {ty.TIMESTAMP: pa.types.is_timestamp, ty.TIME: pa.types.is_time}
"""Times are converted to milliseconds from any stored unit."""


def _has_times_inside(kind: pa.DataType) -> bool:
    """Whether it has dates, times or maps inside lists and structs: Arrow converts those to Python types that the chain
    does not support.
    """
    inner = [kind.field(i).type for i in range(kind.num_fields)] if ty.is_nested(kind) else []
    return any(item in _NUMBERS or ty.is_map(item) or _has_times_inside(item) for item in inner)
