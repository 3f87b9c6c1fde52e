"""What a worker does once for a query, and not for each key group and batch."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.engine.record import chain_operator, stateful_processor
from headrace.engine.record.chain_operator import run_records, unchanged
from headrace.engine.record.shuffle.payloads import read_payloads
from headrace.engine.record.stateful_processor import KeyGroupProcessor
from headrace.engine.record.task_spec import RecordTaskSpec, record_task_spec
from headrace.engine.task_report import TaskReport
from headrace.plan.analysis.record_layout import RecordLayout
from headrace.testing.world import World


@pytest.fixture
def spec() -> RecordTaskSpec:
    world = World()
    world.execute("CREATE STREAM orders (id INT KEY, city STRING) WITH (kafka_topic='orders', format='JSON');")
    world.execute("CREATE TABLE sales AS SELECT city, COUNT(*) AS n FROM orders GROUP BY city;")
    (running,) = world.running.values()
    return record_task_spec(running.query, (RecordLayout("orders"), RecordLayout("ticks")), "ticks")


def test_a_plan_is_optimized_once(spec: RecordTaskSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    optimized = list[Any]()
    optimize = chain_operator.optimize
    monkeypatch.setattr(chain_operator, "optimize", lambda query: optimized.append(query) or optimize(query))
    chain_operator._optimized.cache_clear()
    for key_group in range(3):
        run_records(spec, read_payloads([], spec), lambda name: {}, TaskReport(key_group))
    assert len(optimized) == 1


def test_a_query_is_deserialized_once(spec: RecordTaskSpec) -> None:
    processor = KeyGroupProcessor(spec, unchanged)
    first, again = (stateful_processor._loaded(processor._query) for _ in range(2))
    assert first is again
    assert first[0] == spec
