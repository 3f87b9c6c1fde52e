"""Statements take turns: long waits are reported, and none is endless."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from headrace.control.statements.order import StatementOrder
from headrace.errors import ServerBusy
from headrace.long_waits import LONG_WAITS, WaitStatistics
from tests.wait import wait_until

ORDER = "order of statements"


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as pool:
        yield pool


def hold(order: StatementOrder, taken: Event, until: Event) -> None:
    with order.turn("CREATE   STREAM\nslow"):
        taken.set()
        until.wait(30)


def test_a_long_wait_is_reported_with_the_statement_that_is_waited_for(
    pool: ThreadPoolExecutor, caplog: pytest.LogCaptureFixture
) -> None:
    order, taken, until = StatementOrder(report_after=0.01), Event(), Event()
    holder = pool.submit(hold, order, taken, until)
    taken.wait(30)

    def waits() -> None:
        with order.turn("DROP STREAM s"):
            pass

    before = LONG_WAITS.statistics().get(ORDER, WaitStatistics()).count
    waiting = pool.submit(waits)
    wait_until(lambda: '"DROP STREAM s" waits for "CREATE STREAM slow"' in caplog.text)
    (wait,) = LONG_WAITS.current()
    assert (wait.what, wait.waiter, wait.holder) == (ORDER, "DROP STREAM s", "CREATE STREAM slow")
    until.set()
    waiting.result(30)
    holder.result(30)
    assert (LONG_WAITS.statistics()[ORDER].count, LONG_WAITS.current()) == (before + 1, [])
    assert '"DROP STREAM s" waited for' in caplog.text


def test_a_wait_ends_at_the_timeout_with_an_error_that_hides_the_statements_of_others(pool: ThreadPoolExecutor) -> None:
    order, taken, until = StatementOrder(report_after=0.01, timeout=0.05), Event(), Event()
    holder = pool.submit(hold, order, taken, until)
    taken.wait(30)
    with pytest.raises(ServerBusy, match=ORDER) as refused, order.turn("DROP STREAM s"):
        pass
    assert "CREATE STREAM slow" not in str(refused.value)
    until.set()
    holder.result(30)
    with order.turn("DROP STREAM s"), order.turn("one of its own"):
        pass
