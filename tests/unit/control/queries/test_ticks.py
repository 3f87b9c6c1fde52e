"""Ticks on a real log, with a manual clock and a stand-in for the running query."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pytest

from headrace.clock import ManualClock
from headrace.contracts import Append, TopicSpec
from headrace.control.queries.ticks import Ticker
from headrace.engine.progress import Progress
from headrace.lang.executor import ScriptExecutor
from headrace.lang.registry import dialect_of
from headrace.log.embedded import EmbeddedLog
from headrace.plan.catalog import Catalog
from headrace.plan.nodes import Query
from headrace.record import Record
from headrace.settings import Settings

VIEWS = "CREATE STREAM v (id INT KEY, page STRING) WITH (kafka_topic='v', format='JSON');"
FINAL = "CREATE TABLE t AS SELECT id, COUNT(*) AS n FROM v WINDOW TUMBLING (SIZE 10 SECONDS) GROUP BY id EMIT FINAL;"
PLAIN = "CREATE STREAM t AS SELECT * FROM v;"
TICKS = "__ticks.q"


@dataclass
class Run:
    """A query of which only the numbers matter."""

    query: Query
    folder: Path
    ticks: str = TICKS
    topics: tuple[str, ...] = ("v", TICKS)
    resumed: bool = False
    read_at: int | None = None
    progress: Progress = field(default_factory=Progress)
    left: list[int] = field(default_factory=list)
    """How much is left to read, look after look; then nothing."""

    def lag(self) -> int:
        return self.left.pop(0) if self.left else 0

    def read(self, time: int | None, deadline: int | None) -> None:
        """A batch whose latest record has that time."""
        self.progress.time = time
        self.progress.deadlines[0] = deadline


def planned(statement: str) -> Query:
    catalog = Catalog()
    ScriptExecutor(dialect_of(), dialect_of().planner(catalog), lambda action, text: None).run(VIEWS + statement)
    (query,) = catalog.queries.values()
    return query


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EmbeddedLog]:
    with EmbeddedLog(tmp_path / "data", Settings.of(storage_maintenance_interval=timedelta(0))) as opened:
        opened.create_topic(TICKS, TopicSpec())
        yield opened


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_000_000)


@pytest.fixture
def ticker(log: EmbeddedLog, clock: ManualClock) -> Iterator[Ticker]:
    made = Ticker(log, clock)
    yield made
    made.close()


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(planned(FINAL), tmp_path)


def ticks(log: EmbeddedLog, count: int) -> list[int]:
    """The times of so many ticks, once they are there."""
    while True:
        rung = log.store.commit_signal.commits
        if log.bounds(TICKS)[0].end >= count:
            return [record.timestamp for record in log.read(TICKS, 0, 0).records()]
        log.wait(rung, timedelta(seconds=10))


def moved(clock: ManualClock, ticker: Ticker, ms: int) -> None:
    clock.advance(timedelta(milliseconds=ms))
    ticker.wake()


def test_a_tick_follows_the_latest_record_by_its_distance_to_the_deadline(log, clock, ticker, run) -> None:
    run.read(time=7_000, deadline=10_000)  # records of 1970: the clock on the wall is far ahead
    ticker.on_batch(run)
    moved(clock, ticker, 2_999)
    assert log.bounds(TICKS)[0].end == 0
    moved(clock, ticker, 1)
    assert ticks(log, 1) == [10_000]


@pytest.mark.parametrize(("read_at", "left"), [(999_600, 2_600), (1_000_001, 3_000), (1, 3_000)])
def test_the_duration_of_a_batch_does_not_delay_a_tick(log, clock, ticker, run, read_at: int, left: int) -> None:
    """Unless the clock that is asked is another than the one by which it was read."""
    run.read_at = read_at
    run.read(time=7_000, deadline=10_000)
    ticker.on_batch(run)
    moved(clock, ticker, left - 1)
    assert log.bounds(TICKS)[0].end == 0
    moved(clock, ticker, 1)
    assert ticks(log, 1) == [10_000]


def test_event_time_continues_from_a_tick(log, clock, ticker, run) -> None:
    run.read(time=0, deadline=10_000)
    ticker.on_batch(run)
    moved(clock, ticker, 10_000)
    assert ticks(log, 1) == [10_000]
    run.read(time=0, deadline=20_000)  # the tick's batch; the latest record is still the same
    ticker.on_batch(run)
    moved(clock, ticker, 10_000)
    assert ticks(log, 2) == [10_000, 20_000]


def test_only_a_newer_record_resets_the_event_time(log, clock, ticker, run) -> None:
    run.read(time=0, deadline=10_000)
    ticker.on_batch(run)
    moved(clock, ticker, 5_000)
    run.read(time=1_000, deadline=10_000)
    ticker.on_batch(run)
    moved(clock, ticker, 5_000)
    assert log.bounds(TICKS)[0].end == 0  # event time is 6,000
    run.read(time=1_000, deadline=10_000)
    ticker.on_batch(run)
    moved(clock, ticker, 4_000)
    assert ticks(log, 1) == [10_000]


def test_a_query_gets_no_tick_while_it_has_lag(log, clock, ticker, run) -> None:
    run.left = [5, 3, 1]
    run.read(time=0, deadline=100)
    ticker.on_batch(run)
    moved(clock, ticker, 100)
    assert ticks(log, 1) == [100]
    assert run.left == []


def test_stopped_queries_and_queries_without_a_deadline_get_no_ticks(log, clock, ticker, run, tmp_path) -> None:
    other = Run(planned(PLAIN), tmp_path, ticks="__ticks.other")
    log.create_topic("__ticks.other")
    run.read(time=0, deadline=100)
    ticker.on_batch(run)
    ticker.remove(run.query.id)
    moved(clock, ticker, 1_000)
    other.read(time=0, deadline=None)
    ticker.on_batch(other)
    moved(clock, ticker, 1_000_000)
    ticker.close()
    assert (log.bounds(TICKS)[0].end, log.bounds("__ticks.other")[0].end) == (0, 0)


def test_very_late_deadlines_do_not_overflow(log, clock, ticker, run) -> None:
    run.read(time=0, deadline=1 << 62)
    ticker.on_batch(run)
    run.read(time=5, deadline=1_000)
    ticker.on_batch(run)
    moved(clock, ticker, 995)
    assert ticks(log, 1) == [1_000]


def test_a_failed_append_is_retried(log, clock, ticker, run) -> None:
    log.delete_topic(TICKS)
    run.read(time=0, deadline=100)
    ticker.on_batch(run)
    moved(clock, ticker, 100)
    log.create_topic(TICKS)
    assert ticks(log, 1) == [100]


# -- after a restart ------------------------------------------------------------------------------------------------


def test_a_resumed_query_keeps_its_deadline_and_downtime_counts(log, clock, run) -> None:
    before = Ticker(log, clock)
    run.read(time=0, deadline=10_000)
    before.on_batch(run)
    before.close()
    clock.advance(timedelta(seconds=4))

    again = Run(run.query, run.folder, resumed=True)
    after = Ticker(log, clock)
    after.add(again)
    assert ticks(log, 1) == [0]  # the question
    again.read(time=None, deadline=10_000)  # no record has come
    after.on_batch(again)
    moved(clock, after, 5_999)
    assert log.bounds(TICKS)[0].end == 1
    moved(clock, after, 1)
    assert ticks(log, 2) == [0, 10_000]
    after.close()


def test_without_a_valid_time_file_event_time_is_that_of_the_clock(log, clock, run) -> None:
    (run.folder / "time.json").write_text('{"time": null')
    run.resumed = True
    ticker = Ticker(log, clock)
    ticker.add(run)
    run.read(time=None, deadline=clock.now() + 500)  # then event time is taken to be that of the clock
    ticker.on_batch(run)
    moved(clock, ticker, 500)
    assert ticks(log, 2) == [0, 1_000_500]
    ticker.close()


@pytest.mark.parametrize(("statement", "resumed"), [(FINAL, False), (PLAIN, True)], ids=["new", "without deadlines"])
def test_queries_without_deadlines_get_no_tick_on_resume(log, ticker, tmp_path, statement: str, resumed: bool) -> None:
    ticker.add(Run(planned(statement), tmp_path, resumed=resumed))
    assert log.bounds(TICKS)[0].end == 0


def test_a_tick_is_stored_as_a_record(log, clock, ticker, run) -> None:
    run.read(time=0, deadline=1)
    ticker.on_batch(run)
    moved(clock, ticker, 1)
    ticks(log, 1)
    log.append([Append(TICKS, [Record(b"more")])])
    assert [record.offset for record in log.read(TICKS, 0, 0).records()] == [0, 1]
