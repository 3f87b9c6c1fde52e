"""A log for programs that never come as far as Spark."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from headrace.log.embedded import EmbeddedLog
from headrace.settings import Settings


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.of(storage_data=tmp_path / "data", storage_maintenance_interval=timedelta(0))


@pytest.fixture
def log(settings: Settings) -> Iterator[EmbeddedLog]:
    with EmbeddedLog(settings.storage.data, settings) as opened:
        yield opened
