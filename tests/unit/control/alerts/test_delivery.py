"""Delivery of notices: each notifier sends its own once, across restarts, and records the outcome."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from headrace.backoff import Backoff
from headrace.clock import ManualClock
from headrace.contracts import Append, Log
from headrace.control.alerts import delivery
from headrace.control.alerts.history import OUTCOMES_TOPIC, newest_notices, parse_outcome
from headrace.control.node import Node
from headrace.control.statements.journal import read_journal
from headrace.errors import DiskFull
from headrace.log.embedded import EmbeddedLog
from headrace.log.embedded.commit.writers import EmbeddedWriter
from headrace.log.folded_topic import read_records
from headrace.log.stored_rows import from_records
from headrace.notifiers.contract import Notice
from headrace.notifiers.push_subscriptions import PushSubscription
from headrace.plan.alerts import TOPIC
from headrace.record import Record
from headrace.settings import Settings
from tests.notifier_receivers import Answer, WebhookReceiver, webhook_receiver
from tests.unit.control.test_node import Nowhere
from tests.wait import wait_until

READINGS = "CREATE STREAM readings (device STRING KEY, t DOUBLE) WITH (kafka_topic='readings', format='JSON');"


class Server:
    """A node whose queries do not run: the notices are written by hand."""

    def __init__(self, folder: Path, clock: ManualClock) -> None:
        self.clock = clock
        self.settings = Settings.of(
            storage_data=folder,
            storage_maintenance_interval=timedelta(0),
            notifiers_webhook_allowed_private="127.0.0.1",
        )

    @contextmanager
    def up(self) -> Iterator[Node]:
        with (
            EmbeddedLog(self.settings.storage.data, self.settings) as log,
            Node(log, self.settings, clock=self.clock, isolation=Nowhere()) as node,
        ):
            yield node


@pytest.fixture
def server(tmp_path: Path) -> Server:
    return Server(tmp_path / "data", ManualClock(1_000_000))


def statements(there: WebhookReceiver, *, wait: str = "0s", patience: str = "1m") -> str:
    return (
        f"{READINGS} CREATE NOTIFIER ops TYPE WEBHOOK WITH (url='{there.url}', wait='{wait}', patience='{patience}');"
        "CREATE ALERT hot ON readings WHEN t > 30 NOTIFY ops; CREATE ALERT cold ON readings WHEN t < 0 NOTIFY ops;"
    )


def write(node: Node, *ids: str, alert: str = "HOT", target: str = "d1", notify: tuple[str, ...] = ("OPS",)) -> None:
    """Notices as the alert's query writes them."""
    append(node.log, node.catalog.alerts[alert].id, *ids, alert=alert, target=target, notify=notify)


def append(log: Log, query: str, *ids: str, alert: str, target: str = "d1", notify: tuple[str, ...] = ("OPS",)) -> None:
    told = {"STATE": "raised", "SEVERITY": "warning", "MESSAGE": "m", "VALUE": 1.0, "SINCE": 1, "AT": 2}
    documents = [{"ID": one, "ALERT": alert, "QUERY": query, "NOTIFY": list(notify), **told} for one in ids]
    records = [Record(json.dumps(document).encode(), target.encode()) for document in documents]
    log.append([Append(TOPIC, from_records(records), 0)])


def settled(node: Node, notice: str) -> Callable[[], bool]:
    return lambda: bool(node.alerts.history.outcomes(notice))


def state(node: Node, notice: str) -> tuple[str, str | None]:
    (outcome,) = node.alerts.history.outcomes(notice)
    return outcome.state, outcome.reason


def keys(there: WebhookReceiver) -> list[str]:
    return [posted.headers["idempotency-key"] for posted in there.posted]


def test_a_notice_is_sent_once_across_restarts(server: Server) -> None:
    with webhook_receiver() as there:
        with server.up() as node:
            node.execute(statements(there))
            write(node, "n1")
            write(node, "other", notify=())
            wait_until(settled(node, "n1"))
            assert state(node, "n1") == ("sent", None)
        with server.up() as node:
            write(node, "n2")
            wait_until(settled(node, "n2"))
            assert [notice.id for _, notice in newest_notices(node.log)] == ["n2", "other", "n1"]
            assert [notice.id for notice in node.alerts.history.raised("ALERT_HOT_2")] == ["n2"]
        assert keys(there) == ["n1", "n2"]


def test_notices_of_one_alert_within_the_wait_are_one_message(server: Server) -> None:
    with webhook_receiver() as there, server.up() as node:
        node.execute(statements(there, wait="200ms"))
        write(node, "n1", "n2")
        write(node, "c1", alert="COLD")
        wait_until(settled(node, "c1"))
        hot, cold = (json.loads(posted.body) for posted in there.posted)
    assert [one["id"] for one in hot["notices"]] == ["n1", "n2"]
    assert (hot["alert"], cold["alert"], cold["id"]) == ("HOT", "COLD", "c1")
    assert hot["id"] not in ("n1", "n2")


def test_a_muted_notice_is_recorded_but_not_sent(server: Server) -> None:
    with webhook_receiver() as there:
        with server.up() as node:
            node.execute(statements(there))
            node.execute("MUTE ALERT hot KEY 'd1' FOR 1 HOUR; MUTE ALERT cold FOR 1 HOUR; UNMUTE ALERT cold;")
        with server.up() as node:  # known after a restart
            assert node.alerts.mutes("HOT") == {"d1": 4_600_000}
            write(node, "n1")
            write(node, "n2", target="d2")
            write(node, "c1", alert="COLD")
            wait_until(settled(node, "c1"))
            assert [state(node, one)[0] for one in ("n1", "n2", "c1")] == ["muted", "sent", "sent"]
            server.clock.advance(timedelta(hours=2))
            write(node, "n3")
            wait_until(settled(node, "n3"))
            assert (state(node, "n3")[0], node.alerts.mutes("HOT")) == ("sent", {})
        assert sorted(keys(there)) == ["c1", "n2", "n3"]


def test_pending_notices_of_a_dropped_alert_are_not_sent(server: Server) -> None:
    with webhook_receiver() as there, server.up() as node:
        node.execute(statements(there, wait="300ms"))
        write(node, "n1")
        node.execute("DROP ALERT hot;")
        wait_until(settled(node, "n1"))
        assert state(node, "n1") == ("dropped", None)
        assert there.posted == []


def answers(*statuses: int) -> Answer:
    return lambda number: (statuses[min(number, len(statuses) - 1)], {})


def test_a_message_is_retried_with_the_same_id_until_it_is_accepted(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "_BACKOFF", Backoff(0.05, 0.05, jitter=0.5))
    with webhook_receiver(answers(500, 503, 200)) as there, server.up() as node:
        node.execute(statements(there))
        write(node, "n1")
        wait_until(settled(node, "n1"))
        assert keys(there) == ["n1", "n1", "n1"]
        assert node.alerts.history.outcomes("n1")[0].tries == 3


def test_a_message_that_is_given_up_records_the_reason(server: Server) -> None:
    with webhook_receiver(answers(503, 400, 200)) as there, server.up() as node:
        node.execute(statements(there, patience="0s"))
        for one in ("n1", "n2", "n3"):
            write(node, one)
            wait_until(settled(node, one))
        assert state(node, "n1") == ("dead", "not-delivered: the other side answered 503")
        assert state(node, "n2") == ("dead", "delivery-refused: the receiver responded with 400")
        assert state(node, "n3") == ("sent", None)
        assert keys(there) == ["n1", "n2", "n3"]


def test_a_stuck_notifier_delays_no_other_and_resumes_after_a_restart(server: Server) -> None:
    with webhook_receiver(answers(503)) as stuck, webhook_receiver() as there:
        with server.up() as node:
            node.execute(statements(there) + f"CREATE NOTIFIER b TYPE WEBHOOK WITH (url='{stuck.url}', wait='0s');")
            write(node, "n1", notify=("B", "OPS"))
            wait_until(settled(node, "n1"))
            wait_until(lambda: bool(stuck.posted))
            assert [one.notifier for one in node.alerts.history.outcomes("n1")] == ["OPS"]
        stuck.answer = answers(200)
        with server.up() as node:
            wait_until(lambda: len(node.alerts.history.outcomes("n1")) == 2)
        assert set(keys(stuck)) == set(keys(there)) == {"n1"}
        assert len(there.posted) == 1


def test_invalid_records_in_the_notice_topic_are_skipped(server: Server) -> None:
    with webhook_receiver() as there, server.up() as node:
        node.execute(statements(there))
        node.log.append([Append(TOPIC, from_records([Record(b"no json"), Record(b"{}"), Record(None)]), 0)])
        write(node, "n1")
        wait_until(settled(node, "n1"))
        assert keys(there) == ["n1"]


def test_a_notice_is_read_back_unchanged(server: Server) -> None:
    with webhook_receiver() as there, server.up() as node:
        node.execute(statements(there))
        write(node, "n1", notify=())
        ((_, notice),) = newest_notices(node.log)
    assert notice == Notice("n1", "HOT", "ALERT_HOT_2", "d1", "raised", "warning", "m", 1.0, 1, 2)


def test_a_compacted_journal_restores_alerts_notifiers_and_mutes(server: Server) -> None:
    with webhook_receiver() as there:
        with server.up() as node:
            node.execute(statements(there) + "CREATE NOTIFIER gone TYPE LOG; DROP NOTIFIER gone; DROP ALERT cold;")
            for number in range(60):
                node.execute(f"MUTE ALERT hot KEY 'k{number % 2}' FOR {number + 1} MINUTES; UNMUTE ALERT hot KEY 'k1';")
            assert len(read_journal(node.log)[0]) < 50
            before = (list(node.catalog.alerts), node.catalog.notifiers, node.alerts.mutes("HOT"))
        with server.up() as node:
            assert (list(node.catalog.alerts), node.catalog.notifiers, node.alerts.mutes("HOT")) == before
            assert before[2] == {"k0": 1_000_000 + 59 * 60_000}
            assert node.broken == {}


# -- the log does not take what is noted, or does not give all at once ----------------------------------------------


@contextmanager
def full(monkeypatch: pytest.MonkeyPatch, *, after: bool = False) -> Iterator[list[int]]:
    """Outcomes are refused, or taken without an answer; yields how often."""
    append, refused = EmbeddedWriter.append, list[int]()

    def failing(writer: EmbeddedWriter, number: int, appends: Sequence[Append]) -> Any:
        is_outcome = any(one.topic == OUTCOMES_TOPIC for one in appends)
        taken = append(writer, number, appends) if after or not is_outcome else None
        if is_outcome:
            refused.append(number)
            raise DiskFull("there is no room")
        return taken

    with monkeypatch.context() as patched:
        patched.setattr(delivery, "_IDLE_WAIT", 0.01)
        patched.setattr(EmbeddedWriter, "append", failing)
        yield refused


def noted(node: Node) -> list[tuple[str, tuple[str, ...]]]:
    return [(one.state, one.notices) for one in map(parse_outcome, read_records(node.log, OUTCOMES_TOPIC))]


def test_nothing_is_sent_while_an_outcome_cannot_be_recorded(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    with webhook_receiver() as there, server.up() as node:
        node.execute(statements(there))
        with full(monkeypatch) as refused:
            write(node, "n1")
            write(node, "n2", alert="COLD")
            wait_until(lambda: len(refused) > 3)
            assert keys(there) == ["n1"]
        wait_until(settled(node, "n2"))
        assert keys(there) == ["n1", "n2"]
        assert noted(node) == [("sent", ("n1",)), ("sent", ("n2",))]


def test_an_outcome_is_recorded_once_if_the_acknowledgement_is_lost(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    with webhook_receiver() as there, server.up() as node:
        node.execute(statements(there))
        with full(monkeypatch, after=True) as refused:
            write(node, "n1")
            wait_until(lambda: bool(refused))
        write(node, "n2")
        wait_until(settled(node, "n2"))
        assert keys(there) == ["n1", "n2"]
        assert noted(node) == [("sent", ("n1",)), ("sent", ("n2",))]


def is_over(node: Node) -> Callable[[], bool]:
    return lambda: not node.alerts.delivery._threads["OPS"].is_alive


def test_a_fenced_server_sends_nothing_more(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    with webhook_receiver() as there, server.up() as node, caplog.at_level(logging.ERROR):
        node.execute(statements(there))
        write(node, "n1")
        wait_until(settled(node, "n1"))
        node.log.writer("notifier-OPS")  # as another server does
        write(node, "n2")
        wait_until(is_over(node))
        assert keys(there) == ["n1"]
        assert [one.getMessage() for one in caplog.records if "another server" in one.getMessage()] == [
            "notifier OPS: another server delivers its messages now, so this one stops"
        ]


def test_a_fenced_server_does_not_retry(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "_BACKOFF", Backoff(0.05, 0.05, jitter=0.5))

    def answer(number: int) -> tuple[int, dict[str, str]]:
        if number == 2:
            node.log.writer("notifier-OPS")
        return 503, {}

    with webhook_receiver(answer) as there, server.up() as node:
        node.execute(statements(there))
        write(node, "n1")
        wait_until(is_over(node))
        assert keys(there) == ["n1"] * 3


def test_notices_read_in_several_batches_are_one_message(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    read = EmbeddedLog.read
    short = lambda log, *place, **_: read(log, *place, max_records=1)  # noqa: E731
    monkeypatch.setattr(EmbeddedLog, "read", short)
    with webhook_receiver() as there, server.up() as node:
        node.execute(statements(there, wait="200ms"))
        write(node, "n1", "n2", "n3")
        wait_until(settled(node, "n3"))
        assert [one["id"] for one in json.loads(there.posted[0].body)["notices"]] == ["n1", "n2", "n3"]
        assert [notice.id for _, notice in newest_notices(node.log)] == ["n3", "n2", "n1"]
        assert noted(node) == [("sent", ("n1", "n2", "n3"))]


def test_notices_removed_before_delivery_are_recorded_as_lost(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "_BACKOFF", Backoff(0.05, 0.05, jitter=0.5))
    with webhook_receiver(answers(503)) as there, server.up() as node:
        node.execute(statements(there, wait="200ms"))
        write(node, "n1", "n2")
        wait_until(lambda: bool(there.posted))
        node.log.truncate(TOPIC, 0, 1)
        wait_until(settled(node, "n1"))
        there.answer = answers(200)
        wait_until(settled(node, "n2"))
        assert (state(node, "n1")[0], state(node, "n2")[0]) == ("lost", "sent")
        assert len(set(keys(there))) == 1  # it keeps its id


# -- what changes while it is tried ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statement", "expected"), [("DROP ALERT hot;", "dropped"), ("MUTE ALERT hot FOR 1 HOUR;", "muted")]
)
def test_statements_between_two_attempts_take_effect(
    server: Server, monkeypatch: pytest.MonkeyPatch, statement: str, expected: str
) -> None:
    monkeypatch.setattr(delivery, "_BACKOFF", Backoff(0.05, 0.05, jitter=0.5))
    with webhook_receiver(answers(503)) as there, server.up() as node:
        node.execute(statements(there))
        write(node, "n1")
        wait_until(lambda: bool(there.posted))
        node.execute(statement)
        wait_until(settled(node, "n1"))
        assert state(node, "n1") == (expected, None)


def test_the_rest_of_a_message_keeps_its_id(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "_BACKOFF", Backoff(0.05, 0.05, jitter=0.5))
    with webhook_receiver(answers(503)) as there, server.up() as node:
        node.execute(statements(there, wait="200ms"))
        write(node, "n1", target="d1")
        write(node, "n2", target="d2")
        wait_until(lambda: bool(there.posted))
        node.execute("MUTE ALERT hot KEY 'd1' FOR 1 HOUR;")
        wait_until(settled(node, "n1"))
        there.answer = answers(200)
        wait_until(settled(node, "n2"))
        assert [state(node, one)[0] for one in ("n1", "n2")] == ["muted", "sent"]
        assert [one["id"] for one in json.loads(there.posted[-1].body)["notices"]] == ["n2"]
        assert len(set(keys(there))) == 1


def test_a_full_message_is_sent_without_waiting(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "_MAX_NOTICES_PER_PASS", 3)
    monkeypatch.setattr(delivery, "_MAX_NOTICES_PER_MESSAGE", 2)
    with webhook_receiver() as there, server.up() as node:
        node.execute(statements(there, wait="1h"))
        write(node, "n1", "n2", "n3")
        wait_until(settled(node, "n3"))
        assert [len(json.loads(posted.body)["notices"]) for posted in there.posted] == [2, 1]


def test_old_notices_are_sent_without_waiting(server: Server) -> None:
    with webhook_receiver() as there, server.up() as node:
        node.execute(statements(there, wait="1h"))
        node.alerts.delivery._threads["OPS"]._ends.append((1, time.monotonic() - 3_600))
        write(node, "n1")
        wait_until(settled(node, "n1"))


def test_a_notifier_is_replaced_while_the_old_one_still_sends(server: Server) -> None:
    """The statement does not wait for the other side, the new one does."""
    answered = threading.Event()

    def answer(number: int) -> tuple[int, dict[str, str]]:
        return 200 if number or answered.wait(60) else 500, {}

    with webhook_receiver(answer) as there, server.up() as node:
        node.execute(statements(there))
        write(node, "n1")
        wait_until(lambda: bool(there.posted))
        alerts = "CREATE ALERT hot ON readings WHEN t > 30 NOTIFY ops;"
        notifier = f"CREATE NOTIFIER ops TYPE WEBHOOK WITH (url='{there.url}', wait='0s');"
        node.execute(f"DROP ALERT hot; DROP ALERT cold; DROP NOTIFIER ops; {notifier} {alerts}")
        assert not answered.is_set()
        write(node, "n2")
        answered.set()
        wait_until(settled(node, "n2"))
        assert keys(there) == ["n1", "n2"]


def test_a_failure_reason_contains_no_secret(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_HOST", "a-word-to-keep")
    with webhook_receiver() as there, server.up() as node:
        node.execute(
            statements(there)
            + "CREATE NOTIFIER b TYPE WEBHOOK WITH (url='http://${env:HOOK_HOST}.invalid/', wait='0s', patience='0s');"
        )
        write(node, "n1", notify=("B",))
        wait_until(settled(node, "n1"))
        told, reason = state(node, "n1")
    assert told == "dead"
    assert reason is not None
    assert "has no address" in reason
    assert "to-keep" not in reason


def test_dropping_an_alert_or_notifier_deletes_its_state(server: Server) -> None:
    with webhook_receiver() as there, server.up() as node:
        node.execute(statements(there) + "CREATE NOTIFIER browsers TYPE PUSH;")
        write(node, "n1", notify=())
        assert len(node.alerts.history.raised("ALERT_HOT_2")) == 1
        node.alerts.sender_context.subscriptions.add(PushSubscription("BROWSERS", "https://x/", "", ""))
        node.execute("DROP ALERT hot; DROP NOTIFIER browsers;")
        assert node.alerts.history.raised("ALERT_HOT_2") == []
        assert node.alerts.sender_context.subscriptions.of("BROWSERS") == []
