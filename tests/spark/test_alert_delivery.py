"""Alerts on a real server: rows in, an e-mail and a webhook out, across kills between a notice and its delivery."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from headrace.access.secret_files import find_local_secret
from headrace.client import Client
from headrace.control.alerts.history import OUTCOMES_TOPIC, parse_notice, parse_outcome
from headrace.faultpoints import VARIABLE
from headrace.log.embedded import EmbeddedLog
from headrace.plan.alerts import TOPIC
from headrace.secrets import save_secret
from tests import memory_and_spark
from tests.notifier_receivers import mail_receiver, webhook_receiver
from tests.spark.test_up import PROGRAM
from tests.wait import wait_until

STATEMENTS = """
CREATE STREAM readings (device STRING KEY, t DOUBLE) WITH (kafka_topic='readings', format='JSON');
CREATE NOTIFIER pager TYPE WEBHOOK WITH (url='{url}&word=${{secret:word}}', wait='0s', secret='${{env:PAGER_SECRET}}');
CREATE NOTIFIER mail TYPE EMAIL WITH (to='ops@example.com', wait='0s');
CREATE ALERT hot ON readings WHEN t > 30 MESSAGE device + ' is hot' NOTIFY pager, mail;
"""


@contextmanager
def server(data: Path, more: Mapping[str, str]) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Its process and its address. It may be dead at the end of the block, or even before it listens."""
    command = [*PROGRAM, "--data", str(data), "up", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, **more}) as process:
        assert process.stderr is not None
        told = next((line for line in process.stderr if "listens on" in line), "listens on nothing;")
        below: list[psutil.Process] = []
        try:
            yield process, told.split("listens on ")[1].split(";")[0]
            below = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=60)
            assert psutil.wait_procs(below, timeout=30)[1] == []


def readings(log: EmbeddedLog, life: int) -> None:
    """Into the log, since a server that is to die may be dead before it takes them. They are very old."""
    for at, t in enumerate((31.0, 20.0)):
        memory_and_spark.append(log, "readings", f'"d{life}"', json.dumps({"T": t}), 10 * life + at)


@pytest.mark.faults
def test_notices_are_written_once_and_sent_across_kills(tmp_path: Path) -> None:
    settings = memory_and_spark.settings(tmp_path)
    with webhook_receiver() as there, mail_receiver() as post, EmbeddedLog(settings.storage.data, settings) as log:
        environment = {
            "HEADRACE_NOTIFIERS_WEBHOOK_ALLOWED_PRIVATE": "127.0.0.1",
            "HEADRACE_NOTIFIERS_SMTP_URL": f"smtp://127.0.0.1:{post.port}?tls=none",
            "PAGER_SECRET": "planted-in-environment",
        }
        save_secret("word", "planted-in-folder", settings.storage.data)
        for life, point in enumerate(("alert-planned", "alert-sent", "")):
            mark = tmp_path / f"mark-{life}"
            death = {VARIABLE: f"{point}:1:{mark}"} if point else {}
            with server(settings.storage.data, {**environment, **death}) as (process, address):
                if not life:
                    operator = Client(address, token=find_local_secret(settings.storage.data))
                    operator.execute(STATEMENTS.format(url=there.url))
                readings(log, life)
                if point:
                    assert process.wait(120) == -signal.SIGKILL
                    assert mark.read_text() == point
                else:
                    wait_until(lambda: len(settled(log)) == 12, lambda: (settled(log), keys(log)))
        notices = [notice for record in memory_and_spark.stored(log, TOPIC) if (notice := parse_notice(record))]
    expected = [(f"d{life}", state) for life in range(3) for state in ("raised", "cleared")]
    assert [(one.target, one.state) for one in notices] == expected
    ids = [one.id for one in notices]
    assert len(set(ids)) == 6
    told = [one["id"] for posted in there.posted for one in json.loads(posted.body)["notices"]]
    assert set(told) == set(ids)
    # Each of the two kills may find a message of the other notifier that was sent and has no stored outcome yet.
    assert len(there.posted) <= len({posted.headers["idempotency-key"] for posted in there.posted}) + 2
    assert sum("d0 is hot" in mail for mail in post.mails) >= 1
    assert all("word=planted-in-folder" in posted.path for posted in there.posted)
    assert files_with(b"planted", settings.storage.data) == [settings.storage.data / "secrets" / "word"]


def files_with(word: bytes, folder: Path) -> list[Path]:
    """Logs, checkpoints, the journal, views: everything that a server writes."""
    return [path for path in folder.rglob("*") if path.is_file() and word in path.read_bytes()]


def settled(log: EmbeddedLog) -> set[tuple[str, str]]:
    found = [parse_outcome(record) for record in memory_and_spark.stored(log, OUTCOMES_TOPIC)]
    return {(one.notifier, notice) for one in found for notice in one.notices if one.state == "sent"}


def keys(log: EmbeddedLog) -> list[bytes | None]:
    return [record.value for record in memory_and_spark.stored(log, TOPIC)]
