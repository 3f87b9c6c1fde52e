"""Ticks and cuts that a replay needs are retained as long as the records that it would read."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from headrace.contracts import Append
from headrace.engine.io.replay_retention import trim_ticks
from headrace.log.embedded import EmbeddedLog
from headrace.log.stored_rows import from_records
from headrace.record import Record
from headrace.settings import Settings

TICKS = "__ticks.q"


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EmbeddedLog]:
    """Ten records of a topic, each with a tick behind it."""
    with EmbeddedLog(tmp_path / "data", Settings.of(storage_maintenance_interval=timedelta(0))) as opened:
        opened.create_topic("a")
        opened.create_topic(TICKS)
        for number in range(10):
            for topic in ("a", TICKS):
                opened.append([Append(topic, from_records([Record(b"", occurred_at=number)]))])
        yield opened


def left(log: EmbeddedLog) -> tuple[int, int]:
    return log.bounds(TICKS)[0]


def test_ticks_are_retained_while_their_records_exist(log: EmbeddedLog) -> None:
    trim_ticks(log, "q", ["a", TICKS], log.head(["a", TICKS]))
    assert left(log) == (0, 10)


def test_ticks_before_the_first_retained_record_are_removed(log: EmbeddedLog) -> None:
    log.truncate("a", 0, 6)
    for _ in range(2):
        trim_ticks(log, "q", ["a", TICKS], log.head(["a", TICKS]))
        assert left(log) == (5, 10)  # the tick behind the sixth record may be followed by one that is there
    log.truncate("a", 0, 10)
    trim_ticks(log, "q", ["a", TICKS], log.head(["a", TICKS]))
    assert left(log) == (9, 10)


def test_an_unprocessed_tick_is_retained(log: EmbeddedLog) -> None:
    log.truncate("a", 0, 10)
    trim_ticks(log, "q", ["a", TICKS], 4)
    assert left(log) == (2, 10)
    assert log.removed([TICKS]) <= 4
