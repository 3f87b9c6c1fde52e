"""Conditions evaluated by Arrow select exactly the rows that the chain selects."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.engine.native.arrow_filter import filter_mask, push_down_filter, split_condition
from headrace.engine.sparksql.column_types import to_column
from headrace.plan import nodes as n
from headrace.plan.codegen.compiler import predicate
from headrace.plan.relations import Relation
from headrace.plan.steps import Context
from headrace.testing.world import World

SALES = (
    "CREATE STREAM sales (shop STRING KEY, item STRING, amount BIGINT, n INT, price DOUBLE, paid BOOLEAN, day DATE,"
    " fee DECIMAL(9, 2)) WITH (kafka_topic='sales', format='JSON', partitions=1);"
)
VALUES: dict[str, list[Any]] = {
    "shop": ["", "oslo", "bonn", "Ωmega", "𝄞"],
    "item": ["", "i1", "i2", "\ufffd", "𝄞x"],
    "amount": [-5, 0, 7, (1 << 63) - 1, -(1 << 63)],
    "n": [-5, 0, 7, (1 << 31) - 1],
    "price": [-0.0, 0.0, 1.5, float("nan"), float("inf"), float("-inf")],
    "paid": [True, False],
    "day": [-1, 0, 20_000],
    "fee": [],
}
TEXTS = {
    "shop": ["'oslo'", "''", "item"],
    "item": ["'i1'", "shop", "'𝄞'"],
    "amount": ["7", "-5", "n", "9223372036854775807"],
    "n": ["7", "0", "amount", "-5"],
    "price": ["1.5", "0.0", "1e0", "price"],
    "paid": ["true", "paid"],
    "day": ["'1970-01-01'", "day"],
    "fee": ["1.25", "fee"],
    "ROWTIME": ["5", "amount"],
}
ROWS = st.lists(
    st.tuples(*(st.one_of(st.none(), st.sampled_from(values)) if values else st.none() for values in VALUES.values())),
    max_size=8,
)


@st.composite
def compared(draw: st.DrawFn) -> str:
    name = draw(st.sampled_from(list(TEXTS)))
    other = st.sampled_from(TEXTS[name])
    operator = draw(st.sampled_from(["=", "<>", "<", "<=", ">", ">="] if name != "paid" else ["=", "<>"]))
    forms = [
        f"{name} {operator} {draw(other)}",
        f"{name} IS NULL",
        f"{name} IS NOT NULL",
        f"{name} IN ({draw(other)}, {draw(other)})",
        f"{name} BETWEEN {draw(other)} AND {draw(other)}" if name != "paid" else "paid",
        "LEN(item) > 1",
        "amount + 1 > n",
    ]
    return draw(st.sampled_from(forms))


CONDITIONS = st.recursive(
    compared(),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["AND", "OR"]), inner).map(lambda p: f"({p[0]} {p[1]} {p[2]})"),
        inner.map(lambda text: f"NOT ({text})"),
    ),
    max_leaves=5,
)


def filter_of(condition: str) -> n.Filter:
    world = World(live=False)
    world.execute(f"{SALES}CREATE STREAM o AS SELECT * FROM sales WHERE {condition};")
    query = list(world.running.values())[-1].query
    return next(node for node in n.walk(query.sink) if isinstance(node, n.Filter))


@given(condition=CONDITIONS, rows=ROWS)
def test_arrow_and_the_chain_select_the_same_rows(condition: str, rows: list[tuple[Any, ...]]) -> None:
    node = filter_of(condition)
    relation = node.input.relation  # type: ignore[attr-defined]
    able, left = split_condition(node.condition, relation)
    held = filter_mask(able, relation, columns(rows, relation)).to_pylist() if able else [True] * len(rows)
    wanted, others = (c and predicate(c, relation, Context(), "") for c in (node.condition, left))
    assert wanted is not None
    for row, fits in zip(rows, held, strict=True):
        event = (row[2] or 0, row[:1], row[1:])
        assert (fits and (others is None or others(*event))) == wanted(*event)


def columns(rows: list[tuple[Any, ...]], relation: Relation) -> dict[str, pa.Array]:
    fields = [("k0", relation.key[0]), *((f"v{i}", field) for i, field in enumerate(relation.value))]
    made = {name: to_column([row[i] for row in rows], field.type) for i, (name, field) in enumerate(fields)}
    return {**made, "time": pa.array([row[2] or 0 for row in rows], pa.int64())}


@pytest.mark.parametrize(
    "condition",
    [
        "amount > 900000",
        "item = 'i1' AND amount BETWEEN 1 AND n",
        "NOT (price < 1.5) OR paid",
        "shop IN ('oslo', 'rome') AND day IS NOT NULL",
        "ROWTIME >= 5",
    ],
)
def test_simple_conditions_are_evaluated_by_arrow_completely(condition: str) -> None:
    node = filter_of(condition)
    assert split_condition(node.condition, node.input.relation)[1] is None  # type: ignore[attr-defined]


def test_the_rest_of_a_condition_is_evaluated_by_spark() -> None:
    world = World(live=False)
    world.execute(f"{SALES}CREATE STREAM o AS SELECT * FROM sales WHERE amount > 1 AND LEN(item) > 1 AND n = 2;")
    query = list(world.running.values())[-1].query
    able, above = push_down_filter(query)
    left = next(node for node in n.walk(above) if isinstance(node, n.Filter))
    whole = next(node for node in n.walk(query.sink) if isinstance(node, n.Filter))
    assert able is not None
    assert split_condition(left.condition, query.sources[0].relation) == (None, left.condition)
    assert split_condition(whole.condition, query.sources[0].relation) == (able, left.condition)
