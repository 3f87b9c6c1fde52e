"""Passes of the reconciler over queries that start, fail, recover and become idle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import pytest

from headrace.clock import SystemClock
from headrace.contracts import Append
from headrace.control.queries.idle import IdleTracker
from headrace.control.queries.reconciler import Reconciler
from headrace.control.queries.restart_policy import QueryFailure
from headrace.control.queries.supervisor import Supervisor, checkpoint_folder
from headrace.control.workers.handle import QueryHandle
from headrace.control.workers.isolation import OnBatch
from headrace.control.workers.protocol import WarmUp
from headrace.engine.checkpoint import Checkpoint
from headrace.engine.log_adapter import Position
from headrace.errors import BadQuery, HeadraceError, LogBusy, ProcessLost, TaskFailed
from headrace.log.embedded import EmbeddedLog
from headrace.log.stored_rows import from_records
from headrace.plan.nodes import Query
from headrace.plan.serialization import Setup
from headrace.record import Record
from headrace.settings import Settings
from tests.unit.control.queries.test_ticks import PLAIN, Run, planned

QUERY = planned(PLAIN)


@dataclass
class FakeQuery(Run):
    """A running query whose failure a test sets."""

    execution_mode: str = "record"
    position: Position | None = None
    is_active: bool = True
    is_starting: bool = False
    batch_time: Mapping[str, int] = field(default_factory=dict)
    error: HeadraceError | None = None

    def failure(self) -> HeadraceError | None:
        return self.error

    def stop(self, timeout: float) -> None: ...


class FakeIsolation:
    """Starts fake queries, unless `error` is set."""

    isolates_failures: ClassVar[bool] = True

    def __init__(self) -> None:
        self.error: HeadraceError | None = None
        self.needs_restart = False
        self.restarts = 0
        self.started: list[FakeQuery] = []

    def warm_up(self, then: WarmUp | None = None) -> None: ...

    def start(
        self, query: Query, folder: Path, position: Position | None, on_batch: OnBatch, setup: Setup
    ) -> QueryHandle:
        if self.error is not None:
            raise self.error
        self.started.append(FakeQuery(query, folder))
        return self.started[-1]

    def close(self) -> None:
        self.needs_restart = False
        self.restarts += 1


class Server:
    """A reconciler with one query and a clock that a test moves."""

    def __init__(self, log: EmbeddedLog, settings: Settings) -> None:
        self.now = 0.0
        self.isolation = FakeIsolation()
        self.supervisor = Supervisor(log, settings, "server", self.isolation, SystemClock())
        idle = IdleTracker(60.0, lambda: self.now)
        self.told: list[tuple[str, str, int | None]] = []
        self.reconciler = Reconciler(self.supervisor, idle, lambda: self.now, self._on_failure)
        self.supervisor.register(QUERY)

    def _on_failure(self, query: str, failure: QueryFailure, batch: int | None) -> None:
        self.told.append((query, "failed" if failure.restart_at is None else "restarting", batch))

    @property
    def running(self) -> FakeQuery | None:
        return self.isolation.started[-1] if QUERY.id in self.supervisor.running else None

    def reconcile_at(self, now: float) -> None:
        self.now = now
        self.reconciler.reconcile()
        self.supervisor.wait_until_stopped()


@pytest.fixture
def server(log: EmbeddedLog, settings: Settings) -> Iterator[Server]:
    for topic in ("v", QUERY.sink.topic):
        log.create_topic(topic)
    made = Server(log, settings)
    yield made
    made.supervisor.close()


def test_a_registered_query_is_started_and_a_paused_one_is_not(server: Server) -> None:
    server.supervisor.pause(QUERY.id)
    server.reconcile_at(0.0)
    assert server.running is None
    server.supervisor.pause(QUERY.id, paused=False)
    server.reconcile_at(0.0)
    assert server.running is not None


def test_a_transient_failure_is_retried_after_growing_pauses(server: Server) -> None:
    server.isolation.error = LogBusy("busy")
    for now in (0.0, 0.9, 1.0, 2.9, 3.0):
        server.reconcile_at(now)
    failure = server.reconciler.failures[QUERY.id]
    assert (failure.error.code, failure.count, failure.restart_at) == ("log-busy", 3, 7.0)
    server.isolation.error = None
    server.reconcile_at(6.9)
    assert server.running is None
    server.reconcile_at(7.0)
    assert server.running is not None


def test_a_permanent_failure_is_not_retried(server: Server) -> None:
    server.isolation.error = BadQuery("bad")
    server.reconcile_at(0.0)
    server.isolation.error = None
    server.reconcile_at(1e6)
    assert server.running is None
    server.reconciler.restart(QUERY.id)
    server.reconcile_at(1e6)
    assert server.running is not None
    assert server.told == [(QUERY.id, "failed", None)]


def test_a_query_that_fails_while_running_is_stopped_and_counts_from_one_after_progress(server: Server) -> None:
    server.reconcile_at(0.0)
    for now, batches in ((10.0, 0), (20.0, 0), (30.0, 5)):
        running = server.running
        assert running is not None
        running.error, running.progress.batches = ProcessLost("lost"), batches
        server.reconcile_at(now)
        assert server.running is None
        server.reconcile_at(now + 5.0)
    assert server.reconciler.failures[QUERY.id].count == 1


def test_an_idle_query_is_suspended_until_it_has_input(server: Server, log: EmbeddedLog) -> None:
    server.reconcile_at(0.0)
    server.reconcile_at(1.0)
    server.reconcile_at(62.0)
    assert server.running is None
    assert list(server.reconciler.suspended) == [QUERY.id]
    log.append([Append("v", from_records([Record(b"{}", b"1")]), 0)])
    server.reconcile_at(63.0)
    assert server.running is not None
    assert server.reconciler.suspended == {}


def test_workers_that_need_a_restart_are_restarted_with_their_queries(server: Server) -> None:
    server.reconcile_at(0.0)
    before = server.running
    server.isolation.needs_restart = True
    server.reconcile_at(1.0)
    assert server.isolation.restarts == 1
    assert server.running is not None
    assert server.running is not before


def test_a_failure_that_cannot_be_counted_does_not_end_the_pass(server: Server) -> None:
    checkpoint = Checkpoint(checkpoint_folder(server.supervisor.folder, QUERY.id))
    checkpoint.open(QUERY, "record", 2, ("v",))
    (checkpoint.spark / "offsets").mkdir(parents=True)
    (checkpoint.spark / "offsets" / "0").write_text("v1\n{}\n{}")
    (checkpoint.folder / "failing.json").mkdir()
    server.isolation.error = TaskFailed("query q failed")
    server.reconcile_at(0.0)
    assert server.told == [(QUERY.id, "restarting", 0)]
