"""Partitioners: Kafka's hash, round robin, priorities, and custom functions."""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import BadTopicOption
from headrace.log.partitioners import by_priority, key_bytes, murmur2, murmur2_of, partitioner, round_robin
from headrace.schema import RAW, Schema


def one_by_one(data: bytes) -> int:
    """Kafka's murmur2, as its Java source has it."""
    m, h = 0x5BD1E995, 0x9747B28C ^ len(data)
    whole = len(data) // 4 * 4
    for (k,) in struct.iter_unpack("<I", data[:whole]):
        k = k * m & 0xFFFFFFFF
        k = (k ^ k >> 24) * m & 0xFFFFFFFF
        h = h * m & 0xFFFFFFFF ^ k
    rest = data[whole:]
    for i, byte in reversed(list(enumerate(rest))):
        h ^= byte << 8 * i
    if rest:
        h = h * m & 0xFFFFFFFF
    h = (h ^ h >> 13) * m & 0xFFFFFFFF
    return h ^ h >> 15


@pytest.mark.parametrize(
    ("key", "expected"),
    [(b"21", -973932308), (b"foobar", -790332482), (b"a-little-bit-long-string", -985981536), (b"abc", 479470107)],
)
def test_hashes_agree_with_kafka(key: bytes, expected: int) -> None:
    assert murmur2(pa.array([key], pa.binary())).astype(np.int32)[0] == expected
    assert one_by_one(key) == expected & 0xFFFFFFFF


@given(st.lists(st.none() | st.binary(max_size=20)), st.integers(0, 3))
def test_bulk_partitioning_agrees_with_single_keys(keys: list[bytes | None], skip: int) -> None:
    column = pa.array(keys, pa.binary()).slice(min(skip, len(keys)))
    found = murmur2(column)
    assert len(found) == len(column)
    for key, hashed in zip(keys[skip:], found, strict=True):
        assert key is None or hashed == one_by_one(key) == murmur2_of(key)


def rows(**columns: list) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


@pytest.mark.parametrize(
    ("schema", "columns", "expected"),
    [
        ("k string key", {"k": ["a", None]}, [b"a", None]),
        ("k int key", {"k": pa.array([1, -1, None], pa.int32())}, [b"\0\0\0\1", b"\xff" * 4, None]),
        ("k bigint key", {"k": [258]}, [b"\0" * 6 + b"\1\2"]),
        ("k double key", {"k": [1.5]}, [struct.pack(">d", 1.5)]),
        ("k boolean key", {"k": [True, None]}, [b"[true]", None]),
        ("a int key, b string key", {"a": [1, None], "b": ["x", None]}, [b'[1,"x"]', None]),
        ("a int key, b bytes key", {"a": [None], "b": [b"\xff"]}, [b'[null,"/w=="]']),
    ],
)
def test_keys_are_hashed_as_bytes(schema: str, columns: dict, expected: list) -> None:
    assert key_bytes(rows(**columns), Schema.parse(schema)).to_pylist() == expected


def test_rows_without_key_are_distributed_round_robin() -> None:
    given_ = rows(key=pa.array([None] * 6, pa.binary()), value=[b"x"] * 6)
    chosen = partitioner("hash")(given_, RAW, 3)
    assert sorted(chosen) == [0, 0, 1, 1, 2, 2]
    no_key = Schema.parse("value bytes")
    assert sorted(partitioner("hash")(given_, no_key, 3)) == [0, 0, 1, 1, 2, 2]
    singles = [int(round_robin(given_.slice(0, 1), RAW, 3)[0]) for _ in range(6)]
    assert sorted(singles) == [0, 0, 1, 1, 2, 2]


def test_priorities_are_bounded() -> None:
    chosen = by_priority("p")(rows(p=[0, 1, 9, -3, None]), RAW, 3)
    assert chosen.tolist() == [0, 1, 2, 0, 2]
    with pytest.raises(BadTopicOption):
        partitioner("priority:nothing")(rows(p=[1]), RAW, 3)


def last_partition(rows: pa.RecordBatch, partitions: int) -> list[int]:
    return [partitions - 1] * rows.num_rows


def too_far(rows: pa.RecordBatch, partitions: int) -> list[int]:
    return [partitions] * rows.num_rows


def too_few(rows: pa.RecordBatch, partitions: int) -> list[int]:
    return []


def test_a_custom_function_chooses_the_partition() -> None:
    given_ = rows(key=[b"a", b"b"], value=[b"", b""])
    assert partitioner(f"{__name__}:last_partition")(given_, RAW, 4).tolist() == [3, 3]
    for bad in ("too_far", "too_few"):
        with pytest.raises(BadTopicOption):
            partitioner(f"{__name__}:{bad}")(given_, RAW, 4)


@pytest.mark.parametrize("name", ["nothing", "", "no.such.module:f", "os:no_such_function", "priority"])
def test_an_invalid_partitioner_is_refused(name: str) -> None:
    with pytest.raises(Exception) as raised:  # noqa: PT011
        partitioner(name)
    assert raised.value.code in ("bad-topic-option", "bad-option")  # type: ignore[attr-defined]
