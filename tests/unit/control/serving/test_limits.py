"""What a pull query may create and return, whatever a short statement asks for."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from headrace.control.serving.limits import QueryLimits
from headrace.control.serving.result_rows import ResultRowWriter
from headrace.errors import HeadraceError, QueryTooLarge
from headrace.plan.steps import Context, Problem
from headrace.settings import Settings
from headrace.views import pull_query
from headrace.views.pull_query import PullQuery
from headrace.views.sqlite import SqliteView
from tests.unit.views.pull_queries import asked, table, view_in

CATALOG, SOURCE = table(
    "CREATE SOURCE TABLE T (ID BIGINT PRIMARY KEY, S STRING, A ARRAY<BIGINT>) "
    "WITH (kafka_topic='t', format='JSON', partitions=1);"
)
SERIES = "TRANSFORM(GENERATE_SERIES(1, 60), x => GENERATE_SERIES(1, 1000000))"
PADS = ", ".join(f"LPAD('a', 16000000, 'b') AS C{n}" for n in range(40))
COPIES = "TRANSFORM(GENERATE_SERIES(1, 1000000), x => SUBSTRING(S, 2))"
ITEMS = ", ".join("x" * 20)
ARRAYS = f"TRANSFORM(GENERATE_SERIES(1, 1000000), x => ARRAY[{ITEMS}])"


@pytest.fixture(scope="module")
def view(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqliteView]:
    with closing(view_in(tmp_path_factory.mktemp("views"), SOURCE)) as view:
        rows = [(n, (n,), ("s" * 1_000, [n] * 10)) for n in range(100)]
        view.apply(view.state(), rows, {0: 100})
        yield view


def pulled(view: SqliteView, text: str, problems: list[Problem] | None = None, **settings: object) -> list[bytes]:
    select = asked(CATALOG, text)
    limits = QueryLimits(Settings().replace(**settings))
    context = Context(report=(problems if problems is not None else []).append)
    with PullQuery(select.query, order=select.order, context=context).over(view, limits.within_time) as found:
        return [row.text for batch in limits.render(ResultRowWriter(select), found.batches) for row in batch]


@pytest.mark.parametrize("columns", [SERIES, PADS, COPIES, ARRAYS], ids=["series", "pads", "copies", "arrays"])
def test_a_query_whose_functions_create_too_much_is_refused(view: SqliteView, columns: str) -> None:
    with pytest.raises(QueryTooLarge) as raised:
        pulled(view, f"SELECT ID, {columns} FROM T WHERE ID = 1;")
    assert raised.value.fix
    assert "query.pull_max_bytes" in raised.value.fix


def test_planning_computes_no_large_constant() -> None:
    began = time.thread_time()
    PullQuery(asked(CATALOG, f"SELECT ID, {PADS} FROM T WHERE ID = 1;").query)
    assert time.thread_time() - began < 1.0  # to compute them takes ten times as long


def test_without_that_setting_the_limit_of_a_record_stays(view: SqliteView) -> None:
    problems: list[Problem] = []
    with pytest.raises(HeadraceError):
        pulled(view, f"SELECT ID, {SERIES} FROM T WHERE ID = 1;", problems, query_pull_max_bytes=0)


def test_what_is_created_counts_for_a_thousand_rows_at_a_time(view: SqliteView) -> None:
    wide = "SELECT ID, CONCAT(S, 'x') AS C FROM T;"
    assert len(pulled(view, wide, query_pull_max_bytes=1 << 20)) == 100
    with pytest.raises(QueryTooLarge):
        pulled(view, wide, query_pull_max_bytes=100 << 10)


def test_a_result_that_is_too_large_is_refused(view: SqliteView) -> None:
    with pytest.raises(QueryTooLarge) as raised:
        pulled(view, "SELECT ID, S, S AS S2 FROM T;", query_pull_max_bytes=100 << 10)
    assert "result" in raised.value.what


SORTED = "SELECT ID, LPAD(S, 10000, '-') AS P FROM T ORDER BY P"
WIDE_ID = "LPAD(CAST(ID AS STRING), 10000, '-')"
GROUPS = f"SELECT {WIDE_ID} AS P, COUNT(*) AS N FROM T GROUP BY {WIDE_ID}"


@pytest.mark.parametrize(
    ("text", "clause"),
    [
        (f"{SORTED};", "ORDER BY"),
        (f"{SORTED} LIMIT 90;", "ORDER BY"),
        (f"{GROUPS};", "GROUP BY"),
        ("SELECT COLLECT_LIST(LPAD(S, 10000, '-')) AS L FROM T;", "GROUP BY"),
        (f"SELECT HISTOGRAM({WIDE_ID}) AS H FROM T;", "GROUP BY"),
    ],
    ids=["order-by", "order-by-limit", "group-by", "collect-list", "histogram"],
)
def test_rows_and_groups_that_are_stored_are_limited(
    view: SqliteView, monkeypatch: pytest.MonkeyPatch, text: str, clause: str
) -> None:
    monkeypatch.setattr(pull_query, "SCAN_BATCH_ROWS", 10)  # what functions create for a batch is no more than 100 KB
    assert pulled(view, text)
    with pytest.raises(QueryTooLarge) as raised:
        pulled(view, text, query_pull_max_bytes=500 << 10)
    assert f"for {clause}" in raised.value.what
    assert pulled(view, text, query_pull_max_bytes=0)


@pytest.mark.parametrize("clause", ["ORDER BY P", "GROUP BY P", "GROUP BY ID"], ids=["order", "group", "aggregate"])
def test_functions_of_sorted_and_grouped_rows_are_refused_and_not_null(view: SqliteView, clause: str) -> None:
    """168 MB are more than a record may create, and less than this query."""
    wide = " + ".join(f"LEN(LPAD(S, {14_000_000 + n}, 'b'))" for n in range(12))
    parts = {
        "ORDER BY P": f"SELECT ID, {wide} AS P FROM T WHERE ID = 1 ORDER BY P;",
        "GROUP BY P": f"SELECT {wide} AS P, COUNT(*) AS N FROM T WHERE ID = 1 GROUP BY {wide};",
        "GROUP BY ID": f"SELECT ID, SUM({wide}) AS P FROM T WHERE ID = 1 GROUP BY ID;",
    }
    (row,) = pulled(view, parts[clause], query_pull_max_bytes=2 << 30)
    assert b"168000066" in row
    with pytest.raises(QueryTooLarge):
        pulled(view, parts[clause], query_pull_max_bytes=20 << 20)


def test_an_aggregate_of_many_rows_that_stores_little_is_answered(
    view: SqliteView, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pull_query, "SCAN_BATCH_ROWS", 10)
    text = f"SELECT SUM(LEN({WIDE_ID})) AS W, AVG(ID) AS A, COUNT(*) AS N FROM T;"
    (row,) = pulled(view, text, query_pull_max_bytes=500 << 10)
    assert row.endswith(b",100]")


def test_ordinary_functions_and_lambdas_are_not_refused(view: SqliteView, tmp_path: Path) -> None:
    text = "SELECT ID, TRANSFORM(A, x => x + 1) AS U, LPAD(S, 100000, '-') AS P FROM T WHERE ID = 3;"
    (row,) = pulled(view, text)
    assert row.startswith(b"[3,[4,4")
