"""A server's queries at work: over statements that come one by one, lost processes and restarts."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import psutil

from headrace.control.apart import QueryApart
from headrace.control.node import Node
from headrace.log.embedded import EmbeddedLog
from headrace.settings import Settings
from tests import streams
from tests.spark.test_program import NUMBERS, SUMS, insert, values
from tests.waiting import until


def until_sums(node: Node, log: EmbeddedLog, *totals: int) -> None:
    """Wait until just these have been written."""
    wanted = [{"TOTAL": total} for total in totals]
    until(lambda: values(log, "SUMS") == wanted, lambda: (values(log, "SUMS"), node.setbacks))


def test_queries_go_on_whatever_dies(tmp_path: Path) -> None:
    settings: Settings = streams.settings(tmp_path, way="record", changes="record")
    with EmbeddedLog(settings.data, settings) as log:
        with Node(log, settings) as node:
            node.execute(NUMBERS + SUMS)
            node.execute(insert(1))
            until_sums(node, log, 1)
            (running,) = node.supervisor.running.values()
            assert isinstance(running, QueryApart)
            psutil.Process(running.pid).kill()
            node.execute(insert(2))
            until_sums(node, log, 1, 3)
            (setback,) = node.setbacks.values()
            assert setback.failure.code == "process-lost"
        with Node(log, settings) as node:
            node.execute("PAUSE CTAS_SUMS_1;" + insert(3))
        with Node(log, settings) as node:
            assert (list(node.supervisor.queries), node.supervisor.paused) == (["CTAS_SUMS_1"], {"CTAS_SUMS_1"})
            node.execute("RESUME CTAS_SUMS_1;")
            until_sums(node, log, 1, 3, 6)
            node.execute("DROP TABLE sums DELETE TOPIC;" + SUMS)
            until_sums(node, log, 1, 3, 6)
            assert list(node.supervisor.queries) == ["CTAS_SUMS_5"]
        assert not (settings.data / "checkpoints" / "server" / "CTAS_SUMS_1").exists()


def test_a_query_leaves_spark_while_it_has_nothing_to_do(tmp_path: Path) -> None:
    settings: Settings = streams.settings(
        tmp_path, way="record", changes="record", park_after=timedelta(milliseconds=500)
    )
    with EmbeddedLog(settings.data, settings) as log:
        for first in (True, False):
            with Node(log, settings) as node:
                if first:
                    node.execute(NUMBERS + SUMS + insert(1))
                    until_sums(node, log, 1)
                until(lambda node=node: "CTAS_SUMS_1" in node.parked and not node.supervisor.running)
                node.execute(insert(2))
                until_sums(node, log, *((1, 3) if first else (1, 3, 5)))
