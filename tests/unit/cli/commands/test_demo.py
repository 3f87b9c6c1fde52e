"""`headrace demo` refuses invalid rates."""

from __future__ import annotations

import pytest

from tests.unit.cli.conftest import Program


@pytest.mark.parametrize("rate", ["-5", "0", "1000000000"])
def test_an_invalid_rate_is_refused(headrace: Program, rate: str) -> None:
    assert "--rate" in headrace("demo", "--rate", rate, code=2).err
