"""Notices describe rows of all users, so only principals with unfiltered read access see them."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.access.grants import Grant
from tests.unit.control.alerts.test_delivery import write
from tests.unit.notifiers.test_web_push import AUTH, BROWSER
from tests.unit.serve.access.conftest import Person, Place

SUBSCRIBED = "/api/v1/notifiers/BROWSERS/subscriptions"
KEYS = {"p256dh": BROWSER, "auth": AUTH}


@pytest.fixture
def alerting(declared: Place) -> Place:
    declared.node.execute(
        "CREATE NOTIFIER BROWSERS TYPE PUSH; CREATE ALERT MANY ON ORDERS WHEN ID > 1 NOTIFY BROWSERS;"
    )
    declared.node.guard.users.grant("hands", Grant.of("control", "source", "MANY"), by="local")
    write(declared.node, "n1", alert="MANY", target="a-key-of-the-us", notify=())
    return declared


def seen(person: Person) -> tuple[int, list[Any]]:
    """How many are raised, and the ids of notices."""
    (alert,) = person("GET", "/api/v1/alerts").told
    assert len(alert["raised"]) == alert["raised_count"]
    return alert["raised_count"], [one["id"] for one in person("GET", "/api/v1/notices").told["notices"]]


def test_notices_are_shown_only_to_users_who_may_read_all_rows(alerting: Place) -> None:
    some, hands, all_rows, admin = (alerting.user(role, role) for role in ("eu", "hands", "clerks", "admin"))
    assert seen(some) == seen(hands) == (0, [])
    assert seen(all_rows) == seen(admin) == (1, ["n1"])
    for person in (some, hands):
        assert b"a-key-of-the-us" not in person("GET", "/api/v1/alerts/MANY").body


def subscribe(person: Person, name: str = "x") -> Any:
    return person("POST", SUBSCRIBED, {"endpoint": f"https://push.example/{name}", "keys": KEYS})


def test_only_users_who_may_read_all_rows_can_subscribe(alerting: Place) -> None:
    some, hands, all_rows, admin = (alerting.user(role, role) for role in ("eu", "hands", "clerks", "admin"))
    assert [subscribe(person).status for person in (some, hands)] == [403, 403]
    assert [subscribe(person, str(number)).status for number, person in enumerate((all_rows, admin))] == [201, 201]
    there = alerting.node.alerts.sender_context.subscriptions.of("BROWSERS")
    assert [one.owner for one in there] == ["clerks", "admin"]


def test_a_subscription_belongs_to_its_owner(alerting: Place) -> None:
    alice, bob, admin = (
        alerting.user("alice", "clerks"),
        alerting.user("bob", "clerks"),
        alerting.user("carol", "admin"),
    )
    ids = [subscribe(alice, name).told["id"] for name in ("x", "y")]
    assert subscribe(bob, "x").code == "not-allowed"
    assert bob("DELETE", f"{SUBSCRIBED}/{ids[0]}").status == 403
    assert alice("DELETE", f"{SUBSCRIBED}/{ids[0]}").status == 204
    assert admin("DELETE", f"{SUBSCRIBED}/{ids[1]}").status == 204
    assert alerting.node.alerts.sender_context.subscriptions.of("BROWSERS") == []


def test_rights_are_checked_when_a_notice_is_sent(alerting: Place) -> None:
    alerting.user("alice", "clerks")
    query = alerting.node.catalog.alerts["MANY"].id
    assert alerting.node.alerts.is_shown("alice", query)
    assert not alerting.node.alerts.is_shown("nobody-here", query)
    alerting.node.guard.users.remove_user("alice", by="local")
    assert not alerting.node.alerts.is_shown("alice", query)
