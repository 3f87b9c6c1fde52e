"""Partitioners: choose the partition of each row.

`hash` gives every key the partition that Kafka's own producers give it (murmur2), so data can move between the two
logs; rows without a key go round robin. A custom partitioner is any function that takes the rows and the number of
partitions and returns one partition number per row.
"""

from __future__ import annotations

import importlib
import itertools
from base64 import b64encode
from collections.abc import Callable
from functools import cache

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from headrace.component import Component, Option, component, register
from headrace.errors import BadTopicOption, UnknownComponent
from headrace.schema import Schema

Partitions = npt.NDArray[np.int64]
Partitioner = Callable[[pa.RecordBatch, Schema, int], Partitions]

_turn = itertools.count()


def partitioner(name: str) -> Partitioner:
    """By the text of a topic option: a component's name, `name:argument`, or a custom `module:function`."""
    return _partitioner(name)


@cache
def _partitioner(name: str) -> Partitioner:
    head, _, argument = name.partition(":")
    try:
        definition = component("partitioner", head)
    except UnknownComponent as error:
        if not argument:
            raise BadTopicOption(f'partitioner "{name}" does not exist', fix=error.fix) from error
        return _user_function(head, argument)
    return definition.build({definition.options[0].name: argument} if argument and definition.options else {})


def _user_function(module: str, name: str) -> Partitioner:
    try:
        function = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise BadTopicOption(
            f'partitioner "{module}:{name}" cannot be loaded: {error}',
            fix="use an importable module and a function(rows, partitions) in it",
        ) from error

    def partition(rows: pa.RecordBatch, schema: Schema, partitions: int) -> Partitions:
        numbers = np.asarray(function(rows, partitions), dtype=np.int64)
        if len(numbers) != rows.num_rows or (len(numbers) and not 0 <= numbers.min() <= numbers.max() < partitions):
            raise BadTopicOption(
                f'partitioner "{module}:{name}" returned a partition that does not exist, or too few partitions',
                fix=f"return one number from 0 to {partitions - 1} for each of the rows",
            )
        return numbers

    return partition


def by_hash(rows: pa.RecordBatch, schema: Schema, partitions: int) -> Partitions:
    """The partition of each row by the hash of its key."""
    if not schema.key:
        return round_robin(rows, schema, partitions)
    keys = key_bytes(rows, schema)
    numbers = (murmur2(keys) & 0x7FFFFFFF).astype(np.int64) % partitions
    if keys.null_count:
        without = keys.is_null().to_numpy(zero_copy_only=False)
        numbers[without] = _turns(int(without.sum()), partitions)
    return numbers


def round_robin(rows: pa.RecordBatch, schema: Schema, partitions: int) -> Partitions:
    """Each row to the next partition."""
    return _turns(rows.num_rows, partitions)


def by_priority(column: str) -> Partitioner:
    """Partition 0 is the most urgent: an integer column gives the partition, clamped to those that exist."""

    def partition(rows: pa.RecordBatch, schema: Schema, partitions: int) -> Partitions:
        if column not in rows.schema.names:
            raise BadTopicOption(
                f'partitioner "priority:{column}": column "{column}" does not exist', fix="name a column"
            )
        level = pc.fill_null(pc.cast(rows.column(column), pa.int64()), partitions - 1)
        return np.clip(level.to_numpy(zero_copy_only=False), 0, partitions - 1)

    return partition


def _turns(count: int, partitions: int) -> Partitions:
    start = next(_turn)
    return (np.arange(start, start + count, dtype=np.int64)) % partitions


def key_bytes(rows: pa.RecordBatch, schema: Schema) -> pa.Array:
    """Each row's key as bytes, in the form of Kafka's serializers; null where the whole key is null."""
    columns = [rows.column(name) for name in schema.key]
    if len(columns) > 1:
        return _json_keys(columns)
    (only,) = columns
    if pa.types.is_binary(only.type):
        return only
    if pa.types.is_string(only.type):
        return only.cast(pa.binary())
    if pa.types.is_int32(only.type) or pa.types.is_int64(only.type) or pa.types.is_float64(only.type):
        return _big_endian(only)
    return _json_keys(columns)


def _big_endian(column: pa.Array) -> pa.Array:
    width = column.type.bit_width // 8
    numbers = pc.fill_null(column, 0).to_numpy(zero_copy_only=False)
    data = numbers.astype(numbers.dtype.newbyteorder(">")).tobytes()
    fixed = pa.Array.from_buffers(pa.binary(width), len(column), [None, pa.py_buffer(data)])
    as_binary = fixed.cast(pa.binary())
    return pc.if_else(column.is_null(), None, as_binary) if column.null_count else as_binary


def _json_keys(columns: list[pa.Array]) -> pa.Array:
    rows = zip(*(column.to_pylist() for column in columns), strict=True)
    return pa.array(
        [None if all(part is None for part in row) else orjson.dumps(row, default=_text) for row in rows], pa.binary()
    )


def _text(value: object) -> str:
    return b64encode(value).decode() if isinstance(value, bytes) else str(value)


def murmur2(keys: pa.Array) -> npt.NDArray[np.uint32]:
    """Kafka's hash of each key, for all rows at once: the loop runs over key bytes, not over rows."""
    count = len(keys)
    offsets, data = _buffers(keys)
    starts, lengths = offsets[:-1], np.diff(offsets)
    m, r = np.uint32(0x5BD1E995), np.uint32(24)
    h = np.uint32(0x9747B28C) ^ lengths.astype(np.uint32)
    with np.errstate(over="ignore"):
        for word in range(int(lengths.max(initial=0)) // 4):
            rows = np.flatnonzero(lengths >= (word + 1) * 4)
            at = starts[rows] + word * 4
            k = data[at].astype(np.uint32)
            for byte in (1, 2, 3):
                k |= data[at + byte].astype(np.uint32) << np.uint32(8 * byte)
            k *= m
            k ^= k >> r
            k *= m
            h[rows] = (h[rows] * m) ^ k
        tail, tail_at = lengths % 4, starts + (lengths // 4) * 4
        for byte in (3, 2, 1):
            rows = np.flatnonzero(tail >= byte)
            h[rows] ^= data[tail_at[rows] + (byte - 1)].astype(np.uint32) << np.uint32(8 * (byte - 1))
        rows = np.flatnonzero(tail > 0)
        h[rows] *= m
        h ^= h >> np.uint32(13)
        h *= m
        h ^= h >> np.uint32(15)
    return h if count else np.zeros(0, np.uint32)


def murmur2_of(key: bytes) -> int:
    """Kafka's hash of one key; for a single row this is faster than `murmur2`."""
    m, mask, length = 0x5BD1E995, 0xFFFFFFFF, len(key)
    h = 0x9747B28C ^ length
    for at in range(0, length - 3, 4):
        k = int.from_bytes(key[at : at + 4], "little") * m & mask
        k = (k ^ (k >> 24)) * m & mask
        h = (h * m & mask) ^ k
    if tail := key[length & ~3 :]:
        h = (h ^ int.from_bytes(tail, "little")) * m & mask
    h = (h ^ (h >> 13)) * m & mask
    return h ^ (h >> 15)


def _buffers(keys: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    _, offsets, data = keys.buffers()
    at = np.frombuffer(offsets, np.int32, len(keys) + 1, keys.offset * 4).astype(np.int64)
    return at, np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)


register(
    Component(
        "partitioner", "hash", "By the key, as Kafka's producers do it; round robin without a key.", lambda: by_hash
    )
)
register(Component("partitioner", "round-robin", "Each row to the next partition.", lambda: round_robin))
register(
    Component(
        "partitioner",
        "priority",
        "By an integer column: 0 is the most urgent partition.",
        by_priority,
        (Option("column", str, "Name of the integer column."),),
    )
)
