"""Alerts of every kind on Spark and in memory give the same notices and ids, across restarts and on idle input."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta

import pytest

from headrace.clock import ManualClock
from headrace.control.program import Program
from headrace.log.embedded import EmbeddedLog
from headrace.plan.alerts import TOPIC
from headrace.settings import Settings
from tests import memory_and_spark

DAY = 86_400_000
STATEMENTS = """
CREATE STREAM readings (device STRING KEY, site STRING, t DOUBLE) WITH (kafka_topic='readings', format='JSON');
CREATE TABLE users (id STRING PRIMARY KEY, n INT) WITH (kafka_topic='users', format='JSON');
CREATE ALERT hot ON readings WHEN t > 30 FOR 5 SECONDS MESSAGE site + ' is hot';
CREATE ALERT silent ON readings WHEN ABSENT FOR 1 DAY PER site;
CREATE ALERT jump ON readings WHEN CHANGE(t) > 50 PERCENT WITHIN 1 HOUR;
CREATE ALERT odd ON readings WHEN t DEVIATES BY 3 FROM SAME HOUR OVER 7 DAYS PER 'all';
CREATE ALERT many ON users WHEN n > 2;
"""


def reading(at: int, t: float, device: str = "a", site: str = "x") -> memory_and_spark.Input:
    return "readings", json.dumps(device), json.dumps({"SITE": site, "T": t}), at


def user(at: int, n: int | None) -> memory_and_spark.Input:
    return "users", '"ann"', None if n is None else json.dumps({"N": n}), at


DAYS = [reading(day * DAY, 20.0 + day % 2) for day in range(6)]
LAST = [
    reading(6 * DAY, 31.0),
    reading(6 * DAY + 6_000, 32.0, "b", "y"),
    reading(6 * DAY + 9_000, 18.0),
    reading(6 * DAY + 20_000, 29.0),  # and no alert is about to be raised: on Spark, time would go on with the clock
]
PIECES = [[*DAYS, user(1, 2), user(2, 3)], [*LAST, user(3, None), user(4, 5)]]


@pytest.fixture
def log(settings: Settings) -> Iterator[EmbeddedLog]:
    with EmbeddedLog(settings.storage.data, settings) as opened:
        yield opened


def by_alert(records: list[memory_and_spark.Output]) -> dict[str, list[memory_and_spark.Output]]:
    """Each alert is a query of its own: what two of them wrote has no order."""
    found: dict[str, list[memory_and_spark.Output]] = {}
    for record in records:
        found.setdefault(json.loads(record[1] or b"{}")["ALERT"], []).append(record)
    return found


def test_every_kind_gives_the_notices_of_memory_across_a_restart(log: EmbeddedLog, settings: Settings) -> None:
    expected = by_alert(memory_and_spark.in_memory(STATEMENTS, [record for piece in PIECES for record in piece])[TOPIC])
    found = by_alert(memory_and_spark.on_spark(STATEMENTS, PIECES, log, settings)[TOPIC])
    assert expected.keys() == {"HOT", "SILENT", "JUMP", "ODD", "MANY"}
    assert found == expected


def test_absence_is_raised_on_idle_input(log: EmbeddedLog, settings: Settings) -> None:
    clock = ManualClock(1_000_000_000)
    readings, *_ = STATEMENTS.strip().splitlines()
    with Program(log, settings, clock=clock) as program:
        program.execute(f"{readings} CREATE ALERT silent ON readings WHEN ABSENT FOR 30 SECONDS;")
        memory_and_spark.append(log, *reading(1_000, 1.0))
        program.wait(until_idle=True)
        assert memory_and_spark.written(log, TOPIC) == []
        clock.advance(timedelta(seconds=31))
        program.wake()
        program.wait(on_poll=lambda: program.stopping.set() if memory_and_spark.written(log, TOPIC) else None)
    ((key, _, at),) = memory_and_spark.written(log, TOPIC)
    assert (key, at) == (b"a", 31_000)
