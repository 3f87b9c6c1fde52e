"""The Kafka log for the tests of this folder; the broker itself is shared with others (see tests/conftest.py)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace.log.kafka import KafkaLog
from headrace.settings import Settings


@pytest.fixture
def log(kafka_settings: Settings) -> Iterator[KafkaLog]:
    with KafkaLog(kafka_settings) as opened:
        yield opened
