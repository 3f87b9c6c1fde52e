"""Waiting for an expected condition, on a machine that may be busy."""

from __future__ import annotations

import time
from collections.abc import Callable

_PATIENCE = 120.0  # seconds


def wait_until(
    holds: Callable[[], bool], told: Callable[[], object] = lambda: None, patience: float = _PATIENCE
) -> None:
    given_up = time.monotonic() + patience
    while not holds():
        assert time.monotonic() < given_up, told()
        time.sleep(0.05)
