"""Which queries make a result incomplete, and what is said about them."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.control.incomplete_results import notice, writers_of
from headrace.control.status import QueryStatus


def query(name: str, sink: str, source: str, state: str = "running", **figures: Any) -> QueryStatus:
    return QueryStatus(name, "", sink, sink.lower(), [source], state, **figures)


def test_a_result_depends_on_queries_before_its_own() -> None:
    queries = [query("Q1", "B", "A"), query("Q2", "C", "B"), query("Q3", "X", "A")]
    assert [one.name for one in writers_of(queries, ["C"])] == ["Q2", "Q1"]
    assert writers_of(queries, ["A"]) == []


@pytest.mark.parametrize(
    ("state", "figures", "told"),
    [
        ("starting", {"lag": 1204}, "query Q is starting, 1,204 records behind"),
        ("starting", {}, "query Q is starting"),
        ("running", {"lag": 3}, "query Q is starting, 3 records behind"),
        ("running", {"lag": 3, "batches": 1, "records": 9}, ""),
        ("failed", {"failure": {"code": "out-of-memory"}}, "query Q has failed (out-of-memory)"),
        ("paused", {}, "query Q is paused"),
        ("suspended", {"lag": 0}, ""),
    ],
)
def test_a_notice_names_the_query_and_its_state(state: str, figures: dict[str, Any], told: str) -> None:
    assert notice(query("Q", "T", "S", state, **figures)) == told
