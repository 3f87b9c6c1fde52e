"""The state of a server and its recovery after a restart, without running queries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event
from typing import ClassVar

import pytest
from hypothesis import example, given
from hypothesis import settings as tried
from hypothesis import strategies as st

from headrace.clock import SystemClock
from headrace.contracts import TopicSpec
from headrace.control.node import Node
from headrace.control.queries import reconciler
from headrace.control.queries.supervisor import checkpoint_folder
from headrace.control.statements import state as server_state
from headrace.control.statements.journal import JOURNAL_TOPIC, Journal
from headrace.control.statements.replay import Replay
from headrace.control.workers.handle import QueryHandle
from headrace.control.workers.isolation import OnBatch
from headrace.control.workers.protocol import WarmUp
from headrace.engine.checkpoint import Checkpoint
from headrace.engine.log_adapter import Position
from headrace.errors import BadTopicName, HeadraceError, LogBusy, UnknownQuery, Unsupported, WriterFenced
from headrace.lang.ksql.grammar.parser import read_statements
from headrace.lang.ksql.statements.planner import Planner
from headrace.log.embedded import EmbeddedLog
from headrace.plan.catalog import Catalog
from headrace.plan.nodes import Query
from headrace.plan.serialization import Setup
from headrace.settings import Settings
from tests.unit.control.queries.test_ticks import Run
from tests.wait import wait_until

CLICKS = "CREATE STREAM clicks (id INT KEY, page STRING) WITH (kafka_topic='clicks', format='JSON');"
COUNTS = "CREATE TABLE counts AS SELECT id, COUNT(*) AS n FROM clicks GROUP BY id;"


class Nowhere:
    """Where no query ever runs."""

    isolates_failures: ClassVar[bool] = True
    needs_restart = False

    def warm_up(self, then: WarmUp | None = None) -> None: ...

    def start(
        self, query: Query, folder: Path, position: Position | None, on_batch: OnBatch, setup: Setup
    ) -> QueryHandle:
        raise LogBusy(query.id)

    def close(self) -> None: ...


@pytest.fixture
def opened(log: EmbeddedLog, settings: Settings) -> Iterator[Callable[[], Node]]:
    made: list[Node] = []

    def opened() -> Node:
        for node in made:
            node.close()
        made[:] = [Node(log, settings, isolation=Nowhere())]
        return made[0]

    yield opened
    for node in made:
        node.close()


def known(node: Node) -> tuple[object, ...]:
    queries = {name: (one.query, one.start, one.paused) for name, one in node.supervisor.queries.items()}
    there = node.catalog.copy()
    return there.sources, there.types, there.queries, queries


def test_a_restart_restores_the_catalog_queries_and_properties(opened: Callable[[], Node]) -> None:
    node = opened()
    node.execute("CREATE TYPE place AS STRUCT<x INT, y INT>;" + CLICKS)
    node.execute(COUNTS, {"auto.offset.reset": "latest"})
    node.execute("CREATE STREAM copy AS SELECT * FROM clicks; INSERT INTO copy SELECT * FROM clicks;")
    node.execute("PAUSE CSAS_COPY_3; TERMINATE INSERTQUERY_4; DROP TYPE place;")
    before = known(node)
    assert list(node.supervisor.queries) == ["CTAS_COUNTS_2", "CSAS_COPY_3"]
    assert known(opened()) == before
    node = opened()
    node.execute("RESUME CSAS_COPY_3; CREATE STREAM other AS SELECT * FROM copy;")
    assert "CSAS_OTHER_9" in node.supervisor.queries  # numbers go on


@dataclass
class Slow(Run):
    """A query that ends only when another of it has begun, which must not be, or after a while."""

    isolation: Somewhere = field(kw_only=True)
    execution_mode: str = "record"
    position: Position | None = None
    is_active: bool = True
    is_starting: bool = False
    batch_time: Mapping[str, int] = field(default_factory=dict)

    def failure(self) -> HeadraceError | None: ...

    def stop(self, timeout: float) -> None:
        self.isolation.overlap.wait(0.5)
        self.isolation.alive -= 1


class Somewhere(Nowhere):
    """Where queries seem to run, and are counted."""

    def __init__(self) -> None:
        self.begun = self.alive = 0
        self.overlap = Event()

    def start(
        self, query: Query, folder: Path, position: Position | None, on_batch: OnBatch, setup: Setup
    ) -> QueryHandle:
        self.begun += 1
        self.alive += 1
        if self.alive > 1:
            self.overlap.set()
        return Slow(query, folder, isolation=self)


def test_concurrent_restarts_start_a_query_once(
    log: EmbeddedLog, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconciler, "_INTERVAL", 0.01)
    somewhere = Somewhere()
    with Node(log, settings, isolation=somewhere) as node, ThreadPoolExecutor(2) as pool:
        node.execute(CLICKS + COUNTS)
        wait_until(lambda: "CTAS_COUNTS_1" in node.supervisor.running)
        list(pool.map(node.restart, ["CTAS_COUNTS_1"] * 2))
        wait_until(lambda: somewhere.begun >= 2 and "CTAS_COUNTS_1" in node.supervisor.running)
        assert not somewhere.overlap.is_set()
        with pytest.raises(UnknownQuery):
            node.restart("CTAS_NOTHING_1")
        somewhere.overlap.set()  # it may end now


def test_a_recreated_topic_survives_a_restart(opened: Callable[[], Node], log: EmbeddedLog) -> None:
    opened().execute(CLICKS + "DROP STREAM clicks DELETE TOPIC;")
    assert "clicks" not in [topic.name for topic in log.topics()]
    log.create_topic("clicks", TopicSpec(partitions=3))
    opened()
    assert log.topic("clicks").partitions == 3


def test_a_refused_statement_changes_nothing(opened: Callable[[], Node], log: EmbeddedLog) -> None:
    node = opened()
    node.execute(CLICKS)
    before = known(node), log.bounds(JOURNAL_TOPIC)
    with pytest.raises(BadTopicName):
        node.execute("CREATE STREAM bad WITH (kafka_topic='no/name') AS SELECT * FROM clicks;")
    with pytest.raises(Unsupported):
        node.execute("SELECT * FROM clicks EMIT CHANGES;")
    assert (known(node), log.bounds(JOURNAL_TOPIC)) == before


def test_a_journalled_action_that_fails_is_completed_later(
    opened: Callable[[], Node], log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = opened()
    node.execute(CLICKS)
    with monkeypatch.context() as patch:
        patch.setattr(log, "delete_topic", _busy)
        node.execute("DROP STREAM clicks DELETE TOPIC;")
    assert (node.catalog.sources, log.topic("clicks").partitions) == ({}, 1)
    assert opened().catalog.sources == {}
    assert "clicks" not in [topic.name for topic in log.topics()]


def _busy(name: str) -> None:
    raise LogBusy(name)


def test_a_fenced_server_refuses_statements(opened: Callable[[], Node], log: EmbeddedLog) -> None:
    node = opened()
    Journal(log, SystemClock()).close()
    with pytest.raises(WriterFenced):
        node.execute(CLICKS)
    assert node.catalog.sources == {}


_STATEMENTS = st.sampled_from(
    [
        CLICKS,
        COUNTS,
        "CREATE STREAM copy AS SELECT * FROM clicks;",
        "CREATE OR REPLACE STREAM copy AS SELECT id, page, 1 AS one FROM clicks;",
        "INSERT INTO copy SELECT * FROM clicks;",
        "DROP STREAM copy;",
        "DROP TABLE counts DELETE TOPIC;",
        "DROP STREAM clicks;",
        "PAUSE ALL;",
        "RESUME ALL;",
        "TERMINATE ALL;",
        "CREATE TYPE place AS STRUCT<x INT>;",
        "DROP TYPE place;",
        "CREATE STREAM placed (p place) WITH (kafka_topic='placed', format='JSON', partitions=1);",
        "ALTER STREAM clicks ADD COLUMN more INT;",
        "DROP STREAM placed;",
    ]
)


@tried(max_examples=40, deadline=None)
@example(statements=[CLICKS, COUNTS, "TERMINATE ALL;", "DROP STREAM clicks;"])
@given(statements=st.lists(_STATEMENTS, max_size=25))
def test_a_compacted_journal_restores_the_same_state(
    statements: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    given = Settings.of(storage_data=tmp_path_factory.mktemp("node"))
    with EmbeddedLog(given.storage.data, given) as log:
        with Node(log, given, isolation=Nowhere()) as node:
            for statement in statements:
                with suppress(HeadraceError):
                    node.execute(statement)
            before = known(node)
        for most in (server_state._COMPACT_AFTER, -1):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(server_state, "_COMPACT_AFTER", most)
                with Node(log, given, isolation=Nowhere()) as again:
                    assert (known(again), again.broken) == (before, {})
        shortened = Journal(log, SystemClock())
        replay = Replay(Catalog())
        replay.read(shortened.entries)
        assert replay.needed() == shortened.entries
        shortened.close()


def test_a_replacement_that_a_crash_interrupted_keeps_its_checkpoint(
    opened: Callable[[], Node], settings: Settings
) -> None:
    node = opened()
    node.execute(CLICKS + "CREATE STREAM copy AS SELECT id, page FROM clicks;")
    folder = settings.storage.data / "checkpoints" / "server"
    (old,) = node.supervisor.queries
    Checkpoint(folder / old).open(node.supervisor.queries[old].query, "record", 1, ("clicks",))
    run = Checkpoint(folder / old).manifest.run  # type: ignore[union-attr]
    node.execute("CREATE OR REPLACE STREAM copy WITH (query_id = 'second') AS SELECT id, page FROM clicks;")
    (new,) = node.supervisor.queries
    assert new != old
    node.close()
    (folder / new).rename(folder / old)  # as a crash before the renaming leaves it
    opened()
    assert not (folder / old).exists()
    assert Checkpoint(folder / new).manifest.run == run  # type: ignore[union-attr]


def test_queries_with_similar_names_keep_their_checkpoints_of_earlier_versions(tmp_path: Path) -> None:
    mine = Checkpoint(tmp_path / "a-b")
    mine.open(replace(_query(), id="a b"), "record", 1, ("clicks",))
    assert checkpoint_folder(tmp_path, "a b") == tmp_path / "a-b"
    assert checkpoint_folder(tmp_path, "a/b") not in (tmp_path / "a-b", checkpoint_folder(tmp_path, "a:b"))


def _query() -> Query:
    catalog = Catalog()
    planner = Planner(catalog)
    for reading in read_statements(CLICKS + COUNTS, {}):
        assert reading.statement is not None
        planner.plan(reading.statement)
    (query,) = catalog.queries.values()
    return query
