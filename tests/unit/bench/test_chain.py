"""Table `chain` compares like with like: a query and its loop give the same entries."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.harness.case import Work
from bench.tables import chain_loops, chain_queries
from bench.tables.chain_rows import purchases

WORK = Work({"records": 2_000, "batch_rows": 300, "users": 20}, Path())


@pytest.mark.parametrize("name", ["filter", "keyed_count", "windowed_count", "stream_table_join"])
def test_a_query_and_its_loop_give_the_same_entries(name: str) -> None:
    query, loop = getattr(chain_queries, name)(WORK), getattr(chain_loops, name)(WORK)
    for batch in purchases(WORK):
        assert query(batch) == loop(batch)
