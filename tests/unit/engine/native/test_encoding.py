"""Results that a native query encodes in bulk have the payloads of the sink's encoder."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.contracts import Topic, TopicSpec
from headrace.engine.native.sink import RowEncoder, encode_columns
from headrace.engine.native.task_spec import NativeTaskSpec, native_task_spec
from headrace.engine.sparksql.column_types import to_column
from headrace.engine.sparksql.frames import row_columns
from headrace.testing.world import World

TOPICS = [Topic("O", TopicSpec(), 0), Topic("dead", TopicSpec(), 0)]
COUNT = "CREATE TABLE o AS SELECT {0}, COUNT(*) AS c, SUM(d) AS t FROM c {1} GROUP BY {0};"
STATEMENTS = [
    "CREATE STREAM o AS SELECT k, s, d, n, ok, p, at FROM c;",
    "CREATE STREAM o WITH (key_format='JSON') AS SELECT k, s FROM c;",
    "CREATE STREAM o WITH (wrap_single_value=false) AS SELECT k, s FROM c;",
    "CREATE STREAM o WITH (value_format='KAFKA') AS SELECT k, n FROM c;",
    COUNT.format("s", ""),
    COUNT.format("s", "WINDOW TUMBLING (SIZE 5 SECONDS)"),
    COUNT.replace(" AS SELECT", " WITH (key_format='JSON') AS SELECT").format(
        "s, n", "WINDOW HOPPING (SIZE 5 SECONDS, ADVANCE BY 1 SECONDS)"
    ),
]
VALUES = {
    pa.string(): st.sampled_from(["", "a", 'q"', "é\n"]),
    pa.float64(): st.sampled_from([0.0, 1.0, -2.5, 1e9, float("nan")]),
    pa.bool_(): st.booleans(),
    pa.decimal128(5, 2): st.decimals(-999, 999, places=2),
}


def work_of(statement: str) -> NativeTaskSpec:
    world = World(live=False)
    world.execute(
        "CREATE STREAM c (k STRING KEY, s STRING, d DOUBLE, n BIGINT, ok BOOLEAN, p DECIMAL(5,2), at TIMESTAMP)"
        " WITH (kafka_topic='c', value_format='JSON', partitions=1);"
    )
    world.execute(statement)
    (running,) = world.running.values()
    return native_task_spec(running.query, "")


def frame(data: st.DataObject, work: NativeTaskSpec) -> pa.RecordBatch:
    """Rows as Spark would give them."""
    relation, count = work.plan.sink.relation, data.draw(st.integers(1, 4))
    kinds = {f"k{i}": f.type for i, f in enumerate(relation.key)} | {
        f"v{i}": f.type for i, f in enumerate(relation.value)
    }
    there = {name: data.draw(st.lists(st.booleans(), min_size=count, max_size=count)) for name in ("keyed", "valued")}

    def cells(name: str) -> pa.Array:
        if name in there:
            return pa.array(there[name], pa.bool_())
        kind = kinds.get(name, pa.int64())
        some = VALUES.get(kind, st.integers(0, 10**6))
        given: list[Any] = data.draw(
            st.lists(st.none() | some if name in kinds else some, min_size=count, max_size=count)
        )
        mask = there["keyed" if name[0] == "k" else "valued"] if name in kinds else [True] * count
        return to_column([value if is_there else None for value, is_there in zip(given, mask, strict=True)], kind)

    names = row_columns(relation)
    return pa.RecordBatch.from_arrays([cells(name) for name in names], names)


@pytest.mark.parametrize("statement", STATEMENTS)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_bulk_encoding_gives_the_payloads_of_the_encoder(statement: str, data: st.DataObject) -> None:
    work = work_of(statement)
    rows = frame(data, work)
    given_columns = dict(zip(rows.schema.names, rows.columns, strict=True))
    written = encode_columns(given_columns, work)
    assert written is not None
    ((topic, wanted),) = RowEncoder(work).one_by_one(rows, given_columns, TOPICS)
    assert (topic.name, written.to_pylist()) == ("O", wanted.to_pylist())


def test_times_before_1970_are_encoded_one_by_one() -> None:
    work = work_of(STATEMENTS[0])
    given_columns = {"time": pa.array([5, -1])}
    assert encode_columns(given_columns, work) is None
