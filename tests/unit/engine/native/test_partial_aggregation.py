"""Partial aggregation before Spark's aggregation does not change the result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headrace.engine.native.partial_aggregation import PartialAggregate, PartialAggregation, PartialAggregator
from headrace.engine.native.task_spec import native_task_spec
from headrace.plan import types as ty
from headrace.testing.world import World

SIZE = 10
PARTS = (
    PartialAggregate("COUNT", None, ty.BIGINT),
    PartialAggregate("COUNT", "v1", ty.STRING),
    PartialAggregate("SUM", "v0", ty.BIGINT),
    PartialAggregate("MIN", "v0", ty.BIGINT),
    PartialAggregate("MAX", "v1", ty.STRING),
    PartialAggregate("SUM", "v2", ty.INT),
)
PARTIAL = PartialAggregation((("k0", ty.STRING),), PARTS, SIZE)
MOST = (1 << 63) - 1
ROWS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", "ü"]),
        st.integers(0, 35),
        st.one_of(st.none(), st.sampled_from([1, -7, MOST, -MOST - 1])),
        st.one_of(st.none(), st.sampled_from(["", "x", "𝄞", "\uffff"])),
        st.one_of(st.none(), st.sampled_from([3, (1 << 31) - 1])),
    ),
    min_size=1,
    max_size=30,
)
Wholes = dict[tuple[str, int], tuple[Any, ...]]


def columns(rows: Iterable[tuple[Any, ...]]) -> dict[str, pa.Array]:
    names, kinds = ("k0", "time", "v0", "v1", "v2"), (pa.string(), pa.int64(), pa.int64(), pa.string(), pa.int32())
    made = zip(names, zip(*rows, strict=True), kinds, strict=True)
    return {name: pa.array(values, kind) for name, values, kind in made}


def whole(parts: Mapping[str, pa.Array]) -> Wholes:
    """Parts put together, as Spark does it."""
    found: dict[tuple[str, int], list[tuple[Any, ...]]] = {}
    names = ["g0", "time", *(f"p{i}" for i in range(len(PARTS)))]
    for group, time, *rest in zip(*(parts[name].to_pylist() for name in names), strict=True):
        found.setdefault((group, time // SIZE), []).append((time, *rest))
    return {key: _together(items) for key, items in found.items()}


def _together(items: list[tuple[Any, ...]]) -> tuple[Any, ...]:
    columns = [[value for value in column if value is not None] for column in zip(*items, strict=True)]
    deeds = (max, sum, sum, _wrapped, min, max, sum)
    return tuple(
        deed(column) if column or deed in (sum, _wrapped) else None for deed, column in zip(deeds, columns, strict=True)
    )


def _wrapped(values: list[int]) -> int:
    return (sum(values) + MOST + 1) % (1 << 64) - MOST - 1


@given(rows=ROWS, cut=st.integers(0, 30))
def test_partial_aggregation_gives_the_same_result_for_any_batches(rows: list[tuple[Any, ...]], cut: int) -> None:
    wanted = whole(PARTIAL.one_by_one(columns(rows)))
    assert whole(PARTIAL.aggregate(columns(rows))) == wanted
    pieces = [PARTIAL.aggregate(columns(piece)) for piece in (rows[:cut], rows[cut:]) if piece]
    names = [name for name, _ in PARTIAL.fields]
    assert whole({name: pa.concat_arrays([piece[name] for piece in pieces]) for name in names}) == wanted


def test_partial_aggregation_is_skipped_for_many_groups() -> None:
    adder = PartialAggregator(PARTIAL)
    different = columns([(f"key {i}", i, i, "x", 1) for i in range(5_000)])
    same = columns([("key", 1, 1, "x", 1)] * 5_000)
    assert len(adder(same)["time"]) == 1
    assert len(adder(different)["time"]) == 5_000
    assert len(adder(same)["time"]) == 5_000


def partial_for(statement: str) -> PartialAggregation | None:
    world = World(live=False)
    world.execute(
        "CREATE STREAM sales (shop STRING KEY, item STRING, amount BIGINT, price DOUBLE, tags ARRAY<STRING>)"
        f" WITH (kafka_topic='sales', format='JSON', partitions=1); CREATE TABLE o AS SELECT {statement};"
    )
    return native_task_spec(list(world.running.values())[-1].query, "").partial


def test_statements_with_partial_aggregation() -> None:
    added = partial_for("item, COUNT(*) AS n, SUM(amount) AS s FROM sales WHERE amount > 2 GROUP BY item")
    assert added == PartialAggregation(
        (("v0", ty.STRING),), (PartialAggregate("COUNT", None, ty.BIGINT), PartialAggregate("SUM", "v1", ty.BIGINT))
    )
    window = partial_for("item, COUNT(*) AS n FROM sales WINDOW TUMBLING (SIZE 3 SECONDS) GROUP BY item")
    assert window is not None
    assert window.size == 3_000
    assert partial_for("item, MAX(shop) AS m, COUNT(price) AS p FROM sales GROUP BY item") is not None


def test_statements_without_partial_aggregation() -> None:
    assert partial_for("item, LATEST_BY_OFFSET(amount) AS l FROM sales GROUP BY item") is None
    assert partial_for("item, SUM(amount + 1) AS s FROM sales GROUP BY item") is None
    assert partial_for("item, COUNT(*) AS n FROM sales WHERE LEN(item) > 1 GROUP BY item") is None
    assert partial_for("price, COUNT(*) AS n FROM sales GROUP BY price") is None
    hopping = "WINDOW HOPPING (SIZE 4 SECONDS, ADVANCE BY 2 SECONDS)"
    assert partial_for(f"item, COUNT(*) AS n FROM sales {hopping} GROUP BY item") is None
