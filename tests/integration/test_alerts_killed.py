"""A server is killed while it sends notices: the next one resumes, loses nothing, and resends with the old id."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from headrace.clock import ManualClock
from headrace.control.alerts.history import OUTCOMES_TOPIC, parse_outcome
from headrace.faultpoints import VARIABLE
from headrace.log.embedded import EmbeddedLog
from tests.memory_and_spark import stored
from tests.notifier_receivers import WebhookReceiver, webhook_receiver
from tests.unit.control.alerts.test_delivery import Server, append, keys, statements

SEND = """
import sys
from pathlib import Path
from headrace.clock import ManualClock
from tests.unit.control.alerts.test_delivery import Server
from tests.wait import wait_until
with Server(Path(sys.argv[1]), ManualClock(1_000_000)).up() as node:
    wait_until(lambda: all(node.alerts.history.outcomes(one) for one in ("n1", "n2", "n3")))
"""
NOTICES = {"n1": "ALERT_HOT_2", "n2": "ALERT_COLD_3", "n3": "ALERT_HOT_2"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data"


def prepared(folder: Path, there: WebhookReceiver) -> None:
    """Notices lie there, of two alerts: two messages. Nobody has sent anything."""
    with Server(folder, ManualClock(1_000_000)).up() as node:
        node.execute(statements(there))
    with EmbeddedLog(folder) as log:
        for one, query in NOTICES.items():
            append(log, query, one, alert=query.split("_")[1])


def life(folder: Path, point: str = "", mark: Path | None = None) -> subprocess.Popen[bytes]:
    environment = {**os.environ, VARIABLE: f"{point}:1:{mark}"} if mark else dict(os.environ)
    return subprocess.Popen([sys.executable, "-c", SEND, str(folder)], env=environment)


def outcomes(folder: Path) -> list[tuple[str, tuple[str, ...]]]:
    with EmbeddedLog(folder) as log:
        return [(one.state, one.notices) for one in map(parse_outcome, stored(log, OUTCOMES_TOPIC))]


@pytest.mark.faults
@pytest.mark.parametrize(("point", "again"), [("alert-planned", 0), ("alert-sent", 1)])
def test_a_kill_before_or_after_sending_loses_no_message(folder: Path, tmp_path: Path, point: str, again: int) -> None:
    with webhook_receiver() as there:
        prepared(folder, there)
        mark = tmp_path / "mark"
        assert life(folder, point, mark).wait(120) == -signal.SIGKILL
        assert mark.read_text() == point
        assert len(there.posted) == again
        assert life(folder).wait(120) == 0
        sent = Counter(keys(there))
    assert sorted(sent.values()) == [1, 1 + again]
    assert sorted(outcomes(folder)) == [("sent", ("n1", "n3")), ("sent", ("n2",))]


@pytest.mark.faults
def test_a_kill_while_the_receiver_responds_resends_with_the_same_id(folder: Path) -> None:
    """The receiver has the message, and the sender never learns of it."""
    with webhook_receiver() as there:
        prepared(folder, there)
        process = life(folder)

        def answer(number: int) -> tuple[int, dict[str, str]]:
            if number == 0:
                process.kill()
                process.wait(120)
            return 200, {}

        there.answer = answer
        assert process.wait(120) == -signal.SIGKILL
        assert life(folder).wait(120) == 0
        first, second, third = keys(there)
    assert first == second != third
    assert [there.posted[0].body] == [there.posted[1].body]
    assert sorted(outcomes(folder)) == [("sent", ("n1", "n3")), ("sent", ("n2",))]
    assert life(folder).wait(120) == 0  # a further life has nothing to send
    assert len(there.posted) == 3
