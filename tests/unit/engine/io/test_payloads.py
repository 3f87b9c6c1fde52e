"""Chain entries encoded in bulk have the payloads of the sink's encoder."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.engine.io.payloads import entry_encoder
from headrace.plan.chain.records import Encoder
from headrace.plan.nodes import Sink
from headrace.testing.world import World
from tests.unit.formats.rows import values

COLUMNS = "k STRING KEY, s STRING, d DOUBLE, n BIGINT, i INT, ok BOOLEAN, p DECIMAL(5,2), at TIMESTAMP, day DATE"
TUMBLING = "WINDOW TUMBLING (SIZE 5 SECONDS)"
STATEMENTS = [
    "CREATE STREAM o AS SELECT * FROM c;",
    "CREATE STREAM o WITH (key_format='JSON') AS SELECT k, s FROM c;",
    "CREATE STREAM o AS SELECT s, d FROM c PARTITION BY NULL;",
    "CREATE STREAM o WITH (wrap_single_value=false) AS SELECT k, d FROM c;",
    "CREATE TABLE o AS SELECT i, COUNT(*) AS c FROM c GROUP BY i;",
    f"CREATE TABLE o AS SELECT s, COUNT(*) AS c, SUM(p) AS t FROM c {TUMBLING} GROUP BY s;",
    f"CREATE TABLE o WITH (key_format='JSON') AS SELECT s, n, COUNT(*) AS c FROM c {TUMBLING} GROUP BY s, n;",
]


def sink_of(statement: str, columns: str = COLUMNS) -> Sink:
    world = World(live=False)
    world.execute(f"CREATE STREAM c ({columns}) WITH (kafka_topic='c', value_format='JSON', partitions=1);")
    world.execute(statement)
    (running,) = world.running.values()
    return running.query.sink


def row(fields: Any) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.tuples(*(values(field.type).map(lambda v, k=field.type: _scaled(v, k)) for field in fields))


def _scaled(value: Any, kind: pa.DataType) -> Any:
    """Decimals of the chain have all their digits."""
    return value.quantize(Decimal(1).scaleb(-kind.scale)) if isinstance(value, Decimal) else value


@pytest.mark.parametrize("statement", STATEMENTS)
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_bulk_encoding_gives_the_payloads_of_the_encoder(statement: str, data: st.DataObject) -> None:
    sink = sink_of(statement)
    windows = [st.tuples(st.integers(0, 9), st.integers(10, 19))] if sink.relation.window else []
    keys = st.none() | st.tuples(row(sink.relation.key), *windows).map(lambda key: (*key[0], *key[1:]))
    if not sink.relation.key:
        keys = st.none()
    entries = data.draw(
        st.lists(st.tuples(st.integers(0, 99), keys, st.none() | row(sink.relation.value)), min_size=1, max_size=5)
    )
    made = entry_encoder(sink)
    assert made is not None
    found = made.rows(entries)
    assert found is not None
    encoder = Encoder(sink)
    written: list[Any] = [encoder.encode(entry) for entry in entries]
    assert list(zip(*(column.to_pylist() for column in found), strict=True)) == [tuple(raw[:3]) for raw in written]


@pytest.mark.parametrize(
    "entry",
    [
        (-1, ("k",), ("s", 1.0)),
        (5, ("k",), ("\ud800", 1.0)),
        (5, ("k",), ("s", 1)),
        (5, ("k",), (1, 1.0)),
        (5, (1,), ("s", 1.0)),
    ],
)
def test_entries_of_other_types_are_left_to_the_encoder(entry: Any) -> None:
    made = entry_encoder(sink_of("CREATE STREAM o AS SELECT * FROM c;", "k STRING KEY, s STRING, d DOUBLE"))
    assert made is not None
    assert made.rows([(5, ("k",), ("s", 1.0)), entry]) is None


@pytest.mark.parametrize("columns", ["k STRING KEY, m MAP<STRING, INT>", "k STRING KEY, a ARRAY<INT>"])
def test_sinks_that_are_left_to_the_encoder(columns: str) -> None:
    assert entry_encoder(sink_of("CREATE STREAM o AS SELECT * FROM c;", columns)) is None
