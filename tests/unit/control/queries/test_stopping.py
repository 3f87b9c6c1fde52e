"""Stops of queries while a batch runs: requests that nobody waits for, and what follows them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from threading import Event

import pytest

from headrace.contracts import Append
from headrace.control.node import Node
from headrace.control.queries import reconciler
from headrace.control.queries.metrics import MetricsSampler
from headrace.control.status import query_status, server_status
from headrace.control.workers.handle import QueryHandle
from headrace.control.workers.isolation import OnBatch
from headrace.engine.checkpoint import Checkpoint, writer_name
from headrace.engine.log_adapter import Position
from headrace.engine.query import prepare_query
from headrace.errors import HeadraceError, ProcessLost, WriterFenced
from headrace.log.embedded import EmbeddedLog
from headrace.log.stored_rows import from_records
from headrace.plan.nodes import Query
from headrace.plan.serialization import Setup
from headrace.record import Record
from headrace.settings import Settings
from tests.unit.control.queries.test_reconciler import FakeIsolation, FakeQuery
from tests.wait import wait_until

CLICKS = "CREATE STREAM clicks (id INT KEY, page STRING) WITH (kafka_topic = 'clicks', format = 'JSON');"
COUNTS = "CREATE TABLE counts WITH (kafka_topic = 'counts') AS SELECT id, COUNT(*) AS n FROM clicks GROUP BY id;"


@dataclass
class BusyQuery(FakeQuery):
    """A running query whose batch ends when a test says so, or at the deadline of its stop."""

    batch: Event = field(default_factory=Event)
    given: list[float] = field(default_factory=list)

    def stop(self, timeout: float) -> None:
        self.given.append(timeout)
        self.batch.wait(60)


class BusyIsolation(FakeIsolation):
    """Starts busy queries; each start waits for `gate`."""

    def __init__(self, log: EmbeddedLog, settings: Settings) -> None:
        super().__init__()
        self._log, self._settings = log, settings
        self.queries: list[BusyQuery] = []
        self.gate = Event()
        self.gate.set()

    def start(
        self, query: Query, folder: Path, position: Position | None, on_batch: OnBatch, setup: Setup
    ) -> QueryHandle:
        prepare_query(self._log, query, self._settings, folder, position)
        self.gate.wait(60)
        if self.error is not None:
            raise self.error
        self.queries.append(BusyQuery(query, folder))
        return self.queries[-1]

    def finish_batches(self) -> None:
        for query in self.queries:
            query.batch.set()


@pytest.fixture
def isolation(log: EmbeddedLog, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> BusyIsolation:
    monkeypatch.setattr(reconciler, "_INTERVAL", 0.01)
    return BusyIsolation(log, settings)


@pytest.fixture
def node(log: EmbeddedLog, settings: Settings, isolation: BusyIsolation) -> Iterator[Node]:
    node = Node(log, settings, isolation=isolation)
    yield node
    isolation.gate.set()
    isolation.finish_batches()
    node.close()


def state_of(node: Node, query: str) -> str | None:
    status = query_status(node, MetricsSampler(), query)
    return None if status is None else status.state


def start_counts(node: Node) -> str:
    node.execute(CLICKS + COUNTS)
    wait_until(lambda: bool(node.supervisor.running))
    (name,) = node.supervisor.running
    return name


def test_pause_returns_while_a_batch_runs_and_the_server_keeps_answering(node: Node, isolation: BusyIsolation) -> None:
    name = start_counts(node)
    node.execute(f"PAUSE {name};")
    assert state_of(node, name) == "pausing"
    node.execute("LIST QUERIES; INSERT INTO clicks VALUES (1, 'a'); CREATE STREAM other AS SELECT * FROM clicks;")
    wait_until(lambda: "OTHER" in node.catalog.sources and len(isolation.queries) == 2)  # others start meanwhile
    isolation.queries[0].batch.set()
    wait_until(lambda: state_of(node, name) == "paused")


def test_a_resumed_query_starts_when_its_earlier_run_has_stopped(node: Node, isolation: BusyIsolation) -> None:
    name = start_counts(node)
    node.execute(f"PAUSE {name}; RESUME {name};")
    assert state_of(node, name) == "restarting"
    node.reconciler.reconcile()
    assert len(isolation.queries) == 1
    isolation.queries[0].batch.set()
    wait_until(lambda: len(isolation.queries) == 2 and name in node.supervisor.running)


def test_a_dropped_query_is_fenced_and_its_checkpoint_is_removed_when_it_has_stopped(
    node: Node, isolation: BusyIsolation, log: EmbeddedLog
) -> None:
    name = start_counts(node)
    folder = isolation.queries[0].folder
    writer = log.writer(writer_name(_run_of(folder)))
    row = [Append("counts", from_records([Record(b"1", b"{}")]))]
    writer.append(1, row)
    node.execute("DROP TABLE counts;")
    with pytest.raises(WriterFenced):
        writer.append(2, row)
    assert folder.exists()
    assert [one["state"] for one in server_status(node, MetricsSampler())["queries"]] == ["terminating"]
    node.execute(COUNTS.replace("COUNT(*)", "COUNT(page)"))
    isolation.queries[0].batch.set()
    wait_until(lambda: not folder.exists())
    wait_until(lambda: len(isolation.queries) == 2)
    assert name not in node.supervisor.queries


def _run_of(folder: Path) -> str:
    manifest = Checkpoint(folder).manifest
    assert manifest is not None
    return manifest.run


@pytest.mark.parametrize("error", [None, ProcessLost("lost")])
def test_a_query_that_is_dropped_while_it_starts_is_stopped(
    node: Node, isolation: BusyIsolation, error: HeadraceError | None
) -> None:
    isolation.gate.clear()
    node.execute(CLICKS + COUNTS)
    (name,) = node.supervisor.queries
    wait_until((node.supervisor.folder / name / "manifest.json").exists)
    node.execute("DROP TABLE counts;")
    isolation.error = error
    isolation.gate.set()
    isolation.finish_batches()
    if error is None:
        wait_until(lambda: len(isolation.queries) == 1)
        isolation.finish_batches()
        wait_until(lambda: len(isolation.queries[0].given) == 1)
    wait_until(lambda: not (node.supervisor.folder / name).exists())
    assert not node.supervisor.running


def test_every_stop_has_the_configured_deadline(node: Node, isolation: BusyIsolation, settings: Settings) -> None:
    name = start_counts(node)
    isolation.queries[0].batch.set()
    node.execute(f"PAUSE {name};")
    wait_until(lambda: state_of(node, name) == "paused")
    assert isolation.queries[0].given == [settings.query.stop_timeout.total_seconds()]


def test_statements_of_many_clients_leave_what_their_journal_says(
    log: EmbeddedLog, settings: Settings, isolation: BusyIsolation
) -> None:
    """Each client creates and drops sources that the others create, drop and read, too."""
    outcomes: Counter[str] = Counter()

    def client(number: int) -> None:
        choice = Random(number)
        for _ in range(30):
            name = choice.choice("abc")
            text = choice.choice(
                [
                    f"CREATE STREAM {name} (id INT KEY, n INT) WITH (kafka_topic = '{name}', format = 'JSON');",
                    f"CREATE STREAM copy_{name} AS SELECT * FROM {name};",
                    f"DROP STREAM IF EXISTS copy_{name}; DROP STREAM {name};",
                    f"INSERT INTO {name} VALUES (1, 2); LIST STREAMS;",
                ]
            )
            try:
                node.execute(text)
                outcomes["applied"] += 1
            except HeadraceError as error:
                outcomes[error.code] += 1

    def state(node: Node) -> tuple[object, ...]:
        catalog = node.catalog
        return dict(catalog.sources), set(catalog.queries), catalog.number, set(node.supervisor.queries), node.broken

    with Node(log, settings, isolation=isolation) as node, ThreadPoolExecutor(4) as pool:
        list(pool.map(client, range(4)))
        before = state(node)
        isolation.finish_batches()
        wait_until(lambda: isolation.finish_batches() or not node.supervisor.stops)
    isolation.finish_batches()
    assert outcomes["applied"] > 20
    assert "internal-error" not in outcomes
    with Node(log, settings, isolation=BusyIsolation(log, settings)) as again:
        assert state(again) == before
