"""Tests for headrace.access.guard: what another process changed a moment ago."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.access import guard as module
from headrace.access.guard import Guard
from headrace.clock import SystemClock
from headrace.errors import NotAuthenticated
from headrace.log.embedded import EmbeddedLog
from headrace.settings import Settings

_HOUR = 3_600.0
_PASSWORD = "correct horse battery"


def test_a_user_whom_another_process_has_just_added_is_authenticated_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PAUSE", _HOUR)
    settings = Settings.of(storage_data=tmp_path)
    with (
        EmbeddedLog(tmp_path) as log,
        EmbeddedLog(tmp_path) as other_log,
        Guard(log, settings, SystemClock()) as guard,
        Guard(other_log, settings, SystemClock()) as other,
    ):
        other.users.add_user("ann", None, ["reader"], by="local")
        token, _, _ = other.make_token("ann")
        assert guard.by_token(token).name == "ann"

        other.users.add_user("ben", _PASSWORD, ["reader"], by="local")
        assert guard.by_password("ben", _PASSWORD, "127.0.0.1").name == "ben"

        other.users.remove_user("ann", by="local")
        with pytest.raises(NotAuthenticated):
            guard.by_token(token)
