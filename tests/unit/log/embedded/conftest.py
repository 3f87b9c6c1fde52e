"""Logs in folders of their own, with upkeep on demand and a clock in the hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from headrace.clock import Clock, ManualClock
from headrace.log.embedded import EmbeddedLog
from headrace.settings import Settings

OpenLog = Callable[..., EmbeddedLog]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_800_000_000_000)


@pytest.fixture
def open_log(folder: Path) -> Iterator[OpenLog]:
    """Opens the folder, any number of times."""
    with ExitStack() as stack:

        def open_log(clock: Clock | None = None, **settings: Any) -> EmbeddedLog:
            chosen = Settings.of(
                **{
                    "storage_maintenance_interval": timedelta(0),
                    "storage_lock_timeout": timedelta(seconds=5),
                    **settings,
                }
            )
            return stack.enter_context(EmbeddedLog(folder, chosen, clock))

        yield open_log


@pytest.fixture
def log(open_log: OpenLog) -> EmbeddedLog:
    return open_log()
