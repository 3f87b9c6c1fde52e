"""Rows of raw topics decoded in bulk are those of the serdes, in the same order, and so are problems."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.contracts import HEADERS_TYPE, SYSTEM_COLUMNS, Batch, Topic, TopicSpec
from headrace.engine.native.input_rows import decode_batch
from headrace.engine.native.raw_decoder import decode_raw, one_by_one
from headrace.engine.native.task_spec import NativeTaskSpec, native_task_spec
from headrace.testing.world import World

FILTER = "CREATE STREAM o AS SELECT * FROM c;"
COUNT = "CREATE TABLE o AS SELECT b, COUNT(*) AS n FROM c GROUP BY b;"
COLUMNS = "k STRING KEY, a INT, b STRING, c DOUBLE, d TIMESTAMP, e DECIMAL(5,2), s STRUCT<x INT, y ARRAY<STRING>>"
DOCUMENTS = [
    *(
        b'{"a":1,"b":"x","c":1.5,"d":1700000000000,"e":1.50,"s":{"x":1,"y":["p",null]}}',
        b'{"b":"y","d":5}',
        b"{}",
        None,
    ),
    *(
        b'{"A":2,"B":null,"C":-0.5,"D":0,"E":"7.25","S":null,"more":[1]}',
        b'{"a":1,"s":{},"d":7}',
        b'{"s":{"y":[]},"d":1}',
    ),
]
LIES = [
    b"{",
    b'{"a":"x"}',
    b'{"a":"12","d":1}',
    b'{"d":-1}',
    b'{"b":5,"d":1}',
    b"null",
    b"[]",
    b"\xff",
    b'{"c":-0,"d":2}',
]


def work_of(statement: str, more: str = "") -> NativeTaskSpec:
    world = World(live=False)
    world.execute(f"CREATE STREAM c ({COLUMNS}) WITH (kafka_topic='c', value_format='JSON', partitions=1{more});")
    world.execute(statement)
    (running,) = world.running.values()
    return native_task_spec(running.query, "")


def batch(keys: list[bytes | None], values: list[bytes | None], times: list[int]) -> Batch:
    columns = {name: pa.nulls(len(values), kind) for name, kind in SYSTEM_COLUMNS.items()}
    columns |= {
        "key": pa.array(keys, pa.binary()),
        "value": pa.array(values, pa.binary()),
        "$timestamp": pa.array(times, pa.int64()),
        "$headers": pa.array([[{"name": "h", "value": b"1"}] if t % 3 else None for t in times], HEADERS_TYPE),
        "$offset": pa.array(range(len(values)), pa.int64()),
        "$sequence": pa.array(range(1, len(values) + 1), pa.int64()),
    }
    return Batch("c", 0, pa.RecordBatch.from_arrays(list(columns.values()), list(columns)), 0)


def check(rows: Batch, work: NativeTaskSpec) -> None:
    (found, problems), (wanted, reported) = decode_raw(rows, work), one_by_one(rows, work)
    assert {name: column.to_pylist() for name, column in found.items()} == {
        name: column.to_pylist() for name, column in wanted.items()
    }
    assert {name: column.type for name, column in found.items()} == {name: c.type for name, c in wanted.items()}
    assert problems == reported


KEYS = st.sampled_from([b"k", b"", b"l", None, b"\xff"])
TIMES = st.sampled_from([0, 1, 5, -1, 10**13])


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(
    st.sampled_from([FILTER, COUNT]),
    st.sampled_from(["", ", timestamp='d'", ", key_format='JSON'"]),
    st.lists(st.tuples(KEYS, st.sampled_from(DOCUMENTS), TIMES), min_size=64, max_size=80),
)
def test_rows_are_those_of_the_serdes(
    statement: str, more: str, records: list[tuple[bytes | None, bytes | None, int]]
) -> None:
    keys, values, times = map(list, zip(*records, strict=True))
    check(batch(keys, values, times), work_of(statement, more))


@pytest.mark.parametrize("lie", LIES)
def test_one_invalid_record_in_a_batch_is_reported(lie: bytes) -> None:
    values: list[bytes | None] = [DOCUMENTS[0]] * 1000
    values[600] = lie
    check(batch([b"k"] * 1000, values, list(range(1000))), work_of(FILTER))
    check(batch([b"k"] * 1000, values, list(range(1000))), work_of(COUNT, ", timestamp='d'"))


@pytest.mark.parametrize("values", [[], [b"{"], [b"{", b"[]"]])
def test_a_batch_of_invalid_records_has_no_rows(values: list[bytes | None]) -> None:
    """A condition is looked at all the same."""
    work = work_of("CREATE STREAM o AS SELECT * FROM c WHERE a > 1 AND b = 'x';")
    found = decode_batch(batch([b"k"] * len(values), values, [1] * len(values)), Topic("c", TopicSpec(), 0), work)
    assert (len(found.times), len(found.problems)) == (0, len(values))
