"""Pull queries on a view: lookup and chain together give the rows that the chain gives over all rows."""

from __future__ import annotations

import math
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.errors import BadQuery, Unsupported
from headrace.plan.analysis.lookup import EVERYTHING, extract_selection
from headrace.plan.expressions import Column
from headrace.plan.types import BIGINT, STRING
from headrace.views.pull_query import PullQuery
from tests.unit.views.pull_queries import WINDOWED, answer, asked, planned, table, view_in

ROWS = """
CREATE SOURCE TABLE T (ID BIGINT PRIMARY KEY, S STRING, D DOUBLE, P DECIMAL(6, 2), W DECIMAL(22, 2), B BOOLEAN, DA DATE,
  X INT) WITH (kafka_topic='t', format='JSON', partitions=1);
"""
CATALOG, SOURCE = table(ROWS)
numbers = st.integers(-3, 3)
_decimals = st.none() | st.integers(-300, 300).map(lambda n: Decimal(n).scaleb(-2))
rows = st.tuples(
    st.sampled_from([None, "", "a", "ab", "b", "é", "￿", "\U0001f600"]),
    st.none() | st.sampled_from([0.0, -0.0, 0.5, -1.5, 2.0, math.nan, math.inf]),
    _decimals,
    _decimals,
    st.sampled_from([None, True, False]),
    st.none() | st.integers(-2, 2),
    st.none() | numbers,
)
_constants = st.sampled_from(["-1", "0", "2", "0.5", "-1.5", "1.005", "2.0", "1E0", "3000000000"])
_numeric = st.builds(
    "{} {} {}".format,
    st.sampled_from(["ID", "D", "P", "W", "X", "ROWTIME", "X + 1", "ID * D"]),
    st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"]),
    _constants,
)
_turned = st.builds("{} {} {}".format, _constants, st.sampled_from(["=", "<", ">="]), st.sampled_from(["ID", "D", "P"]))
_lists = st.builds(
    "{} IN ({})".format, st.sampled_from(["ID", "X", "D"]), st.lists(_constants, min_size=1).map(", ".join)
)
_others = st.sampled_from(
    ["S = 'a'", "S > 'a'", "S <= '\U0001f600'", "S LIKE 'a%'", "S IN ('a', 'é')", "B = true", "B", "S IS NULL",
     "DA = '1970-01-02'", "DA > '1969-12-31'", "ID BETWEEN -1 AND 1", "NOT (ID = 1)", "LEN(S) > 1", "X = ID",
     "D / X > 1"]
)  # fmt: skip
_leaves = _numeric | _turned | _lists | _others
conditions = st.recursive(
    _leaves, lambda inner: st.builds("({} {} {})".format, inner, st.sampled_from(["AND", "OR"]), inner), max_leaves=8
)


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(numbers, rows, max_size=8), conditions, st.booleans())
def test_a_selection_contains_every_matching_row(rows: dict[int, Any], condition: str, indexed: bool) -> None:
    query = asked(CATALOG, f"SELECT * FROM T WHERE {condition};").query
    with TemporaryDirectory() as folder, closing(view_in(Path(folder), SOURCE)) as view:
        view.apply(view.state(), [(abs(key), (key,), row) for key, row in rows.items()], {0: 1})
        for column in ("S", "D", "P", "W", "X") if indexed else ():
            view.create_index([column])
        looked_up, tried = PullQuery(query), PullQuery(query)
        tried.selection = EVERYTHING
        assert _said(looked_up, view) == _said(tried, view)


def _said(pull: PullQuery, view: Any) -> list[str]:
    with pull.over(view) as found:
        return sorted(repr(row) for batch in found.batches for row in batch)


@pytest.mark.parametrize(
    ("condition", "wanted"),
    [
        ("ID = 1", [[("ID", "=", (1,))]]),
        ("1 < ID AND S = 'a' AND LEN(S) = 1", [[("ID", ">", (1,)), ("S", "=", ("a",))]]),
        ("ID = 1 OR ID = 2 OR ID IN (3, 4)", [[("ID", "=", (1, 2, 3, 4))]]),
        ("ID = 1 OR S = 'a'", [[("ID", "=", (1,))], [("S", "=", ("a",))]]),
        ("ID = 1 OR LEN(S) = 1", [[]]),
        ("(ID = 1 OR S = 'a') AND X < 2",
         [[("ID", "=", (1,)), ("X", "<", (2,))], [("S", "=", ("a",)), ("X", "<", (2,))]]),
        ("ID BETWEEN 1 AND 2", [[("ID", ">=", (1,)), ("ID", "<=", (2,))]]),
        ("ID <> 1", [[]]),
        ("DA = '1970-01-02'", [[("DA", "=", (1,))]]),
    ],
)  # fmt: skip
def test_conditions_that_are_looked_up(condition: str, wanted: Any) -> None:
    found = PullQuery(asked(CATALOG, f"SELECT * FROM T WHERE {condition};").query).selection
    assert [[(b.column, str(b.op), b.values) for b in alternative] for alternative in found.alternatives] == wanted


@pytest.mark.parametrize(
    ("condition", "lookup"),
    [("ID = 1", True), ("ID IN (1, 2) AND S = 'a'", True), ("ID = 1 OR ID = 2", True), ("ID > 1", False),
     ("ID = 1 OR S = 'a'", False), ("S = 'a'", False), (f"ID IN ({', '.join(map(str, range(65)))})", False),
     ("ID = 1.5", False)],
)  # fmt: skip
def test_which_conditions_are_lookups(condition: str, lookup: bool) -> None:
    assert PullQuery(asked(CATALOG, f"SELECT * FROM T WHERE {condition};").query).is_lookup is lookup


def test_a_part_of_a_key_may_match_many_rows() -> None:
    catalog, _ = table(WINDOWED)
    assert not PullQuery(asked(catalog, "SELECT * FROM T WHERE ID = 'a';").query).is_lookup


def test_a_condition_with_too_many_alternatives_is_not_expanded() -> None:
    condition = " AND ".join(f"(ID = {i} OR X = {i})" for i in range(12))
    query = asked(CATALOG, f"SELECT * FROM T WHERE {condition};").query
    assert 1 < len(PullQuery(query).selection.alternatives) <= 64
    assert extract_selection(None) == EVERYTHING


@pytest.fixture
def view(tmp_path: Path) -> Any:
    with closing(view_in(tmp_path, SOURCE)) as view:
        rows = [(name, number, None, None, None, None, i % 3) for i, (name, number) in enumerate(zip("bacd", (1.0, None, 3.0, math.nan), strict=True))]  # fmt: skip  # noqa: E501
        view.apply(view.state(), [(i, (i,), row) for i, row in enumerate(rows)], {0: 4})
        yield view


def test_a_projection_and_a_lambda(view: Any) -> None:
    found = answer(CATALOG, view, "SELECT S, TRANSFORM(ARRAY[X], x => x + 1) AS L FROM T WHERE ID >= 2;")
    assert [(key, row) for _, key, row in found] == [((2,), ("c", [3])), ((3,), ("d", [1]))]


def test_grouping_in_a_pull_query(view: Any) -> None:
    found = answer(CATALOG, view, "SELECT X, COUNT(*) AS N, SUM(ID) AS T FROM T WHERE ID < 9 GROUP BY X;")
    assert sorted((key, row) for _, key, row in found) == [((0,), (2, 3)), ((1,), (1, 1)), ((2,), (1, 2))]
    found = answer(CATALOG, view, "SELECT X, COUNT(*) AS N FROM T GROUP BY X HAVING COUNT(*) < 2;")
    assert sorted((key, row) for _, key, row in found) == [((1,), (1,)), ((2,), (1,))]
    assert len(answer(CATALOG, view, "SELECT X, COUNT(*) AS N FROM T GROUP BY X;", limit=1)) == 1


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("SELECT COUNT(*) AS N, SUM(ID) AS T, AVG(X) AS A FROM T{};", [(0, None, None)]),
        ("SELECT COUNT(S) + 1 AS N, COALESCE(SUM(ID), CAST(-1 AS BIGINT)) AS T FROM T{};", [(1, -1)]),
        ("SELECT COUNT(*) AS N FROM T{} HAVING COUNT(*) > 0;", []),
        ("SELECT COUNT(*) AS N FROM T{} HAVING COUNT(*) = 0;", [(0,)]),
        ("SELECT X, COUNT(*) AS N FROM T{} GROUP BY X;", []),
        ("SELECT COUNT(*) AS N FROM T{} LIMIT 0;", []),
    ],
)
def test_aggregates_over_no_rows(view: Any, tmp_path: Path, text: str, rows: list[Any]) -> None:
    assert [row for _, _, row in answer(CATALOG, view, text.format(" WHERE ID > 9"))] == rows
    with closing(view_in(tmp_path / "other", SOURCE)) as empty:
        assert [row for _, _, row in answer(CATALOG, empty, text.format(""))] == rows


def test_a_group_that_having_rejects_is_not_an_empty_result(view: Any) -> None:
    assert not answer(CATALOG, view, "SELECT COUNT(*) AS N FROM T HAVING COUNT(*) < 4;")
    assert not answer(CATALOG, view, "SELECT COUNT(*) AS N FROM T HAVING COUNT(*) = 0;")


def test_a_sum_that_overflows_is_an_error(view: Any) -> None:
    with pytest.raises(BadQuery, match="no place in DECIMAL"):
        answer(CATALOG, view, "SELECT SUM(CAST(ID * 2 AS DECIMAL(1, 0))) AS T FROM T;")


@pytest.mark.parametrize("limit", [None, 3])
def test_order_by_sorts_nulls_last(view: Any, limit: int | None) -> None:
    order = [(Column(BIGINT, "X"), True), (Column(STRING, "S"), False)]
    found = answer(CATALOG, view, "SELECT ID, S, X FROM T;", order, limit=limit)
    assert [row for _, _, row in found] == [("c", 2), ("a", 1), ("b", 0), ("d", 0)][:limit]


@pytest.mark.parametrize("limit", [0, 1, 3, 9])
def test_a_limit_reads_no_further_rows(view: Any, limit: int) -> None:
    assert len(answer(CATALOG, view, f"SELECT * FROM T LIMIT {limit};")) == min(limit, 4)


def test_a_result_has_the_position_and_version_of_the_view(view: Any) -> None:
    with PullQuery(asked(CATALOG, "SELECT * FROM T;").query).over(view) as found:
        assert (found.state.position, found.state.version) == ({0: 4}, 1)
        assert found.relation.kind.value == "table"


def test_windows_are_selected_by_their_bounds(tmp_path: Path) -> None:
    catalog, source = table(WINDOWED)
    with closing(view_in(tmp_path, source)) as view:
        view.apply(view.state(), [(i, ("a", (i, i + 10)), (i,)) for i in range(0, 50, 10)], {0: 5})
        text = "SELECT ID, WINDOWSTART AS WS, N FROM T WHERE ID = 'a' AND WINDOWSTART >= 10 AND WINDOWEND < 40;"
        assert [row for _, _, row in answer(catalog, view, text)] == [(10, 10), (20, 20)]
        text = "SELECT N FROM T WHERE ID = 'a' AND WINDOWSTART = '1970-01-01T00:00:00.020';"
        assert [row for _, _, row in answer(catalog, view, text)] == [(20,)]


@pytest.mark.parametrize(
    "text",
    ["SELECT T.ID, U.N FROM T JOIN U ON T.ID = U.ID;", "SELECT * FROM S;", "SELECT ID, ROWPARTITION AS P FROM T;"],
)
def test_unsupported_pull_queries_are_refused(text: str) -> None:
    catalog, _ = table(ROWS)
    planned(
        "CREATE TABLE U (ID BIGINT PRIMARY KEY, N INT) WITH (kafka_topic='u', format='JSON', partitions=1);"
        "CREATE STREAM S (N INT) WITH (kafka_topic='s', format='JSON', partitions=1);",
        catalog,
    )
    with pytest.raises((BadQuery, Unsupported)):
        PullQuery(asked(catalog, text).query)
