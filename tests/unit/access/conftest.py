from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.log.embedded import EmbeddedLog


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EmbeddedLog]:
    with EmbeddedLog(tmp_path / "data") as opened:
        yield opened
