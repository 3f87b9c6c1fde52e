"""Every row that enters a step is used, or reported with a code, its time, its key and its values."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.plan.expressions import Column, NamedExpression
from headrace.plan.nodes import Filter, JoinKind, Rekey, StreamJoin, StreamTableJoin, TableJoin
from headrace.plan.relations import Kind, Relation, Window, WindowKind
from headrace.plan.types import BIGINT, BOOLEAN
from headrace.schema import Field
from tests.unit.plan.chain.expression_builders import compare, lit, math
from tests.unit.plan.chain.group_by import G, event, grouped, hopping, ms, on_port, session, tumbling
from tests.unit.plan.chain.join_inputs import Bench, joined, source

WINDOWS = {
    "none": None,
    "tumbling": tumbling(10, 5),
    "hopping": hopping(10, 5, 5),
    "session": session(4, 5),
    "sliding": Window(WindowKind.SLIDING, ms(10), grace=ms(5)),
}
rows = st.lists(
    st.one_of(
        st.tuples(st.integers(0, 60), st.just((0,)), st.just(None)),
        st.tuples(st.integers(0, 60), st.sampled_from([None, "a", "b"])).map(lambda pair: event(*pair)),
    ),
    max_size=25,
)


def told(bench: Bench) -> Counter[Any]:
    return Counter((p.time, p.key, p.row) for p in bench.problems)


@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
@given(rows)
def test_a_row_changes_an_aggregate_or_is_reported(window: Window | None, rows: list[Any]) -> None:
    bench = Bench(grouped("COUNT", window=window))
    for entry in rows:
        before = len(bench.problems)
        changed = any(new is not None for _, _, new, _ in bench.step.process(0, [entry]))
        assert changed or len(bench.problems) == before + 1
    assert told(bench) <= Counter(rows)
    assert {p.code for p in bench.problems} <= {"null-value", "null-group", "late-record"}


@pytest.mark.parametrize("name", ["none", "tumbling", "session"])
@given(rows)
def test_every_row_is_counted_or_reported(name: str, rows: list[Any]) -> None:
    bench = Bench(grouped("COUNT", window=WINDOWS[name]))
    last: dict[Any, int] = {}
    for _, key, new, _ in bench.run(on_port(rows)):
        last[key] = 0 if new is None else new[0]
    assert sum(last.values()) + len(bench.problems) == len(rows)


LEFT, RIGHT = source("left", Kind.STREAM, "v"), source("right", Kind.STREAM, "w")
TABLE = source("table", Kind.TABLE, "w")
keyed = st.lists(
    st.tuples(
        st.just(0), st.tuples(st.integers(0, 60), st.sampled_from([None, (1,), (2,)]), st.sampled_from([None, ("x",)]))
    ),
    max_size=25,
)


@pytest.mark.parametrize("history", [None, timedelta(milliseconds=20)], ids=["arrival", "event"])
@given(keyed)
def test_a_left_join_emits_or_reports_every_row(history: timedelta | None, entries: list[Any]) -> None:
    bench = Bench(StreamTableJoin(LEFT, TABLE, joined(Kind.STREAM, LEFT, TABLE), JoinKind.LEFT, history))
    assert len(bench.run(entries)) + len(bench.problems) == len(entries)


@given(keyed)
def test_an_inner_join_reports_null_keys_but_not_missing_matches(entries: list[Any]) -> None:
    bench = Bench(StreamTableJoin(LEFT, TABLE, joined(Kind.STREAM, LEFT, TABLE), JoinKind.INNER))
    bench.run(entries)
    assert told(bench) == Counter(entry for _, entry in entries if entry[1] is None or entry[2] is None)


@given(keyed, st.booleans())
def test_a_stream_join_emits_or_reports_every_row(entries: list[Any], in_time: bool) -> None:
    node = StreamJoin(
        LEFT, RIGHT, joined(Kind.STREAM, LEFT, RIGHT), JoinKind.LEFT, ms(5), ms(5), ms(60 if in_time else 5)
    )
    bench = Bench(node)
    out = bench.run(entries) + bench.step.tick(1 << 40)
    assert len(out) + sum(p.code != "late-record" for p in bench.problems) == len(entries)


def test_a_change_without_a_key_is_reported_by_tables() -> None:
    other = source("other", Kind.TABLE, "v")
    bench = Bench(TableJoin(TABLE, other, joined(Kind.TABLE, TABLE, other), JoinKind.INNER))
    bench.run([(0, (1, (None,), ("x",), None))])
    assert bench.codes == ["null-key"]


def test_a_row_without_the_key_that_its_join_needs_is_reported() -> None:
    new = Relation(Kind.STREAM, (Field("$key", BIGINT),), (*LEFT.relation.value, *LEFT.relation.key))
    bench = Bench(Rekey(LEFT, new, (NamedExpression("$key", Column(BIGINT, "left_id")),), explicit=False))
    assert bench.run([(0, (1, None, ("x",))), (0, (2, (7,), ("y",)))]) == [(2, (7,), ("y", 7))]
    assert [(p.code, p.time, p.key, p.row) for p in bench.problems] == [("null-key", 1, None, ("x", None))]


def test_a_failed_condition_is_reported_with_its_row() -> None:
    node = grouped("COUNT").input
    failing = compare(math("/", lit(1, BIGINT), Column(BIGINT, "n"), BIGINT), "=", lit(1, BIGINT))
    bench = Bench(Filter(node, node.relation, failing))
    assert failing.type == BOOLEAN
    assert G.name == "g"
    assert bench.run(on_port([event(1, "a", 0), event(2, "a", 1)])) == [event(2, "a", 1)]
    assert [(p.code, p.time, p.key, p.row) for p in bench.problems] == [("expression-failed", 1, (0,), ("a", 0))]
