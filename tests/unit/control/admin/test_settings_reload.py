"""Reloading settings: some take effect at once, and an invalid one changes nothing."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace import logfile
from headrace.control.admin.settings_reload import merge_live, reload_settings
from headrace.errors import BadSetting
from headrace.settings import Settings


@pytest.fixture
def settings(tmp_path: Path) -> Iterator[Settings]:
    given = Settings.of(storage_data=tmp_path)
    logfile.configure(given)
    yield given
    logfile.close()


def lines(settings: Settings) -> str:
    return (settings.storage.data / "logs" / "headrace.log").read_text()


def test_only_reloadable_settings_change(settings: Settings) -> None:
    new = settings.replace(logging_level="debug", query_execution_mode="record", query_max_batch_rows=5)
    found = merge_live(settings, new)
    assert found.settings == settings.replace(logging_level="debug")
    assert found.changed == {"logging.level": "debug"}
    assert found.pending == ("query.execution_mode", "query.max_batch_rows")


def test_the_log_level_changes_at_once(settings: Settings) -> None:
    assert (
        reload_settings(settings, lambda: settings.replace(logging_level="error", query_key_groups=9)).logging.level
        == "error"
    )
    assert logging.getLogger("headrace").level == logging.ERROR
    again = reload_settings(settings.replace(logging_level="error"), lambda: settings)
    assert again == settings
    assert "logging.level is now info" in lines(settings)


def test_an_invalid_setting_changes_nothing(settings: Settings) -> None:
    def refuse() -> Settings:
        raise BadSetting('setting "query.key_groups" cannot be "x"')

    assert reload_settings(settings, refuse) == settings
    assert reload_settings(settings, lambda: settings.replace(logging_level="loud")) == settings
    assert lines(settings).count("were not reloaded") == 2
