"""Running queries of a server: across successive statements, lost processes and restarts."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import psutil
import pytest

from headrace.control.node import Node
from headrace.control.workers import isolation
from headrace.control.workers.process import WorkerQueryHandle
from headrace.lang.python.app_code import AppCode
from headrace.log.embedded import EmbeddedLog
from headrace.plan import operators
from headrace.plan.functions import user_functions, withdraw
from headrace.settings import Settings
from tests import memory_and_spark
from tests.spark.test_program import NUMBERS, SUMS, insert, values
from tests.wait import wait_until

pytestmark = pytest.mark.server


def until_sums(node: Node, log: EmbeddedLog, *totals: int) -> None:
    """Wait until just these have been written."""
    wanted = [{"TOTAL": total} for total in totals]
    wait_until(lambda: values(log, "SUMS") == wanted, lambda: (values(log, "SUMS"), node.reconciler.failures))


def test_queries_resume_after_the_loss_of_any_process(tmp_path: Path) -> None:
    settings: Settings = memory_and_spark.settings(tmp_path, query_execution_mode="record", query_emit="per-record")
    with EmbeddedLog(settings.storage.data, settings) as log:
        with Node(log, settings) as node:
            node.execute(NUMBERS + SUMS)
            node.execute(insert(1))
            until_sums(node, log, 1)
            (running,) = node.supervisor.running.values()
            assert isinstance(running, WorkerQueryHandle)
            psutil.Process(running.pid).kill()
            node.execute(insert(2))
            until_sums(node, log, 1, 3)
            (failed,) = node.reconciler.failures.values()
            assert failed.error.code == "process-lost"
        with Node(log, settings) as node:
            node.execute("PAUSE CTAS_SUMS_1;" + insert(3))
        with Node(log, settings) as node:
            assert (list(node.supervisor.queries), node.supervisor.paused) == (["CTAS_SUMS_1"], {"CTAS_SUMS_1"})
            node.execute("RESUME CTAS_SUMS_1;")
            until_sums(node, log, 1, 3, 6)
            node.execute("DROP TABLE sums DELETE TOPIC;" + SUMS)
            until_sums(node, log, 1, 3, 6)
            assert list(node.supervisor.queries) == ["CTAS_SUMS_5"]
        assert not (settings.storage.data / "checkpoints" / "server" / "CTAS_SUMS_1").exists()


def test_an_idle_query_is_suspended_and_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(isolation, "_MAX_STARTS", 1)
    caplog.set_level("INFO", logger="headrace.control")
    settings: Settings = memory_and_spark.settings(
        tmp_path,
        query_execution_mode="record",
        query_emit="per-record",
        query_suspend_after=timedelta(milliseconds=500),
    )
    with EmbeddedLog(settings.storage.data, settings) as log:
        for first in (True, False):
            with Node(log, settings) as node:
                if first:
                    node.execute(NUMBERS + SUMS + insert(1))
                    until_sums(node, log, 1)
                wait_until(lambda node=node: "CTAS_SUMS_1" in node.reconciler.suspended and not node.supervisor.running)
                node.execute(insert(2))
                until_sums(node, log, *((1, 3) if first else (1, 3, 5)))
                if first:
                    wait_until(lambda: "many queries and is restarted" in caplog.text)


APP = '''
import headrace as hr

app = hr.App("shop")

@app.function
def marked(n: int) -> str:
    return f"<{n}>"

class Running(hr.Operator):
    """The sum of all numbers of a key so far."""

    output = "total BIGINT"

    def on_event(self, event, ctx):
        ctx.state = (ctx.state or 0) + event.n
        ctx.emit(total=ctx.state)

numbers = app.stream("numbers", "k INT KEY, n BIGINT", topic="numbers")
numbers.select("k", text=marked(hr.col.n)).to_stream("texts")
numbers.operate(Running).to_stream("totals")
'''


def test_a_deployed_app_runs_and_its_code_is_replaced(tmp_path: Path) -> None:
    settings: Settings = memory_and_spark.settings(tmp_path, query_execution_mode="record", query_emit="per-record")
    try:
        with EmbeddedLog(settings.storage.data, settings) as log:

            def comes(topic: str, *wanted: object) -> None:
                wait_until(
                    lambda: [next(iter(row.values())) for row in values(log, topic) if row] == list(wanted),
                    lambda: (topic, values(log, topic), node.reconciler.failures),
                )

            with Node(log, settings) as node:
                node.deploy(AppCode(APP))
                node.execute(insert(1))
                comes("TEXTS", "<1>")
                comes("TOTALS", 1)
                node.deploy(AppCode(APP.replace('f"<{n}>"', 'f"[{n}]"')))
                node.execute(insert(2))
                comes("TEXTS", "<1>", "[2]")
            with Node(log, settings) as node:
                node.execute(insert(3))
                comes("TEXTS", "<1>", "[2]", "[3]")
                comes("TOTALS", 1, 3, 6)
    finally:
        withdraw(user_functions())
        operators.withdraw(operators.OPERATORS["RUNNING"])
