"""A prepared pull query gives the same result as the same query planned from its text, for any values."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.control.serving.prepared import PreparedQueryCache
from headrace.control.serving.result_rows import ResultRowWriter
from headrace.lang.ksql.query.prepared import parameterize
from headrace.lang.registry import dialect_of
from headrace.views.pull_query import PullQuery
from tests.unit.views.pull_queries import asked, view_in
from tests.unit.views.test_pull_query import CATALOG, SOURCE, conditions, numbers, rows


def preparing() -> PreparedQueryCache:
    dialect = dialect_of()
    return PreparedQueryCache(dialect, lambda text, values: dialect.plan_parameterized(text, values, CATALOG))


def said(pull: PullQuery, view: Any, made: ResultRowWriter) -> list[str]:
    with pull.over(view) as found:
        return sorted(repr(row) for batch in found.batches for row in made.render(batch))


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(numbers, rows, max_size=8), st.lists(conditions, min_size=1, max_size=4))
def test_a_prepared_query_gives_the_result_of_the_planned_query(table: dict[int, Any], asked_for: list[str]) -> None:
    prepared = preparing()
    with TemporaryDirectory() as folder, closing(view_in(Path(folder), SOURCE)) as view:
        view.apply(view.state(), [(abs(key), (key,), row) for key, row in table.items()], {0: 1})
        for condition in [*asked_for, *asked_for]:
            text = f"SELECT * FROM T WHERE {condition};"
            ask = asked(CATALOG, text)
            with prepared.borrow(text) as question:
                if question is not None:
                    assert said(question.pull, view, question.rows) == said(
                        PullQuery(ask.query), view, ResultRowWriter(ask)
                    )


@pytest.mark.parametrize(
    ("text", "shape", "values"),
    [
        ("SELECT 1 FROM t WHERE a = 'x''y' LIMIT 5;", "SELECT 1 FROM t WHERE a = ?str LIMIT 5;", ["x'y"]),
        (
            "SELECT * FROM t where a1 = 7 AND b IN (1, 2.5)",
            "SELECT * FROM t where a1 = ?int AND b IN (?int, 2.5)",
            [7, 1],
        ),
        ('SELECT * FROM t WHERE "a 1" = 1 -- 2\n', 'SELECT * FROM t WHERE "a 1" = ?int -- 2\n', [1]),
        ("SELECT * FROM t WHERE a = 99999999999", "SELECT * FROM t WHERE a = 99999999999", []),
        ("SELECT * FROM t WHERE a = '${v}'", None, None),
    ],
)
def test_queries_that_differ_in_literals_share_a_shape(text: str, shape: str | None, values: Any) -> None:
    assert parameterize(text) == (None if shape is None else (shape, values))


def test_each_concurrent_client_of_a_shape_gets_its_own_prepared_query() -> None:
    prepared = preparing()
    with (
        prepared.borrow("SELECT * FROM T WHERE ID = 1;") as one,
        prepared.borrow("SELECT * FROM T WHERE ID = 2;") as two,
    ):
        assert one is not None
        assert two is not None
        assert [cell.value for question in (one, two) for cell in question.cells] == [1, 2]
    with prepared.borrow("SELECT * FROM T WHERE ID = 3;") as again:
        assert again in (one, two)
    prepared.clear()
    with prepared.borrow("SELECT * FROM T WHERE ID = 3;") as new:
        assert new not in (one, two)


def test_only_a_prepared_lookup_of_few_rows_is_ready() -> None:
    prepared = preparing()
    for text, there in (("SELECT * FROM T WHERE ID = 1;", True), ("SELECT * FROM T WHERE ID > 1;", False)):
        with prepared.borrow(text, ready_only=True) as question:
            assert question is None
        with prepared.borrow(text) as made:
            assert made is not None
        with prepared.borrow(text, ready_only=True) as question:
            assert (question is made) is there


@pytest.mark.parametrize("condition", ["DA = '1970-01-02'", "S LIKE 'a!%' ESCAPE '!'", "ID = 'x'", "NOTHING = 1"])
def test_a_query_whose_plan_depends_on_its_literals_is_not_prepared(condition: str) -> None:
    with preparing().borrow(f"SELECT * FROM T WHERE {condition};") as question:
        assert question is None
