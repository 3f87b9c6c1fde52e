"""Settings that are read again: some count at once, a wrong one changes nothing."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from headrace import logfile
from headrace.control.admin.settings_reload import merge_live, reload_settings
from headrace.errors import BadSetting
from headrace.settings import Settings


@pytest.fixture
def settings(tmp_path: Path) -> Iterator[Settings]:
    given = Settings(data=tmp_path)
    logfile.configure(given)
    yield given
    logfile.close()


def lines(settings: Settings) -> str:
    return (settings.data / "logs" / "headrace.log").read_text()


def test_only_what_may_change_does(settings: Settings) -> None:
    new = replace(settings, log_level="debug", way="record", batch_rows=5)
    found = merge_live(settings, new)
    assert found.settings == replace(settings, log_level="debug")
    assert (found.changed, found.waiting) == (("log_level",), ("batch_rows", "way"))


def test_the_level_counts_at_once(settings: Settings) -> None:
    assert reload_settings(settings, lambda: replace(settings, log_level="error", pages=9)).log_level == "error"
    assert logging.getLogger("headrace").level == logging.ERROR
    again = reload_settings(replace(settings, log_level="error"), lambda: settings)
    assert again == settings
    assert "log_level is info" in lines(settings)


def test_a_wrong_setting_changes_nothing(settings: Settings) -> None:
    def refuse() -> Settings:
        raise BadSetting('setting "pages" cannot be "x"')

    assert reload_settings(settings, refuse) == settings
    assert reload_settings(settings, lambda: replace(settings, log_level="loud")) == settings
    assert lines(settings).count("were not read again") == 2
