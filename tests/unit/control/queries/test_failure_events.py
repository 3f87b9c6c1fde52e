"""Failures of queries are counted, and written to a topic."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from headrace.clock import ManualClock
from headrace.contracts import Append
from headrace.control.queries.failure_events import TOPIC, FailureEvents
from headrace.control.queries.restart_policy import QueryFailure
from headrace.errors import DiskFull, ProcessLost, RecordFailed
from headrace.log.embedded import EmbeddedLog
from headrace.settings import Settings
from headrace.testing.world import World
from tests.wait import wait_until

LOST = QueryFailure(ProcessLost("query a lost a process"), 2, 17.0)
STOPPED = QueryFailure(RecordFailed("query b failed at 13", where="offset 7"), 1, None)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EmbeddedLog]:
    with EmbeddedLog(tmp_path / "data", Settings.of(storage_maintenance_interval=timedelta(0))) as opened:
        yield opened


def written(log: EmbeddedLog) -> list[tuple[bytes | None, dict[str, Any]]]:
    return [(record.key, json.loads(record.value or b"")) for record in log.read(TOPIC, 0, 0).records()]


def close(events: FailureEvents, log: EmbeddedLog, count: int) -> None:
    """Close when so many events are written: `close` itself waits for a short time only."""
    wait_until(lambda: bool(log.topics()) and len(written(log)) == count)
    events.close()


def test_failures_are_counted_and_written(log: EmbeddedLog) -> None:
    events = FailureEvents(log, ManualClock(5))
    events.add("a", LOST, 3)
    events.add("a", LOST, 3)
    events.add("b", STOPPED, None)
    close(events, log, 3)
    assert events.counts == {("a", "process-lost"): 2, ("b", "record-failed"): 1}
    lost, _, stopped = written(log)
    assert lost[0] == b"a"
    assert lost[1] == {
        "STATE": "restarting",
        "CODE": "process-lost",
        "WHAT": "query a lost a process",
        "WHERE": None,
        "FIX": None,
        "FAILURES": 2,
        "BATCH": 3,
        "AT": 5,
    }
    assert (stopped[0], stopped[1]["STATE"], stopped[1]["WHERE"]) == (b"b", "failed", "offset 7")


@pytest.mark.parametrize("error", [DiskFull("no space"), OSError("a bad disk"), ValueError("a defect")], ids=repr)
def test_events_wait_until_the_log_takes_them(
    log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    append: Callable[..., Any] = log.append
    tries: list[int] = []

    def full(appends: Sequence[Append], **options: Any) -> Any:
        tries.append(len(appends))
        if len(tries) == 1:
            events.add("b", STOPPED, None)
            raise error
        return append(appends, **options)

    monkeypatch.setattr(log, "append", full)
    events = FailureEvents(log, ManualClock())
    events.add("a", LOST, None)
    close(events, log, 2)
    assert len(tries) == 2
    assert [key for key, _ in written(log)] == [b"a", b"b"]


def test_a_log_that_takes_nothing_delays_no_close(log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> Any:
        raise DiskFull("no space")

    monkeypatch.setattr(log, "append", full)
    events = FailureEvents(log, ManualClock())
    for _ in range(1_500):
        events.add("a", LOST, None)
    events.close()
    assert events.counts == {("a", "process-lost"): 1_500}


def test_without_failures_there_is_no_topic(log: EmbeddedLog) -> None:
    FailureEvents(log, ManualClock()).close()
    assert log.topics() == []


ALERT = """
CREATE STREAM query_events (query STRING KEY, state STRING, code STRING, what STRING, batch BIGINT, at BIGINT)
  WITH (kafka_topic='query_events', partitions=1, key_format='KAFKA', value_format='JSON');
CREATE ALERT query_failed ON query_events WHEN state = 'failed' PER query MESSAGE what;
"""


def test_an_alert_can_watch_the_events(log: EmbeddedLog) -> None:
    events = FailureEvents(log, ManualClock())
    events.add("a", LOST, 3)
    events.add("b", STOPPED, None)
    close(events, log, 2)
    world = World()
    world.execute(ALERT)
    for at, (key, event) in enumerate(written(log)):
        world.produce(TOPIC, key, json.dumps(event).encode(), at)
    (notice,) = [(one.key, json.loads(one.value or b"")) for one in world.topics["__alerts"]]
    assert (notice[0], notice[1]["STATE"], notice[1]["MESSAGE"]) == (b"b", "raised", "query b failed at 13")
