"""Steps that look at one row at a time, on streams and on tables."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.plan import expressions as ex
from headrace.plan import types as ty
from headrace.plan.chain.interpreter import Chain
from headrace.plan.expressions import Expression, NamedExpression
from headrace.plan.functions.declaration import NullRule
from headrace.plan.nodes import Explode, Filter, Node, Query, Rekey, Select, Union
from headrace.plan.relations import Kind, Relation
from headrace.plan.steps import Context, Problem
from headrace.schema import Field
from tests.unit.plan.chain.expression_builders import call, compare, fail, lit, math, relation, sink, source

STREAM = relation(A=ty.INT)
TABLE = relation(Kind.TABLE, A=ty.INT)
A = ex.Column(ty.INT, "A")
K = ex.Column(ty.STRING, "K")
POSITIVE = compare(A, ">", lit(0))


def run(node: Any, *events: Any, old: bool = False) -> tuple[list[Any], list[Problem]]:
    problems: list[Problem] = []
    chain = Chain(Query("q", sink(node)), Context(report=problems.append), old=old)
    return chain.feed("in", list(events)), problems


def filtered(over: Relation, condition: Expression = POSITIVE) -> Filter:
    return Filter(source(over), over, condition)


def plus_one(over: Relation) -> Select:
    named = NamedExpression("B", math("+", A, lit(1)))
    return Select(source(over), Relation(over.kind, over.key, (Field("B", ty.INT),)), (named,))


def test_a_stream_filter_drops_other_rows_and_null_rows() -> None:
    out, problems = run(filtered(STREAM), (1, ("a",), (1,)), (2, None, (2,)), (3, ("c",), (-1,)), (4, ("d",), None))
    assert out == [(1, ("a",), (1,)), (2, None, (2,))]
    assert not problems


def test_a_failed_condition_drops_the_row_and_is_reported() -> None:
    out, problems = run(filtered(STREAM, compare(math("/", lit(1), A), "=", lit(1))), (1, None, (0,)), (2, None, (1,)))
    assert out == [(2, None, (1,))]
    assert [(p.code, p.where, p.row) for p in problems] == [("expression-failed", "WHERE", (0,))]


@pytest.mark.parametrize("old", [False, True])
def test_a_table_filter_deletes_rows_that_no_longer_match(old: bool) -> None:
    events = [(1, ("a",), (1,)), (2, ("a",), (0,)), (3, ("a",), None), (4, ("b",), (0,)), (5, ("a",), (2,))]
    out, _ = run(filtered(TABLE), *events, old=old)
    assert out == [(1, ("a",), (1,), None), (2, ("a",), None, (1,)), (5, ("a",), (2,), None)]


def test_a_stream_has_no_old_values() -> None:
    assert run(plus_one(STREAM), (1, ("a",), (1,)), old=True)[0] == [(1, ("a",), (2,))]


def test_select_keeps_key_time_and_null_rows() -> None:
    out, _ = run(plus_one(STREAM), (1, ("a",), (1,)), (2, None, (None,)), (3, ("c",), None))
    assert out == [(1, ("a",), (2,)), (2, None, (None,)), (3, ("c",), None)]


def test_select_on_a_table_computes_old_values_only_if_needed() -> None:
    events = [(1, ("a",), (1,)), (2, ("a",), (5,)), (3, ("a",), None)]
    assert run(plus_one(TABLE), *events)[0] == [
        (1, ("a",), (2,), None),
        (2, ("a",), (6,), None),
        (3, ("a",), None, None),
    ]
    assert run(plus_one(TABLE), *events, old=True)[0] == [
        (1, ("a",), (2,), None),
        (2, ("a",), (6,), (2,)),
        (3, ("a",), None, (6,)),
    ]


def test_select_reports_a_failed_column_once_per_row() -> None:
    over = Relation(Kind.TABLE, TABLE.key, (Field("B", ty.INT),))
    node = Select(source(TABLE), over, (NamedExpression("B", fail()),))
    for old in (False, True):
        out, problems = run(node, (1, ("a",), (1,)), (2, ("a",), (2,)), old=old)
        assert [entry[2] for entry in out] == [(None,), (None,)]
        assert len(problems) == 2
    assert run(node, (1, ("a",), (1,)))[1][0].where == "SELECT, column B"


REKEYS: list[tuple[str, tuple[Expression, ...], Any, Any]] = [
    ("a value", (A,), (1, ("a",), (7,)), (7,)),
    ("a null value", (A,), (1, ("a",), (None,)), None),
    ("a value of nothing", (A,), (1, ("a",), None), None),
    ("a condition on nothing", (ex.IsNull(ty.BOOLEAN, A),), (1, ("a",), None), None),
    ("a condition on null", (ex.IsNull(ty.BOOLEAN, A),), (1, ("a",), (None,)), (True,)),
    ("the old key of nothing", (K,), (1, ("a",), None), ("a",)),
    ("two columns, one null", (K, A), (1, ("a",), (None,)), ("a", None)),
    ("two columns of nothing", (K, A), (1, ("a",), None), ("a", None)),
    ("nothing", (), (1, ("a",), (7,)), None),
    ("what fails", (fail(),), (1, ("a",), (7,)), None),
]


def rekeyed(keys: tuple[Expression, ...], *, explicit: bool) -> Rekey:
    named = tuple(NamedExpression(f"K{i}", key) for i, key in enumerate(keys))
    over = Relation(Kind.STREAM, tuple(Field(n.name, n.type) for n in named), STREAM.value)
    return Rekey(source(STREAM), over, named, explicit)


@pytest.mark.parametrize(("keys", "event", "key"), [case[1:] for case in REKEYS], ids=[case[0] for case in REKEYS])
def test_rekey_computes_the_new_key(keys: tuple[Expression, ...], event: Any, key: Any) -> None:
    assert run(rekeyed(keys, explicit=True), event)[0] == [(1, key, event[2])]
    # Before a join only rows that can find a partner go on.
    useful = key is not None and None not in key
    assert run(rekeyed(keys, explicit=False), event)[0] == ([(1, key, event[2])] if useful else [])


def exploded(*functions: Expression) -> Explode:
    named = tuple(NamedExpression(f"F{i}", function) for i, function in enumerate(functions))
    over = Relation(Kind.STREAM, STREAM.key, (*STREAM.value, *(Field(n.name, ty.INT) for n in named)))
    return Explode(source(STREAM), over, named)


def upto(limit: Expression) -> Expression:
    return call(lambda n: list(range(n)), ty.INT, limit)


def test_explode_emits_a_row_per_item_of_the_longest_list() -> None:
    node = exploded(upto(A), call(lambda n: None if n is None else [None], ty.INT, A, nulls=NullRule.PASS))
    out, _ = run(node, (1, ("a",), (2,)), (2, ("b",), (None,)), (3, ("c",), None), (4, ("d",), (0,)))
    assert out == [(1, ("a",), (2, 0, None)), (1, ("a",), (2, 1, None)), (4, ("d",), (0, None, None))]


def test_explode_of_a_failed_expression_emits_no_row() -> None:
    out, problems = run(exploded(upto(fail())), (1, ("a",), (2,)))
    assert out == []
    assert len(problems) == 1


def test_union_emits_both_inputs_in_order_of_arrival() -> None:
    node = Union(source(STREAM, "left"), source(STREAM, "right"), STREAM)
    events = [("right", (1, None, (1,))), ("left", (2, None, (2,))), ("right", (3, None, None))]
    assert Chain(Query("q", sink(node))).run(events) == [event for _, event in events]


@pytest.mark.parametrize("old", [False, True])
def test_a_table_drops_and_reports_records_without_a_key(old: bool) -> None:
    out, problems = run(source(TABLE), (1, None, (1,)), (2, ("a",), (2,)), old=old)
    assert out == [(2, ("a",), (2,), None)]
    assert [(p.code, p.row) for p in problems] == [("null-key", (1,))]


def test_a_late_change_of_a_table_is_applied() -> None:
    out, _ = run(source(TABLE), (9, ("a",), (1,)), (3, ("a",), (2,)), (10, ("a",), None), (11, ("a",), (3,)), old=True)
    assert out == [
        (9, ("a",), (1,), None),
        (3, ("a",), (2,), (1,)),
        (10, ("a",), None, (2,)),
        (11, ("a",), (3,), None),
    ]


def test_the_key_of_a_table_may_contain_lists() -> None:
    over = relation(Kind.TABLE, key={"K": ty.array(ty.INT)}, A=ty.INT)
    out, _ = run(source(over), (1, ([1],), (1,)), (2, ([1],), (2,)), old=True)
    assert out == [(1, ([1],), (1,), None), (2, ([1],), (2,), (1,))]


def test_two_sources_have_separate_stores() -> None:
    names: list[str] = []
    stores: dict[str, Any] = {}

    def store(name: str) -> dict[Any, Any]:
        names.append(name)
        return stores.setdefault(name, {})

    left: Node = source(TABLE, "left")
    node = Union(left, source(TABLE, "right"), TABLE)
    Chain(Query("q", sink(node)), Context(store=store), old=True)
    assert len(set(names)) == len(names) == 2
