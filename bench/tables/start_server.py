"""Cases of a server: the first queries, a restart after kill -9, a suspended query that wakes up."""

from __future__ import annotations

import os
import signal
import statistics
import time
from pathlib import Path

from bench.harness.case import Outcome, Work
from bench.harness.measure import MB, cpu_seconds, tree_pss
from bench.tables.serve_server import Server, server, until

_STREAM = "CREATE STREAM orders (id INT KEY, city STRING) WITH (kafka_topic='orders', format='JSON', partitions=1);"
_TABLE = "CREATE TABLE {name} AS SELECT city, COUNT(*) AS n FROM orders GROUP BY city;"
_PAUSE = 0.01  # seconds between two looks at a result whose time is measured
_ROW = "INSERT INTO orders VALUES ({id}, 'Oslo');"


def first_query(work: Work) -> Outcome:
    with server(work.folder / "data", spark_warm_start="true") as target:
        seconds = _first_row(target, "first")
    return Outcome(1, seconds)


def warm_query(work: Work) -> Outcome:
    with server(work.folder / "data", spark_warm_start="true") as target:
        time.sleep(work["seconds_after_ready"])
        first = _first_row(target, "first")
        second = _first_row(target, "second", rows=1)
        inserts = [_insert(target, "first", number) for number in range(1, work["inserts"] + 1)]
    return Outcome(1, first, (), {"second_seconds": second, "insert_seconds": statistics.median(inserts)})


def idle(work: Work) -> Outcome:
    """What a server costs that nobody uses, once it is warm."""
    with server(work.folder / "data", spark_warm_start="true") as target:
        time.sleep(work["seconds_after_ready"])
        before, began = cpu_seconds(target.pid), time.monotonic()
        time.sleep(work["seconds"])
        seconds = time.monotonic() - began
        percent = 100 * (cpu_seconds(target.pid) - before) / seconds
        memory = tree_pss(target.pid) / MB
    return Outcome(1, seconds, (), {"idle_percent": percent, "idle_pss_mb": memory})


def _first_row(target: Server, name: str, rows: int = 0) -> float:
    """Seconds from the statement until the table has a row. `rows` are in the stream already."""
    if not rows:
        target.ksql(_STREAM)
        target.ksql(_ROW.format(id=0))
    began = time.monotonic()
    response = target.post(
        "/ksql",
        {"ksql": _TABLE.format(name=name), "streamsProperties": {"auto.offset.reset": "earliest"}},
    )
    assert response
    until(lambda: _count(target, name) > 0, f"{name} has a row", pause=_PAUSE)
    return time.monotonic() - began


def _insert(target: Server, name: str, number: int) -> float:
    before, began = _count(target, name), time.monotonic()
    target.ksql(_ROW.format(id=number))
    until(lambda: _count(target, name) > before, "the row is counted", pause=_PAUSE)
    return time.monotonic() - began


def _count(target: Server, name: str) -> int:
    rows = target.rows(f"SELECT n FROM {name} WHERE city = 'Oslo';")
    return rows[0][0] if rows else 0


# -- kill -9 --------------------------------------------------------------------------------------------------------


def restart(work: Work) -> Outcome:
    folder, queries = work.folder / "data", [f"table{number}" for number in range(work["queries"])]
    with server(folder, spark_warm_start="true") as target:
        target.ksql(_STREAM)
        for name in queries:
            target.ksql(_TABLE.format(name=name))
        target.ksql(_ROW.format(id=0))
        until(lambda: all(_count(target, name) == 1 for name in queries), "all tables have a row")
        os.kill(target.pid, signal.SIGKILL)
    began = time.monotonic()
    with server(folder, spark_warm_start="true") as target:
        answers = time.monotonic() - began
        assert _count(target, queries[0]) == 1
        target.ksql(_ROW.format(id=1))
        until(lambda: all(_count(target, name) == 2 for name in queries), "all tables have the second row")
        seconds = time.monotonic() - began
    return Outcome(1, seconds, (), {"answers_seconds": answers})


# -- suspended ------------------------------------------------------------------------------------------------------


def wake_up(work: Work) -> Outcome:
    folder: Path = work.folder / "data"
    with server(folder, spark_warm_start="true", query_suspend_after="3s") as target:
        _first_row(target, "first")
        seconds = [_wake_up(target, number) for number in range(1, work["times"] + 1)]
    return Outcome(1, statistics.median(seconds))


def _wake_up(target: Server, number: int) -> float:
    until(lambda: all(query["state"] == "suspended" for query in target.get("/api/v1/queries")), "it is suspended")
    return _insert(target, "first", number)
