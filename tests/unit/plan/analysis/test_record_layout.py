"""Topics with a schema: columns become the values of the chain, and incompatible columns are refused."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from headrace.contracts import SYSTEM_COLUMNS, Batch, Topic, TopicSpec
from headrace.engine.io.row_payloads import payload_rows
from headrace.engine.record.chain_operator import run_records
from headrace.engine.record.shuffle.partitioner import partition_batch
from headrace.engine.record.shuffle.payloads import read_payloads
from headrace.engine.record.task_spec import record_task_spec
from headrace.engine.task_report import TaskReport
from headrace.errors import SchemaMismatch
from headrace.plan.analysis.record_layout import RecordLayout, record_layouts
from headrace.plan.nodes import Query
from headrace.schema import Schema
from headrace.testing.world import World

SCHEMA = Schema.parse(
    "id bigint key, page string, price decimal(10,2), tags array<string>, day date, at timestamp, ok boolean, n int"
)
DECLARED = """
id BIGINT KEY, page STRING, price DECIMAL(10,2), tags ARRAY<STRING>, day DATE, `AT` TIMESTAMP, ok BOOLEAN, n BIGINT
"""


def query(statement: str, declared: str = DECLARED) -> Query:
    world = World(live=False)
    world.execute(f"CREATE STREAM c ({declared}) WITH (kafka_topic='c', format='JSON', partitions=1);")
    world.execute(statement)
    (running,) = world.running.values()
    return running.query


def topic(schema: Schema = SCHEMA) -> Topic:
    return Topic("c", TopicSpec(schema=schema), 0)


ROWS = [
    {"id": 1, "page": "/a", "price": Decimal("1.50"), "tags": ["x", None], "day": 3, "at": 5, "ok": True, "n": 7},
    {"id": 2, "page": None, "price": None, "tags": None, "day": None, "at": None, "ok": None, "n": None},
    {"id": 1, "page": "/b", "price": Decimal("0.00"), "tags": [], "day": -1, "at": 0, "ok": False, "n": -2},
]


def batch(rows: list[dict], deleted: list[bool | None] | None = None) -> Batch:
    columns = {name: pa.nulls(len(rows), kind) for name, kind in SYSTEM_COLUMNS.items()}
    for field in SCHEMA.fields:
        values = [row[field.name] for row in rows]
        numbers = {"day": pa.int32(), "at": pa.int64()}.get(field.name)
        columns[field.name] = pa.array(values, field.type if numbers is None else numbers).cast(field.type)
    places = pa.array(range(1, len(rows) + 1), pa.int64())
    columns |= {"$timestamp": pa.array([10] * len(rows), pa.int64()), "$offset": places, "$sequence": places}
    if deleted is not None:
        columns["$deleted"] = pa.array(deleted, pa.bool_())
    return Batch("c", 0, pa.RecordBatch.from_arrays(list(columns.values()), list(columns)), len(rows))


@pytest.mark.parametrize("pages", [1, 3])
def test_columns_are_the_values_of_the_chain(pages: int) -> None:
    plan = query("CREATE TABLE o AS SELECT id, COUNT(*) AS k, LATEST_BY_OFFSET(n) AS n FROM c GROUP BY id;")
    layouts = (*record_layouts(plan, [topic()]), RecordLayout("ticks"))
    assert layouts[0].names == ("id", "n")
    work = record_task_spec(plan, layouts, "ticks", pages)
    written = []
    rows = partition_batch(batch(ROWS), work)
    for page, payload in zip(*(column.to_pylist() for column in rows.columns), strict=True):
        for name, data in run_records(work, read_payloads([payload], work), lambda name: {}, TaskReport(page)):
            assert name == "O"
            written += [(row["key"], row["value"]) for row in payload_rows(data).to_pylist()]
    assert sorted(written) == [(b"1", b'{"K":1,"N":7}'), (b"1", b'{"K":2,"N":-2}'), (b"2", b'{"K":1,"N":null}')]


def test_every_type_has_the_value_of_the_chain() -> None:
    plan = query("CREATE STREAM o AS SELECT * FROM c;")
    (layout,) = record_layouts(plan, [topic()])
    table = pa.Table.from_batches([layout.pack(batch(ROWS, [None, None, True]))])
    first, second, third = layout.records(table)
    assert first.value == (1, "/a", Decimal("1.50"), ["x", None], 3, 5, True, 7, None)
    assert second.value == (2, None, None, None, None, None, None, None, None)
    assert (third.key[0], third.value) == (1, None)  # type: ignore[index]


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ("id BIGINT KEY, other STRING", 'column "OTHER" does not exist in the topic'),
        ("id STRING KEY, n INT", "the topic has bigint"),
        ("id BIGINT KEY, page INT", "the topic has string"),
        ("id INT KEY, n INT", "the topic has bigint"),
    ],
)
def test_columns_missing_in_the_schema_are_refused(declared: str, said: str) -> None:
    plan = query("CREATE STREAM o AS SELECT * FROM c;", declared)
    with pytest.raises(SchemaMismatch, match=said):
        record_layouts(plan, [topic()])
