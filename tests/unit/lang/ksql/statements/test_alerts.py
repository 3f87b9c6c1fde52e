"""Alerts and notifiers in the catalog: creation, refusals, LIST and DESCRIBE."""

from __future__ import annotations

import pytest

from headrace.errors import AlertExists, HeadraceError, NotifierExists, NotifierInUse, SourceInUse, UnknownAlert
from headrace.lang.listing_text import listing_text
from headrace.testing.world import World

STATEMENTS = """
CREATE STREAM readings (device STRING KEY, t DOUBLE) WITH (kafka_topic='readings', format='JSON');
CREATE NOTIFIER ops TYPE WEBHOOK WITH (url='https://example.com/hook', secret='${env:HOOK_SECRET}', wait='5s');
CREATE ALERT hot ON readings WHEN t > 30 FOR 5 MINUTES NOTIFY ops, ops;
"""


@pytest.fixture
def world() -> World:
    world = World()
    world.execute(STATEMENTS)
    return world


def test_an_alert_is_a_query_until_it_is_dropped(world: World) -> None:
    assert list(world.catalog.alerts) == ["HOT"]
    assert list(world.running) == ["ALERT_HOT_0"]
    assert world.catalog.alerts["HOT"].alert is not None
    assert world.catalog.alerts["HOT"].alert.notify == ("OPS",)
    world.execute("CREATE ALERT IF NOT EXISTS hot ON readings WHEN t > 40;")
    assert len(world.running) == 1
    world.execute("DROP ALERT hot; DROP ALERT IF EXISTS hot; DROP NOTIFIER ops; DROP NOTIFIER IF EXISTS ops;")
    assert (world.running, world.catalog.alerts, world.catalog.notifiers) == ({}, {}, {})


def test_terminating_the_query_drops_the_alert(world: World) -> None:
    world.execute("TERMINATE ALL;")
    assert world.catalog.alerts == {}


@pytest.mark.parametrize(
    ("statement", "error", "column"),
    [
        ("CREATE ALERT hot ON readings WHEN t > 1;", AlertExists, 1),
        ("CREATE NOTIFIER ops TYPE LOG;", NotifierExists, 1),
        ("DROP NOTIFIER ops;", NotifierInUse, 1),
        ("DROP STREAM readings;", SourceInUse, 1),
        ("DESCRIBE ALERT cold;", UnknownAlert, 16),
        ("UNMUTE ALERT cold;", UnknownAlert, 14),
    ],
)
def test_invalid_statements_are_refused(world: World, statement: str, error: type[HeadraceError], column: int) -> None:
    with pytest.raises(error) as raised:
        world.execute(statement)
    assert raised.value.where == f"line 1:{column}"


def test_listings_and_descriptions_contain_no_secrets(world: World) -> None:
    world.execute("LIST ALERTS; LIST NOTIFIERS; DESCRIBE ALERT hot; EXPLAIN ALERT_HOT_0;")
    alerts, notifiers, described, explained = world.answers
    (row,) = alerts.body()["alerts"]
    assert (row["name"], row["source"], row["rule"]) == ("HOT", "READINGS", "raised when it holds for 5m")
    assert (row["severity"], row["notify"], row["queryId"]) == ("warning", "OPS", "ALERT_HOT_0")
    shown = notifiers.body()["notifiers"][0]["options"]
    assert "url=https://example.com/hook, secret=${env:HOOK_SECRET}, wait=0:00:05" in shown
    assert "raised when it holds for 5m" in described.body()["plan"]
    assert "CREATE ALERT hot" in listing_text(described)
    assert "alert HOT, raised when it holds for 5m" in str(explained.body())
