"""Which idle queries are suspended, and when."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from headrace.control.queries.idle import IdleTracker
from headrace.engine.progress import Progress
from headrace.lang.ksql.grammar.parser import parse_one
from headrace.lang.ksql.statements.planner import Planner
from headrace.plan.actions import CreateSource
from headrace.plan.catalog import Catalog

CLICKS = "CREATE STREAM clicks (id INT KEY, page STRING) WITH (kafka_topic='clicks', format='JSON');"
COPY = "CREATE STREAM copy AS SELECT * FROM clicks;"
FINAL = "CREATE TABLE t AS SELECT id, COUNT(*) FROM clicks WINDOW TUMBLING (SIZE 1 HOUR) GROUP BY id EMIT FINAL;"


def at_work(text: str, way: str = "record") -> Any:
    planner = Planner(Catalog())
    *_, made = [planner.plan(parse_one(statement), statement) for statement in (CLICKS, text)]
    assert isinstance(made, CreateSource)
    running = SimpleNamespace(query=made.query, execution_mode=way, progress=Progress(), is_starting=False)
    running.lag = lambda: 0
    return running


@pytest.mark.parametrize(
    ("text", "way", "batches", "deadline", "leaves"),
    [
        (COPY, "record", 1, None, True),
        (COPY, "record", 0, None, True),
        (COPY, "realtime", 1, None, False),
        (FINAL, "record", 0, None, False),  # it may wait for something from before
        (FINAL, "record", 1, None, True),
        (FINAL, "record", 1, 3_600_000, False),
    ],
)
def test_which_queries_may_be_suspended(text: str, way: str, batches: int, deadline: int | None, leaves: bool) -> None:
    now, running = [0.0], at_work(text, way)
    running.progress.batches, running.progress.deadlines = batches, {0: deadline}
    idle = IdleTracker(60.0, lambda: now[0])
    assert not idle.should_suspend(running)
    now[0] = 61.0
    assert idle.should_suspend(running) is leaves


def test_a_batch_or_new_input_restarts_the_idle_timer() -> None:
    now, running = [0.0], at_work(COPY)
    idle, never = IdleTracker(60.0, lambda: now[0]), IdleTracker(0.0, lambda: now[0])
    for tracker in (idle, never):
        assert not tracker.should_suspend(running)
    now[0], running.progress.batches = 50.0, 1
    assert not idle.should_suspend(running)
    now[0] = 70.0
    assert not idle.should_suspend(running)
    now[0] = 111.0
    running.lag = lambda: 5
    assert not idle.should_suspend(running)
    running.lag = lambda: 0
    assert idle.should_suspend(running)
    assert not never.should_suspend(running)
