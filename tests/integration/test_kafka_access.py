"""Users and the audit log on Kafka: the same guarantees, with two writers."""

from __future__ import annotations

import threading

import pytest

from headrace.access.audit import Audit, read_audit, verify_audit
from headrace.access.users import UserStore
from headrace.clock import SystemClock
from headrace.log.kafka import KafkaLog
from headrace.settings import Settings

pytestmark = pytest.mark.kafka


def test_concurrent_changes_of_access_are_both_applied(log: KafkaLog, kafka_settings: Settings) -> None:
    with KafkaLog(kafka_settings) as elsewhere:
        clock = SystemClock()
        books = [UserStore(one, clock, Audit(one, clock)) for one in (log, elsewhere)]

        def change(number: int) -> None:
            for at in range(4):
                books[number].add_user(f"kafka-{number}-{at}", None, ["reader"], by="local")

        threads = [threading.Thread(target=change, args=(number,)) for number in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for book in books:
            book.refresh()
        assert books[0].state == books[1].state
        assert {f"kafka-{number}-{at}" for number in range(2) for at in range(4)} <= set(books[0].state.users)
    noted = [entry for entry in read_audit(log) if str(entry.details.get("user", "")).startswith("kafka-")]
    assert len(noted) == 8
    assert verify_audit(log).count >= 8
    Audit(log, clock).note("deed", "local")
    assert list(read_audit(log))[-1].action == "deed"
    verify_audit(log)
