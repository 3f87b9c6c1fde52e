from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.plan.chain.step_builder import build_steps
from headrace.plan.expressions import Column, NamedExpression
from headrace.plan.functions.declaration import AggregateOverload, Aggregator
from headrace.plan.nodes import Aggregate, AggregateCall
from headrace.plan.relations import Kind, Relation
from headrace.plan.steps import Context
from headrace.plan.types import BIGINT, INT, array
from headrace.schema import Field
from tests.unit.plan.chain.group_by import G, N, event, grouped, on_port, source
from tests.unit.plan.chain.join_inputs import Bench, cuts, is_chained, table_of

# -- streams --------------------------------------------------------------------------------------------------------


def test_every_row_changes_its_group() -> None:
    bench = Bench(grouped("COUNT", "SUM n"))
    assert bench.step.process(0, [event(1, "a", 5), event(2, "b", 1), event(3, "a", None)]) == [
        (1, ("a",), (1, 5), None),
        (2, ("b",), (1, 1), None),
        (3, ("a",), (2, 5), None),
    ]


def test_a_result_has_the_time_of_its_latest_row() -> None:
    bench = Bench(grouped("COUNT"), old=True)
    assert bench.step.process(0, [event(7, "a"), event(3, "a")]) == [
        (7, ("a",), (1,), None),
        (7, ("a",), (2,), (1,)),
    ]


def test_rows_without_payload_or_group_do_not_count() -> None:
    bench = Bench(grouped("COUNT"))
    assert bench.step.process(0, [(1, (0,), None), event(2, None), event(3, "a")]) == [(3, ("a",), (1,), None)]
    assert bench.codes == ["null-value", "null-group"]


def test_a_row_with_a_null_group_column_is_skipped() -> None:
    bench = Bench(grouped("COUNT", by=(G, N)))
    assert bench.step.process(0, [event(1, "a", None), event(2, "a", 1)]) == [(2, ("a", 1), (1,), None)]


def test_group_keys_may_be_lists() -> None:
    relation = Relation(Kind.STREAM, (), (Field("l", array(INT)),))
    node = grouped("COUNT")
    column = Column(array(INT), "l")
    keyed = Relation(Kind.TABLE, (Field("l", array(INT)),), node.relation.value)
    below = source()
    below = type(below)(below.name, below.topic, relation, below.key_format, below.value_format)
    bench = Bench(Aggregate(below, keyed, (NamedExpression("l", column),), node.calls))
    assert bench.step.process(0, [(1, None, ([1, 2],)), (2, None, ([1, 2],))]) == [
        (1, ([1, 2],), (1,), None),
        (2, ([1, 2],), (2,), None),
    ]


def test_an_aggregate_that_raises_keeps_its_state() -> None:
    def add(state: int, value: int) -> int:
        return state + 10 // value

    overload = AggregateOverload("(v: bigint) -> bigint", lambda kinds, constants: Aggregator(BIGINT, int, add))
    node = grouped("COUNT", "COUNT")
    bad = AggregateCall("bad", "BAD", overload, (N,))
    bench = Bench(Aggregate(node.input, node.relation, node.groups, (bad, node.calls[0])))
    out = bench.step.process(0, [event(1, "a", 5), event(2, "a", 0), event(3, "a", 10)])
    assert [new for _, _, new, _ in out] == [(2, 1), (2, 2), (3, 3)]
    assert bench.codes == ["aggregate-failed"]
    assert bench.problems[0].where == "BAD as bad"


def test_emitted_results_are_not_changed_later() -> None:
    bench = Bench(grouped("COLLECT_LIST n"))
    (first,) = bench.step.process(0, [event(1, "a", 1)])
    bench.step.process(0, [event(2, "a", 2)])
    assert first[2] == ([1],)


rows = st.tuples(st.integers(0, 40), st.sampled_from(["a", "b", None]), st.none() | st.integers(-5, 5))
calls = ("COUNT", "COUNT n", "SUM n", "MIN n", "MAX n", "LATEST_BY_OFFSET n", "COLLECT_LIST n")


@given(st.lists(rows, max_size=30), cuts)
def test_any_batches_give_the_same_results(rows: list[Any], cuts: set[int]) -> None:
    events = on_port(event(*row) for row in rows)
    whole = Bench(grouped(*calls), old=True).run(events)
    assert Bench(grouped(*calls), old=True).run_cut(events, cuts) == whole
    assert is_chained(whole)


@given(st.lists(rows, max_size=30))
def test_the_final_result_agrees_with_a_simple_count(rows: list[Any]) -> None:
    out = Bench(grouped("COUNT", "SUM n")).run(on_port(event(*row) for row in rows))
    counts = Counter(group for _, group, _ in rows if group is not None)
    assert {key[0]: new[0] for key, new in table_of(out).items()} == counts
    assert {key[0]: new[1] for key, new in table_of(out).items()} == {
        group: sum(n or 0 for _, g, n in rows if g == group) for group in counts
    }


# -- tables ---------------------------------------------------------------------------------------------------------


def changed(time: int, new: Any, old: Any) -> Any:
    return time, (0,), new, old


def test_a_row_that_stays_in_its_group_is_one_change() -> None:
    bench = Bench(grouped("SUM n", kind=Kind.TABLE), old=True)
    rows = [("a", 10), ("a", 20), None]
    changes = [changed(t, new, old) for t, (new, old) in enumerate(zip(rows, [None, *rows], strict=False))]
    assert bench.step.process(0, changes) == [
        (0, ("a",), (10,), None),
        (1, ("a",), (20,), (10,)),
        (2, ("a",), (0,), (20,)),
    ]


def test_a_row_that_changes_its_group_leaves_the_old_group_first() -> None:
    bench = Bench(grouped("COUNT", kind=Kind.TABLE))
    out = bench.step.process(0, [changed(5, ("a", 1), None), changed(3, ("b", 1), ("a", 1))])
    assert out == [(5, ("a",), (1,), None), (5, ("a",), (0,), None), (3, ("b",), (1,), None)]


def test_a_row_may_change_to_no_group() -> None:
    bench = Bench(grouped("COUNT", kind=Kind.TABLE))
    out = bench.step.process(0, [changed(1, ("a", 1), None), changed(2, (None, 1), ("a", 1))])
    assert out == [(1, ("a",), (1,), None), (2, ("a",), (0,), None)]
    assert bench.codes == ["null-group"]


def test_removing_an_unknown_row_is_allowed() -> None:
    assert Bench(grouped("COUNT", kind=Kind.TABLE)).step.process(0, [changed(1, None, ("a", 1))]) == []


def test_a_table_needs_aggregates_with_undo() -> None:
    node = grouped("MAX n", kind=Kind.TABLE)
    with pytest.raises(ValueError, match="MAX"):
        Bench(node)


updates = st.lists(st.tuples(st.integers(0, 3), st.none() | st.tuples(st.sampled_from("ab"), st.integers(-5, 5))))


def _changes(updates: list[Any]) -> list[Any]:
    table: dict[int, Any] = {}
    changes = []
    for time, (key, new) in enumerate(updates):
        changes.append((time, (key,), new, table.get(key)))
        table[key] = new
    return changes


@given(updates)
def test_groups_of_a_table_agree_with_its_current_rows(updates: list[Any]) -> None:
    out = Bench(grouped("COUNT", "SUM n", kind=Kind.TABLE), old=True).run(on_port(_changes(updates)))
    left = [row for row in dict(updates).values() if row is not None]
    for (group,), (count, total) in table_of(out).items():
        assert count == sum(g == group for g, _ in left)
        assert total == sum(n for g, n in left if g == group)
    assert is_chained(out)


@given(updates, cuts)
def test_any_batches_of_table_changes_give_the_same_results(updates: list[Any], cuts: set[int]) -> None:
    changes = on_port(_changes(updates))
    node = grouped("COUNT", "SUM n", "COLLECT_LIST n", kind=Kind.TABLE)
    assert Bench(node).run_cut(changes, {c for c in cuts if c <= len(changes)}) == Bench(node).run(changes)


def test_aggregates_run_with_a_minimal_context() -> None:
    built = build_steps(grouped("COUNT"), Context())
    assert built.step.process(0, [event(1, "a")]) == [(1, ("a",), (1,), None)]
