"""Which pull and push queries are running, who may see them, and what ends when one is killed."""

from __future__ import annotations

import threading
from contextlib import closing, suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from headrace.access.authorization import ALL_RIGHTS, Rights
from headrace.access.principal import Principal
from headrace.clock import ManualClock
from headrace.control.serving.limits import QueryLimits
from headrace.control.serving.processes import MAX_TEXT, Process, Processes, ProcessKind
from headrace.control.serving.pull_execution import execute_on_view
from headrace.control.serving.pull_workers import PullWorkers
from headrace.control.serving.result_rows import ResultRowWriter
from headrace.errors import QueryKilled, UnknownProcess
from headrace.lang.contract import ProcessState
from headrace.plan.actions import TransientSelect
from headrace.settings import Settings
from headrace.views.pull_query import PullQuery
from tests.unit.control.serving.test_limits import CATALOG, SOURCE
from tests.unit.control.serving.test_pull_workers import slow
from tests.unit.views.pull_queries import asked, view_in
from tests.wait import wait_until

ALICE, BOB = Rights(Principal("alice")), Rights(Principal("bob"))
TEXT = "SELECT ID, CONCAT(S, 'x') AS C FROM T;"
KILLED = QueryKilled("the query was ended", fix="-")


def select(principal: str) -> TransientSelect:
    return replace(asked(CATALOG, TEXT), text=TEXT * 100, principal=principal)


def test_everybody_sees_and_ends_their_own_queries_and_an_admin_all() -> None:
    processes = Processes(ManualClock(1000))
    with processes.running(ProcessKind.PULL, select("alice")) as process:
        assert (process.started_at, len(process.text)) == (1000, MAX_TEXT)
        assert processes.visible(ALICE) == processes.visible(ALL_RIGHTS) == [process]
        assert processes.visible(BOB) == []
        with pytest.raises(UnknownProcess):
            processes.kill(str(process.id), BOB)
        process.check()
        processes.kill(str(process.id), ALICE)
        with pytest.raises(QueryKilled):
            process.check()
    assert processes.visible(ALL_RIGHTS) == []
    with pytest.raises(UnknownProcess):
        processes.kill(str(process.id), ALL_RIGHTS)


@pytest.mark.parametrize("id", ["0", "-1", "x", "", "1" * 5000, "\u0661"])
def test_an_id_that_nobody_has_is_unknown(id: str) -> None:
    with pytest.raises(UnknownProcess, match="SHOW PROCESSES"):
        Processes(ManualClock(0)).kill(id, ALL_RIGHTS)


def test_a_process_is_listed_with_what_it_uses(tmp_path: Path) -> None:
    settings = Settings().replace(storage_data=tmp_path, query_pull_workers=1)
    clock = ManualClock(1000)
    processes = Processes(clock)

    def run(process: Process) -> None:
        with suppress(QueryKilled), workers.execute(slow(settings), process) as result:
            list(result.batches)

    with closing(view_in(tmp_path, SOURCE)) as view, closing(PullWorkers(settings)) as workers:
        view.apply(view.state(), [(n, (n,), ("s", [n])) for n in range(100)], {0: 100})
        asks = select("alice")
        with processes.running(ProcessKind.PULL, asks) as first, processes.running(ProcessKind.PULL, asks) as second:
            running = [threading.Thread(target=run, args=(one,)) for one in (first, second)]
            running[0].start()
            wait_until(lambda: first.worker is not None)
            running[1].start()
            wait_until(lambda: second.state is ProcessState.WAITING)
            clock.advance(timedelta(seconds=2.5))
            executed, waiting = processes.statuses(ALICE)
            worker = first.worker
            wait_until(lambda: (first.status(0).cpu_seconds or 0) > 0)
            for one in (first, second):
                processes.kill(str(one.id), ALICE)
            for thread in running:
                thread.join(30)
    assert (executed.state, executed.seconds, executed.worker) == (ProcessState.RUNNING, 2.5, worker)
    assert (executed.memory or 0) > 1 << 20
    assert (waiting.worker, waiting.cpu_seconds, waiting.memory) == (None, None, None)


def test_what_ends_a_query_is_called_once_and_never_after_the_query() -> None:
    process, ends = Process(1, ProcessKind.PULL, "alice", "", 0), []
    process.on_kill(ends.append)
    process.kill(KILLED)
    process.kill(KILLED)
    assert ends == [KILLED]
    process.on_kill(ends.append)
    assert ends == [KILLED, KILLED]
    other = Process(2, ProcessKind.PULL, "alice", "", 0)
    other.on_kill(ends.append)
    other.detach()
    other.kill(KILLED)
    assert len(ends) == 2


def test_a_query_in_the_server_ends_in_the_middle_of_a_batch(tmp_path: Path) -> None:
    ask, limits = select("alice"), QueryLimits(Settings())
    with closing(view_in(tmp_path, SOURCE)) as view:
        view.apply(view.state(), [(n, (n,), ("s", [n])) for n in range(5000)], {0: 5000})
        with execute_on_view(PullQuery(ask.query), ResultRowWriter(ask), view, limits) as result:
            assert next(result.batches)
            limits.end(KILLED)
            with pytest.raises(QueryKilled):
                next(result.batches)


def test_a_query_in_a_worker_ends_at_once(tmp_path: Path) -> None:
    settings = Settings().replace(storage_data=tmp_path, query_pull_workers=1)
    process, failures = Process(1, ProcessKind.PULL, "alice", "", 0), []

    def run() -> None:
        try:
            with workers.execute(slow(settings), process) as result:
                list(result.batches)
        except QueryKilled as error:
            failures.append(error)

    with closing(view_in(tmp_path, SOURCE)) as view, closing(PullWorkers(settings)) as workers:
        view.apply(view.state(), [(n, (n,), ("s", [n])) for n in range(100)], {0: 100})
        running = threading.Thread(target=run)
        running.start()
        wait_until(lambda: process.worker is not None)
        process.kill(KILLED)
        running.join(30)
    assert failures == [KILLED]
