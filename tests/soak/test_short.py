"""A short soak, part of every test run; `make soak` is the long one."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from tests.soak.run import soak

WILD = 2
"""In minutes, beside other tests, workers that come and go move everything by as much as the limits of an hour."""


@pytest.mark.spark
@pytest.mark.data
@pytest.mark.timeout(900)
def test_memory_files_and_threads_of_a_server_do_not_grow(tmp_path: Path) -> None:
    soaked = soak(tmp_path / "data", timedelta(minutes=5), timedelta(seconds=5), print)
    risen = [trend for trend in soaked.trends if trend.rise > WILD * trend.limit]
    assert not risen, "\n".join(map(str, soaked.trends))
    assert set(soaked.done) == {"insert", "rows", "pull", "push", "state"}
