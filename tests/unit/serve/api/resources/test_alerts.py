"""Alerts over HTTP: raised alerts, the history, muting, and testing a notifier."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from headrace.control.alerts import history
from headrace.control.node import Node
from headrace.log.embedded import EmbeddedLog
from headrace.notifiers.push_encryption import base64url_decode
from headrace.settings import Settings
from tests.notifier_receivers import webhook_receiver
from tests.unit.control.alerts.test_delivery import READINGS, write
from tests.unit.control.test_node import Nowhere
from tests.unit.notifiers.test_web_push import AUTH, BROWSER
from tests.unit.serve.api.conftest import Client
from tests.wait import wait_until


@pytest.fixture
def node(log: EmbeddedLog) -> Iterator[Node]:
    settings = Settings.of(storage_data=log.folder, notifiers_webhook_allowed_private="127.0.0.1")
    with Node(log, settings, isolation=Nowhere()) as node:
        yield node


def alerting(url: str) -> str:
    return (
        f"{READINGS} CREATE NOTIFIER ops TYPE WEBHOOK WITH (url='{url}', wait='0s', secret='${{env:HOOK_SECRET}}');"
        "CREATE ALERT hot ON readings WHEN t > 30 FOR 5 MINUTES NOTIFY ops;"
    )


def test_alerts_and_their_history_are_listed(ask: Client, node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_SECRET", "hush")
    with webhook_receiver() as there:
        ask.done("POST", "/statements", {"text": alerting(there.url)})
        write(node, "n1", "n2", target="d'1")
        write(node, "n3", target="d2", notify=())
        wait_until(lambda: bool(node.alerts.history.outcomes("n1")))
        (alert,) = ask.done("GET", "/alerts")
        assert (alert["name"], alert["rule"], alert["notify"]) == ("HOT", "raised when it holds for 5m", ["OPS"])
        assert [(one["key"], one["notice"]) for one in alert["raised"]] == [("d'1", "n2"), ("d2", "n3")]
        assert alert["raised_count"] == 2
        first = ask.done("GET", "/notices?limit=2")
        assert [(one["id"], one["key"]) for one in first["notices"]] == [("n3", "d2"), ("n2", "d'1")]
        assert [one["state"] for one in first["notices"][1]["deliveries"]] == ["sent"]
        rest = ask.done("GET", f"/notices?before={first['before']}")
        assert ([one["id"] for one in rest["notices"]], rest["before"]) == (["n1"], None)
        found = ask.done("GET", "/notices?alert=HOT&key=d2&state=raised")
        assert [one["id"] for one in found["notices"]] == ["n3"]


def test_forgotten_outcomes_are_unknown_and_not_pending(
    ask: Client, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK_SECRET", "hush")
    monkeypatch.setattr(history, "_MAX_OUTCOMES", 1)
    with webhook_receiver(lambda number: (200 if number < 2 else 503, {})) as there:
        node.execute(alerting(there.url))
        for one in ("n1", "n2"):
            write(node, one)
            wait_until(lambda one=one: bool(node.alerts.history.outcomes(one)))
        write(node, "n3")
        wait_until(lambda: len(there.posted) > 2)
        found = ask.done("GET", "/notices")["notices"]
    assert [one["deliveries"][0]["state"] for one in found] == ["open", "sent", "unknown"]


def test_an_alert_is_muted_and_unmuted(ask: Client, node: Node) -> None:
    node.execute(READINGS + "CREATE ALERT hot ON readings WHEN t > 30;")
    (mute,) = ask.done("POST", "/alerts/HOT/mute", {"seconds": 60, "key": "d'1"})["mutes"]
    assert (mute["key"], list(node.alerts.mutes("HOT"))) == ("d'1", ["d'1"])
    assert ask.done("POST", "/alerts/HOT/unmute", {})["mutes"] == []
    injected = quote("HOT` FOR 1 DAY; DROP ALERT `HOT", safe="")
    assert ask("POST", f"/alerts/{injected}/mute", {"seconds": 60})[1]["code"] == "unknown-alert"
    quoted = ask.done("POST", "/alerts/HOT/mute", {"seconds": 60, "key": "x' FOR 1 DAY; DROP ALERT hot; '"})
    assert quoted["mutes"][0]["key"] == "x' FOR 1 DAY; DROP ALERT hot; '"
    assert ask("POST", "/alerts/NONE/mute", {"seconds": 60})[1]["code"] == "unknown-alert"
    assert ask("DELETE", "/alerts/HOT")[0] == 204
    assert ask.done("GET", "/alerts") == []


def test_a_notifier_is_tested_and_dropped(ask: Client, node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    with webhook_receiver(lambda number: (200 if number else 503, {})) as there:
        node.execute(alerting(there.url))
        assert ask("POST", "/notifiers/OPS/test")[1]["code"] == "unknown-secret"
        monkeypatch.setenv("HOOK_SECRET", "hush")
        status, told = ask("POST", "/notifiers/OPS/test")
        assert (status, told["code"]) == (503, "not-delivered")
        assert ask("POST", "/notifiers/OPS/test")[0] == 204
        assert json.loads(there.posted[1].body)["notices"][0]["message"] == "this is a test message"
    (notifier,) = ask.done("GET", "/notifiers")
    assert (notifier["alerts"], notifier["options"]["secret"]) == (["HOT"], "${env:HOOK_SECRET}")
    assert ask("DELETE", "/notifiers/OPS")[1]["code"] == "notifier-in-use"
    assert ask("POST", "/notifiers/NONE/test")[0] == ask("DELETE", "/notifiers/NONE")[0] == 404
    ask.done("DELETE", "/alerts/HOT")
    assert ask("DELETE", "/notifiers/OPS")[0] == 204


def test_a_secret_is_in_no_file_and_no_response(
    ask: Client, node: Node, log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK_SECRET", "a-word-to-keep")
    with webhook_receiver() as there:
        node.execute(alerting(there.url))
        write(node, "n1")
        wait_until(lambda: bool(node.alerts.history.outcomes("n1")))
    told = [str(ask.done("GET", path)) for path in ("/notifiers", "/alerts", "/notices", "/statements", "/status")]
    assert not [text for text in told if "a-word-to-keep" in text]
    files = [Path(folder) / name for folder, _, names in os.walk(log.folder) for name in names]
    plain = [path for path in files if stat.S_ISREG(path.stat().st_mode)]
    assert len(plain) > 3
    assert not [path for path in plain if b"a-word-to-keep" in path.read_bytes()]


def test_browsers_subscribe_and_unsubscribe(ask: Client, node: Node) -> None:
    node.execute("CREATE NOTIFIER browsers TYPE PUSH; CREATE NOTIFIER l TYPE LOG;")
    assert len(base64url_decode(ask.done("GET", "/push-key")["key"])) == 65
    asked = {"endpoint": "https://push.example/x", "keys": {"p256dh": BROWSER, "auth": AUTH}}
    path = "/notifiers/BROWSERS/subscriptions"
    id = ask.done("POST", path, asked)["id"]
    assert [one.endpoint for one in node.alerts.sender_context.subscriptions.of("BROWSERS")] == [
        "https://push.example/x"
    ]
    assert ask("POST", path, {**asked, "keys": {}})[0] == 400
    assert ask("POST", "/notifiers/L/subscriptions", asked)[0] == 400
    assert ask("POST", "/notifiers/NONE/subscriptions", asked)[0] == 404
    assert ask("DELETE", f"{path}/{id}")[0] == 204
    assert node.alerts.sender_context.subscriptions.of("BROWSERS") == []
