"""Every test of this folder that takes `log` runs on both logs. One broker serves them all, so names are unique."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import pytest

from headrace.clock import Clock
from headrace.contracts import Log
from headrace.log.embedded import EmbeddedLog
from headrace.settings import Settings

OpenLog = Callable[..., Log]


@pytest.fixture(params=["embedded", pytest.param("kafka", marks=pytest.mark.kafka)])
def log_kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def open_log(log_kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenLog]:
    """Opens the same log again and again, each time as another process would."""
    with ExitStack() as stack:
        if log_kind == "kafka":
            from headrace.log.kafka import KafkaLog

            settings: Settings = request.getfixturevalue("kafka_settings")

            def open_log(clock: Clock | None = None) -> Log:
                return stack.enter_context(KafkaLog(settings, clock))
        else:

            def open_log(clock: Clock | None = None) -> Log:
                settings = Settings.of(
                    storage_maintenance_interval=timedelta(0), storage_group_session_timeout=timedelta(seconds=2)
                )
                return stack.enter_context(EmbeddedLog(tmp_path / "data", settings, clock))

        yield open_log


@pytest.fixture
def log(open_log: OpenLog) -> Log:
    return open_log()
