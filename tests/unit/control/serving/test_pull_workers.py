"""Heavy pull queries in processes of their own: what they return, and how they end."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from headrace.contracts import Topic, TopicSpec
from headrace.control.serving.processes import Process, ProcessKind
from headrace.control.serving.pull_protocol import PullRequest
from headrace.control.serving.pull_workers import PullWorkers
from headrace.control.serving.result_spool import FILE_BYTES
from headrace.errors import (
    HeadraceError,
    PullQueryKilled,
    QueryKilled,
    QueryTimeLimitExceeded,
    QueryTooLarge,
    ServerBusy,
    TooManyRequests,
    ViewReplaced,
)
from headrace.plan.serialization import no_setup, serialize_plan
from headrace.settings import Settings
from headrace.views.materializer import open_view
from tests.unit.control.serving.test_limits import CATALOG, PADS, SERIES, SOURCE
from tests.unit.views.pull_queries import asked, view_in
from tests.wait import wait_until

SLOW = "SELECT REDUCE(GENERATE_SERIES(1, 1000000), 0, (s, x) => s + x) AS N FROM T;"


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return Settings().replace(storage_data=tmp_path_factory.mktemp("data"), query_pull_workers=1)


@pytest.fixture(scope="module")
def workers(settings: Settings) -> Iterator[PullWorkers]:
    """One worker, over a table of a hundred rows."""
    with closing(view_in(settings.storage.data, SOURCE)) as view, closing(PullWorkers(settings)) as workers:
        view.apply(view.state(), [(n, (n,), ("s" * 1_000, [n] * 10)) for n in range(100)], {0: 100})
        yield workers


def request(text: str, settings: Settings, **changed: Any) -> PullRequest:
    select = serialize_plan(asked(CATALOG, text))
    return PullRequest(select, no_setup, (SOURCE, Topic(SOURCE.topic, TopicSpec(), 7)), settings.replace(**changed))


def slow(settings: Settings, **changed: Any) -> PullRequest:
    """A query that takes a minute and little memory."""
    return request(SLOW, settings, query_pull_max_bytes=0, **changed)


def process() -> Process:
    return Process(1, ProcessKind.PULL, "alice", "", 0)


def pulled(workers: PullWorkers, wanted: PullRequest) -> list[bytes]:
    with workers.execute(wanted, process()) as result:
        return [row.text for batch in result.batches for row in batch]


def test_a_worker_returns_the_rows_and_the_state_of_the_view(workers: PullWorkers, settings: Settings) -> None:
    with workers.execute(request("SELECT ID, CONCAT('n', S) AS C FROM T WHERE ID < 3;", settings), process()) as result:
        assert result.state is not None
        assert result.state.position == {0: 100}
        rows = [row.text for batch in result.batches for row in batch]
    assert sorted(row[:4] for row in rows) == [b'[0,"', b'[1,"', b'[2,"']
    assert len(pulled(workers, request("SELECT ID FROM T;", settings))) == 100


@pytest.mark.parametrize("columns", [SERIES, PADS], ids=["series", "pads"])
def test_a_query_that_creates_too_much_is_refused_and_the_worker_goes_on(
    workers: PullWorkers, settings: Settings, columns: str
) -> None:
    with pytest.raises(QueryTooLarge):
        pulled(workers, request(f"SELECT ID, {columns} FROM T WHERE ID = 1;", settings))
    assert len(pulled(workers, request("SELECT ID FROM T WHERE ID = 1;", settings))) == 1


def test_memory_beyond_the_limit_is_refused_by_the_system(tmp_path: Path) -> None:
    settings = Settings().replace(
        storage_data=tmp_path, query_pull_workers=1, query_pull_max_memory=64 << 20, query_pull_max_bytes=0
    )
    with closing(view_in(tmp_path, SOURCE)) as view, closing(PullWorkers(settings)) as workers:
        view.apply(view.state(), [(1, (1,), ("s", [1]))], {0: 1})
        series = "SELECT ID, TRANSFORM(GENERATE_SERIES(1, 900000), x => x + 7) AS A FROM T;"
        with pytest.raises(HeadraceError) as raised:
            pulled(workers, request(series, settings))
        assert raised.value.code == "pull-query-killed"
        assert len(pulled(workers, request("SELECT ID FROM T;", settings))) == 1


def test_processor_time_and_duration_are_limited(workers: PullWorkers, settings: Settings) -> None:
    with pytest.raises(QueryTimeLimitExceeded) as raised:
        pulled(workers, slow(settings, query_pull_max_cpu=timedelta(seconds=1)))
    assert "processor time" in raised.value.what
    with pytest.raises(QueryTimeLimitExceeded):
        pulled(workers, slow(settings, query_pull_timeout=timedelta(seconds=1)))
    assert len(pulled(workers, request("SELECT ID FROM T WHERE ID = 1;", settings))) == 1


def test_a_view_that_was_replaced_while_the_query_waited_is_not_read(tmp_path: Path) -> None:
    settings = Settings().replace(storage_data=tmp_path, query_pull_workers=1)
    waiting = request("SELECT ID FROM T;", settings)
    with closing(view_in(tmp_path, SOURCE)) as view, closing(PullWorkers(settings)) as workers:
        view.apply(view.state(), [(1, (1,), ("s", [1]))], {0: 1})
        assert len(pulled(workers, waiting)) == 1
        view.close()
        with closing(open_view(tmp_path, SOURCE, Topic(SOURCE.topic, TopicSpec(), 8))) as other:
            with pytest.raises(ViewReplaced):
                pulled(workers, waiting)
            other.remove()
        with pytest.raises(ViewReplaced):
            pulled(workers, waiting)
        assert list((tmp_path / "views").iterdir()) == []


def test_a_worker_that_is_killed_ends_only_its_query(workers: PullWorkers, settings: Settings) -> None:
    failures: list[HeadraceError] = []

    def run() -> None:
        try:
            pulled(workers, slow(settings))
        except HeadraceError as error:
            failures.append(error)

    running = threading.Thread(target=run)
    running.start()
    wait_until(lambda: bool(workers.running))
    os.kill(workers.running[0], signal.SIGKILL)
    running.join(60)
    assert isinstance(failures[0], PullQueryKilled)
    assert len(pulled(workers, request("SELECT ID FROM T WHERE ID = 1;", settings))) == 1


def test_a_result_that_is_not_read_to_its_end_frees_the_worker(workers: PullWorkers, settings: Settings) -> None:
    with workers.execute(request("SELECT ID, S FROM T;", settings), process()) as result:
        assert next(iter(result.batches))
    assert len(pulled(workers, request("SELECT ID FROM T WHERE ID = 1;", settings))) == 1


def test_a_worker_is_free_before_its_result_is_read(workers: PullWorkers, settings: Settings) -> None:
    long = request("SELECT ID, LPAD(S, 100000, 'x') AS P FROM T;", settings)  # 10 MB
    with workers.execute(long, process()) as result:
        wait_until(lambda: not workers.slots.running)
        assert workers.budget.used > 0
        assert len(pulled(workers, request("SELECT ID FROM T WHERE ID = 1;", settings))) == 1
        assert sum(len(row.text) for batch in result.batches for row in batch) > 100 * 100_000
    assert workers.budget.used == 0


def test_a_killed_query_whose_worker_is_free_ends_and_the_worker_goes_on(
    workers: PullWorkers, settings: Settings
) -> None:
    killed = process()
    with workers.execute(request("SELECT ID, S FROM T;", settings), killed) as result:
        wait_until(lambda: not workers.slots.running)
        with workers.execute(slow(settings), process()):
            (busy,) = workers.running
            killed.kill(QueryKilled("the query was ended", fix="-"))
            assert (workers.running, killed.worker) == ([busy], None)
            os.kill(busy, 0)  # it is alive
        with pytest.raises(QueryKilled):
            next(iter(result.batches))


def test_a_query_without_room_for_its_result_waits_for_its_client(workers: PullWorkers, settings: Settings) -> None:
    long = request("SELECT ID, LPAD(S, 100000, 'x') AS P FROM T;", settings)
    assert workers.budget.take("bob", FILE_BYTES // 2)
    assert workers.budget.take("alice", FILE_BYTES // 2)
    try:
        with workers.execute(long, process()) as result:
            wait_until(lambda: bool(workers.running))
            assert len([row for batch in result.batches for row in batch]) == 100
    finally:
        for user in ("alice", "bob"):
            workers.budget.give_back(user, FILE_BYTES // 2)


def test_a_worker_that_cannot_be_replaced_at_once_leaves_its_slot_free(
    workers: PullWorkers, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise BlockingIOError("Resource temporarily unavailable")

    killed = process()
    assert len(pulled(workers, request("SELECT ID FROM T WHERE ID = 1;", settings))) == 1
    with monkeypatch.context() as full:
        full.setattr(subprocess, "Popen", refuse)
        with workers.execute(slow(settings), killed) as result:
            killed.kill(QueryKilled("the query was ended", fix="-"))
            with pytest.raises(QueryKilled):
                next(iter(result.batches))
        wait_until(lambda: not workers.slots.running)
    assert len(pulled(workers, request("SELECT ID FROM T WHERE ID = 1;", settings))) == 1


def test_more_queries_than_can_wait_are_refused_at_once(workers: PullWorkers, settings: Settings) -> None:
    outcomes: list[str] = []

    def run() -> None:
        try:
            pulled(workers, slow(settings, query_pull_timeout=timedelta(seconds=1)))
        except (ServerBusy, TooManyRequests):
            outcomes.append("refused")
        except HeadraceError:
            outcomes.append("ended")

    threads = [threading.Thread(target=run) for _ in range(12)]
    for thread in threads:
        thread.start()
    wait_until(lambda: outcomes.count("refused") >= 7)
    for thread in threads:
        thread.join(120)
    assert len(outcomes) == 12
    assert "ended" in outcomes
