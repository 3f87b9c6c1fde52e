"""Decodes raw records to events and encodes a query's output to raw records, by the formats of the plan.

A record that cannot be decoded gives a `Problem` instead of an event (`bad-record`), as does one that cannot be encoded
(`not-written`) or has no valid time (`bad-time`). A windowed key is encoded as in Kafka Streams: the key's bytes, then
the window's start; for a session its end, then its start.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from headrace.clock import millis
from headrace.errors import HeadraceError
from headrace.formats import contract as formats
from headrace.formats.contract import Serde
from headrace.formats.lookup import find_format
from headrace.plan.functions.java.datetime_format import parser
from headrace.plan.iso_datetime import parse_timestamp
from headrace.plan.nodes import Sink, Source
from headrace.plan.relations import Format, Kind, Relation, System, SystemColumn, Timestamp, Window, WindowKind, payload
from headrace.plan.steps import Event, Key, Problem, Row
from headrace.plan.types import BIGINT, BOOLEAN, BYTES, INT, STRING
from headrace.schema import Field

Headers = tuple[tuple[str, bytes | None], ...]
CODEC_ERRORS = (HeadraceError, ValueError, TypeError, ArithmeticError)
"""Exceptions that a format may raise on a payload."""


class BadTime(ValueError):
    """A record's time cannot be determined."""


class RawRecord(NamedTuple):
    """A record as stored in a topic."""

    key: bytes | None
    value: bytes | None
    time: int
    headers: Headers = ()
    partition: int = 0
    offset: int = 0


class Decoder:
    """Decodes the records of a source.

    A topic with a schema holds values, not bytes: then `columns` are the names of its columns, and both key and value
    of a record are the tuple of all of them, followed by a null. Names match those of the source in any case.
    """

    def __init__(self, source: Source, columns: Sequence[str] | None = None) -> None:
        self._topic = source.topic
        fields = payload(source.relation, source.system)
        if columns is None:
            self._key = key_serde(source.relation, source.key_format)
            self._value = serde(source.value_format, fields, is_key=False)
        else:
            self._key = column_key_serde(source.relation, columns)
            self._value = ColumnSerde(columns, fields)
        self._system = [system_reader(column) for column in source.system]
        self._time = timestamp_extractor(source.timestamp, source.relation)

    def decode(self, record: RawRecord) -> Event | Problem:
        """Returns the record's event: `(time, key, row)`."""
        try:
            key = self._key.decode(record.key)
            row = self._value.decode(record.value)
            if row is not None and self._system:
                row = (*row, *(read(record) for read in self._system))
            time = record.time if self._time is None else self._time(record.time, key, row)
            if time < 0:
                raise BadTime(f"its time, {time}, is before 1970")
        except BadTime as error:
            return self._problem("bad-time", error, record)
        except CODEC_ERRORS as error:
            return self._problem("bad-record", error, record)
        return time, key, row

    def _problem(self, code: str, error: Exception, record: RawRecord) -> Problem:
        where = f"topic {self._topic}, partition {record.partition}, offset {record.offset}"
        return Problem(code, error_reason(error), where, record.time, record.key, record.value)


class ColumnSerde:
    """Picks columns of a record, in place of a serde: nothing is decoded. Window bounds are columns too.

    The last value of a record is null, and stands for all columns that are not read and so were not loaded.
    """

    def __init__(self, columns: Sequence[str], fields: Sequence[Field]) -> None:
        places = {name.upper(): place for place, name in enumerate(columns)}
        self._places = [places.get(field.name.upper(), -1) for field in fields]

    def decode(self, values: Any) -> Row | None:
        return None if values is None else tuple([values[place] for place in self._places])

    def encode(self, row: Any) -> bytes | None:
        raise TypeError("columns cannot be written as bytes")


class Encoder:
    """Encodes what reaches a sink."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._key = key_serde(sink.relation, sink.key_format)
        self._key_bytes = _cached(self._key.encode, sink.relation)
        self._value = serde(sink.value_format, sink.relation.value, is_key=False)
        self._time = timestamp_extractor(sink.timestamp, sink.relation)

    def encode(self, entry: Sequence[Any], headers: Headers = ()) -> RawRecord | Problem:
        """Returns the record of an event or a change; a Problem if it cannot be encoded or has no time."""
        time, key, row = entry[0], entry[1], entry[2]
        try:
            at = time if self._time is None else self._time(time, key, row)
            if at < 0:
                raise BadTime(f"its time, {at}, is before 1970")
            return RawRecord(self._key_bytes(key), self._value.encode(row), at, headers)
        except CODEC_ERRORS as error:
            code = "bad-time" if isinstance(error, BadTime) else "not-written"
            return Problem(code, error_reason(error), f"topic {self._sink.topic}", time, key, row)


_SAME_BYTES = (BOOLEAN, INT, BIGINT, STRING, BYTES)
"""Types whose equal values have equal bytes; 0.0 and -0.0 do not."""


def _cached(encode: Callable[[Key | None], bytes | None], relation: Relation) -> Callable[[Key | None], Any]:
    """Caches the bytes of keys: changes of a table repeat the same keys."""
    if relation.kind is Kind.STREAM or any(field.type not in _SAME_BYTES for field in relation.key):
        return encode
    return lru_cache(1 << 14)(encode)


def payload_format(form: Format) -> formats.Format:
    """Returns the format that a plan names."""
    return find_format(form.name, {name: value for name, value in form.options if name != "wrapped"})


def serde(form: Format, columns: Sequence[Field], *, is_key: bool) -> Serde:
    """Returns the serde of a format for these columns; `wrapped` says how a single value column is encoded."""
    return payload_format(form).serde(columns, is_key=is_key, wrapped=form.option("wrapped", True))


# -- keys -----------------------------------------------------------------------------------------------------------


class KeySerde:
    """The key's columns. No bytes mean no key, and so does a single column that is null."""

    def __init__(self, inner: Serde | ColumnSerde | None) -> None:
        self._inner = inner

    def decode(self, payload: Any) -> Key | None:
        if payload is None or self._inner is None:
            return None
        key = self._inner.decode(payload)
        return None if key == (None,) else key

    def encode(self, key: Key | None) -> bytes | None:
        return None if key is None or self._inner is None else self._inner.encode(key)


_TIME = struct.Struct(">q")
_SESSION = struct.Struct(">qq")


class WindowedKeySerde:
    """The key's columns, followed by the window's bounds."""

    def __init__(self, inner: KeySerde, window: Window) -> None:
        self._inner = inner
        self._is_session = window.kind is WindowKind.SESSION
        self._bounds = _SESSION if self._is_session else _TIME
        self._size = 0 if window.size is None else millis(window.size)

    def decode(self, payload: bytes | None) -> Key | None:
        if payload is None:
            return None
        if len(payload) < self._bounds.size:
            raise ValueError("its key is too short to hold a window")
        bounds = self._bounds.unpack(payload[-self._bounds.size :])
        key = self._inner.decode(payload[: -self._bounds.size])
        window = (bounds[1], bounds[0]) if self._is_session else (bounds[0], bounds[0] + self._size)
        return None if key is None else (*key, window)

    def encode(self, key: Key | None) -> bytes | None:
        if key is None:
            return None
        start, end = key[-1]
        bounds = self._bounds.pack(end, start) if self._is_session else self._bounds.pack(start)
        return (self._inner.encode(key[:-1]) or b"") + bounds


WINDOW_BOUND_FIELDS = (Field("WINDOWSTART", BIGINT), Field("WINDOWEND", BIGINT))
"""The columns of a window's bounds, in a topic with a schema."""


def needed_bounds(relation: Relation) -> tuple[Field, ...]:
    """Returns the bounds that identify a window: a session's end does not follow from its start."""
    if relation.window is None:
        return ()
    return WINDOW_BOUND_FIELDS if relation.window.kind is WindowKind.SESSION else WINDOW_BOUND_FIELDS[:1]


class WindowedColumnSerde:
    """The key's columns, and its window from the columns of the bounds."""

    def __init__(self, columns: Sequence[str], relation: Relation) -> None:
        size = relation.window.size if relation.window else None
        self._inner = KeySerde(ColumnSerde(columns, relation.key))
        self._bounds = ColumnSerde(columns, WINDOW_BOUND_FIELDS)
        self._size = None if size is None else millis(size)

    def decode(self, payload: Any) -> Key | None:
        key, bounds = self._inner.decode(payload), self._bounds.decode(payload)
        if key is None or bounds is None:
            return None
        end = bounds[1] if self._size is None or bounds[0] is None else bounds[0] + self._size
        if bounds[0] is None or end is None:
            raise ValueError("its window has no bounds")
        return (*key, (bounds[0], end))


def column_key_serde(relation: Relation, columns: Sequence[str]) -> KeySerde | WindowedColumnSerde:
    """Returns the serde that reads keys of the relation from columns."""
    if relation.window is not None:
        return WindowedColumnSerde(columns, relation)
    return KeySerde(ColumnSerde(columns, relation.key) if relation.key else None)


def key_serde(relation: Relation, form: Format) -> KeySerde | WindowedKeySerde:
    """Returns the serde for keys of the relation."""
    inner = KeySerde(serde(form, relation.key, is_key=True) if relation.key else None)
    return WindowedKeySerde(inner, relation.window) if relation.window else inner


# -- times and system columns ---------------------------------------------------------------------------------------

TimestampExtractor = Callable[[int, Key | None, Row | None], int]


def timestamp_extractor(timestamp: Timestamp | None, relation: Relation) -> TimestampExtractor | None:
    """Returns the extractor of a timestamp column; a record without a payload keeps its own time."""
    if timestamp is None:
        return None
    read = _time_reader(timestamp, relation)
    names = [field.name for field in relation.key]
    if timestamp.column in names:
        at = names.index(timestamp.column)
        return lambda time, key, row: read(key[at] if key else None)
    at = [field.name for field in relation.value].index(timestamp.column)
    return lambda time, key, row: time if row is None else read(row[at])


def _time_reader(timestamp: Timestamp, relation: Relation) -> Callable[[Any], int]:
    column = relation.column(timestamp.column)
    if column is None or column.type != STRING:
        return _not_null
    parse: Callable[[str], int] = parse_timestamp if timestamp.format is None else _in_utc(timestamp.format)

    def read(text: str | None) -> int:
        try:
            return parse(_not_null(text))
        except ValueError as error:
            raise BadTime(str(error)) from error

    return read


def _in_utc(pattern: str) -> Callable[[str], int]:
    parse = parser(pattern)
    return lambda text: parse(text, "UTC")


def _not_null(value: Any) -> Any:
    if value is None:
        raise BadTime("the column that holds its time is null")
    return value


def system_reader(column: SystemColumn) -> Callable[[RawRecord], Any]:
    """Returns the function that reads a column from a record's envelope."""
    return {
        System.PARTITION: lambda record: record.partition,
        System.OFFSET: lambda record: record.offset,
        System.HEADERS: lambda record: [{"KEY": name, "VALUE": value} for name, value in record.headers],
        System.HEADER: lambda record: next((v for n, v in reversed(record.headers) if n == column.header), None),
    }[column.kind]


def error_reason(error: Exception) -> str:
    return getattr(error, "what", None) or str(error) or type(error).__name__
