"""Notices on Kafka: of two servers on one log the newer one sends, each message once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace.control.node import Node
from headrace.errors import WriterFenced
from headrace.log.kafka import KafkaLog
from headrace.settings import Settings
from tests.notifier_receivers import webhook_receiver
from tests.unit.control.alerts.test_delivery import keys, settled, state, statements, write
from tests.unit.control.test_node import Nowhere
from tests.wait import wait_until

pytestmark = pytest.mark.kafka


@contextmanager
def serving(settings: Settings, folder: Path) -> Iterator[Node]:
    own = settings.replace(storage_data=folder, notifiers_webhook_allowed_private="127.0.0.1")
    with KafkaLog(own) as log, Node(log, own, isolation=Nowhere()) as node:
        yield node


def test_a_second_server_fences_the_sender_of_the_first(kafka_settings: Settings, tmp_path: Path) -> None:
    with webhook_receiver() as there, serving(kafka_settings, tmp_path / "first") as first:
        first.execute(statements(there))
        write(first, "k1")
        wait_until(settled(first, "k1"))
        with serving(kafka_settings, tmp_path / "second") as second:
            try:
                for number in range(2, 12):
                    write(second, f"k{number}")
                wait_until(lambda: all(settled(second, f"k{number}")() for number in range(1, 12)))
                assert {state(second, f"k{number}") for number in range(1, 12)} == {("sent", None)}
                with pytest.raises(WriterFenced):
                    first.execute("CREATE TYPE late AS STRUCT<x INT>;")
            finally:
                second.execute("DROP ALERT hot; DROP ALERT cold; DROP NOTIFIER ops; DROP STREAM readings DELETE TOPIC;")
        # A message that the first server was sending when the second took over is sent again, under its id.
        messages = {message["id"]: message for message in (json.loads(posted.body) for posted in there.posted)}
        notices = [notice["id"] for message in messages.values() for notice in message["notices"]]
        assert sorted(notices) == sorted(f"k{number}" for number in range(1, 12))
        assert len(there.posted) - len(set(keys(there))) <= 1
