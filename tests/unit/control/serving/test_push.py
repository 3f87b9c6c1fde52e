"""Concurrent push queries: a slow one does not delay the others."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator

import pytest

from headrace.contracts import Append
from headrace.control.node import Node
from headrace.control.serving import push
from headrace.control.serving.push import PushFeed, PushSubscription
from headrace.control.serving.result_rows import ResultRowWriter
from headrace.control.serving.transient_query import TransientQuery
from headrace.errors import QueryTimeLimitExceeded
from headrace.log.embedded import EmbeddedLog
from headrace.record import Record
from headrace.settings import Settings
from tests.unit.control.test_node import Nowhere
from tests.wait import wait_until

STREAM = "CREATE STREAM texts (text STRING) WITH (kafka_topic='texts', format='JSON', partitions=1);"
SLOW = "SELECT text FROM texts WHERE REGEXP_EXTRACT('(a|aa)+$', text) IS NULL EMIT CHANGES;"
QUICK = "SELECT text FROM texts EMIT CHANGES;"
HARD, MANY = "a" * 60 + "!", 1_000


@pytest.fixture
def node(log: EmbeddedLog, settings: Settings) -> Iterator[Node]:
    with Node(log, settings, isolation=Nowhere()) as node:
        node.execute(STREAM)
        yield node


def asked(
    node: Node, text: str, news: threading.Event | None = None, *, from_beginning: bool = True
) -> PushSubscription:
    notify = (news or threading.Event()).set
    return node.push_queries.subscribe(node.plan_select(text), from_beginning=from_beginning, notify=notify)


def append(node: Node, *texts: str) -> None:
    node.log.append([Append("texts", [Record(json.dumps({"TEXT": text}).encode()) for text in texts])])


def test_a_slow_push_query_does_not_delay_others(node: Node) -> None:
    """Each of its records takes half a second: all would take minutes."""
    append(node, *[HARD] * MANY)
    asked(node, SLOW)
    news = threading.Event()
    quick = asked(node, QUICK, news, from_beginning=False)
    began = time.monotonic()
    for n in range(3):
        append(node, f"row {n}")
        assert news.wait(60)
        news.clear()
        assert f"row {n}" in str(quick.take())
    assert time.monotonic() - began < 60


def test_a_push_query_that_exceeds_its_cpu_budget_is_stopped(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(push, "_CPU_BUDGET", 1.0)
    quick, slow = asked(node, QUICK), asked(node, SLOW)
    append(node, *[HARD] * MANY)
    wait_until(lambda: slow.ended)
    assert isinstance(slow.failure, QueryTimeLimitExceeded)
    rows = []
    wait_until(lambda: rows.extend(quick.take()) or len(rows) == MANY)
    assert not quick.ended


def test_a_push_query_with_a_large_backlog_is_not_stopped(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long that takes: it gives the others their turns."""
    monkeypatch.setattr(push, "_CPU_BUDGET", 1.0)  # one turn may be slow, on a machine that has others to do
    for _ in range(60):
        append(node, *(f"row {n}" for n in range(MANY)))
    news, taken = threading.Event(), 0
    reader = asked(node, QUICK, news)
    while taken < 60 * MANY:
        assert news.wait(60)
        news.clear()
        taken += len(reader.take())
    assert not reader.ended


@pytest.mark.parametrize("timed", [False, True])
def test_a_feed_without_records_says_so_and_can_sleep(node: Node, timed: bool) -> None:
    select = node.plan_select(QUICK)
    follower = TransientQuery(node.log, select.query, from_beginning=True)
    feed = PushFeed(follower, ResultRowWriter(select), timed, readers=(PushSubscription(None, lambda: None),))
    assert not feed.step(1)
    append(node, "a row")
    assert [feed.step(now) for now in (2, 3, 4)] == [True, False, False]
