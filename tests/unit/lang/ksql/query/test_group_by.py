"""GROUP BY: the key and the aggregates of a table, and what has no single value per group."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import BadGrouping, BadQuery, BadWindow, StatementError
from headrace.plan import nodes
from headrace.plan.relations import WindowKind
from tests.ksql_strategies import planned
from tests.unit.lang.ksql.query.test_joins import error_of

TUMBLING = "WINDOW TUMBLING (SIZE 1 HOUR)"


def table(select: str, rest: str) -> nodes.Query:
    return planned(f"CREATE TABLE x AS SELECT {select} FROM {rest};")


def aggregate(query: nodes.Query) -> nodes.Aggregate:
    (found,) = (node for node in nodes.walk(query.sink) if isinstance(node, nodes.Aggregate))
    return found


def columns(query: nodes.Query) -> tuple[list[str], list[str]]:
    relation = query.sink.relation
    return [field.name for field in relation.key], [field.name for field in relation.value]


@pytest.mark.parametrize(
    ("select", "groups", "key", "value"),
    [
        ("a, COUNT(*) AS n", "a", ["A"], ["N"]),
        ("COUNT(*) AS n, b, a", "a, b", ["A", "B"], ["N"]),  # the key is in the order of GROUP BY
        ("a + 1 AS k, COUNT(*) AS n", "a + 1", ["K"], ["N"]),
        ("a + 1 AS k, (a + 1) * 2 AS d, COUNT(*) + a + 1 AS n", "a + 1", None, None),
        ("a + 1 AS k, (a + 1) * 2 AS d, COUNT(*) AS n", "a + 1", ["K"], ["D", "N"]),
        ("UCASE(b) AS u, LEN(UCASE(b)) AS l, COUNT(*) AS n", "UCASE(b)", ["U"], ["L", "N"]),
    ],
)
def test_expressions_over_groups_and_aggregates_are_columns(
    select: str, groups: str, key: list[str] | None, value: list[str] | None
) -> None:
    if key is None:  # `COUNT(*) + a + 1` is `(COUNT(*) + a) + 1`, which contains no group
        assert isinstance(error_of(f"CREATE TABLE x AS SELECT {select} FROM s GROUP BY {groups};"), BadGrouping)
    else:
        assert columns(table(select, f"s GROUP BY {groups}")) == (key, value)


CALLS = {
    "COUNT(*)": ("COUNT", ()),
    "SUM(a)": ("SUM", ("A",)),
    "SUM(c)": ("SUM", ("C",)),
    "MAX(a)": ("MAX", ("A",)),
    "COLLECT_LIST(b)": ("COLLECT_LIST", ("B",)),
}


@given(
    selected=st.lists(st.sampled_from(list(CALLS)), min_size=1, max_size=6),
    having=st.lists(st.sampled_from([call for call in CALLS if call != "COLLECT_LIST(b)"]), max_size=3),
)
def test_an_aggregate_that_is_written_several_times_is_computed_once(selected: list[str], having: list[str]) -> None:
    select = ", ".join(f"{call} AS c{n}" for n, call in enumerate(selected))
    condition = f" HAVING {' AND '.join(f'{call} > 1' for call in having)}" if having else ""
    query = table(f"id, {select}", f"s GROUP BY id{condition}")
    computed = [(call.function, tuple(one.name for one in call.arguments)) for call in aggregate(query).calls]  # pyright: ignore[reportAttributeAccessIssue]
    assert sorted(computed) == sorted({CALLS[call] for call in (*selected, *having)})
    assert columns(query) == (["ID"], [f"C{n}" for n in range(len(selected))])
    filters = [node for node in nodes.walk(query.sink) if isinstance(node, nodes.Filter)]
    assert len(filters) == bool(having)


def test_a_table_is_aggregated_by_functions_that_can_take_a_row_back() -> None:
    assert columns(table("v, COUNT(*) AS n, SUM(id) AS s", "t GROUP BY v")) == (["V"], ["N", "S"])
    error = error_of("CREATE TABLE x AS SELECT v, MAX(v), COUNT(*), LATEST_BY_OFFSET(w) FROM t GROUP BY v;")
    assert "functions MAX and LATEST_BY_OFFSET cannot be applied to a table source" in error.what


def test_windows_of_groups_have_their_bounds_in_select() -> None:
    query = table("a, WINDOWSTART AS ws, WINDOWEND AS we, COUNT(*) AS n", f"s {TUMBLING} GROUP BY a")
    assert columns(query) == (["A"], ["WS", "WE", "N"])
    window = query.sink.relation.window
    assert window is not None
    assert (window.kind, window.size) == (WindowKind.TUMBLING, timedelta(hours=1))


@pytest.mark.parametrize(("grace", "expected"), [("", 0), (", GRACE PERIOD 2 MINUTES", 2)])
def test_final_results_without_a_grace_come_when_the_window_ends(grace: str, expected: int) -> None:
    query = table("a, COUNT(*) AS n", f"s WINDOW TUMBLING (SIZE 1 HOUR{grace}) GROUP BY a EMIT FINAL")
    window = aggregate(query).relation.window
    assert window is not None
    assert window.grace == timedelta(minutes=expected)


@pytest.mark.parametrize(
    ("rest", "error", "said"),
    [
        ("a FROM s GROUP BY a, a", BadGrouping, "Duplicate GROUP BY expression: S.A"),
        ("a + 2 AS k, COUNT(*) FROM s GROUP BY a + 1", BadGrouping, "not part of GROUP BY: (A + 2)"),
        ("a, COUNT(*) FROM s GROUP BY a HAVING b = 'x'", BadGrouping, "B"),
        ("a, COUNT(*) FROM s GROUP BY SUM(a)", BadGrouping, "does not support aggregate functions"),
        ("a, COUNT(*) FROM s GROUP BY a EMIT FINAL", BadQuery, "windowed aggregations"),
        (f"v, COUNT(*) FROM t {TUMBLING} GROUP BY v", BadWindow, "only supported for streams"),
        (
            f"a, COUNT(*) FROM s {TUMBLING} GROUP BY WINDOWSTART",
            BadWindow,
            "WINDOWSTART can only be used in the SELECT",
        ),
        (f"a, SUM(WINDOWSTART) FROM s {TUMBLING} GROUP BY a", BadWindow, "can not be passed to aggregate functions"),
        ("a, TOPK(a, id) FROM s GROUP BY a", BadGrouping, "must be a literal"),
    ],
)
def test_what_has_no_value_per_group_is_refused_with_its_place(
    rest: str, error: type[StatementError], said: str
) -> None:
    refused = error_of(f"CREATE TABLE x AS SELECT {rest};")
    assert isinstance(refused, error), refused
    assert said in refused.what
