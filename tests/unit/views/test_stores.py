"""The view store that the settings select."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from headrace.errors import BadSetting, MissingDependency
from headrace.settings import Settings
from headrace.views.stores import SqliteStore, open_store


def test_sqlite_is_the_default(tmp_path: Path) -> None:
    assert isinstance(open_store(Settings.of(storage_data=tmp_path)), SqliteStore)


def test_an_unknown_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match='backend" cannot be "oracle"'):
        open_store(Settings.of(storage_data=tmp_path, views_backend="oracle"))


@pytest.mark.parametrize(
    "url", ["", "mysql://h/d", "postgresql://h:x/d", "postgresql://h/d?sslmode=no", "postgresql://h/d?option=1"]
)
def test_an_invalid_url_is_refused(tmp_path: Path, url: str) -> None:
    with pytest.raises(BadSetting, match=r"views\.postgres_url"):
        open_store(Settings.of(storage_data=tmp_path, views_backend="postgres", views_postgres_url=url))


def test_a_driver_that_is_not_installed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("headrace.views.postgres", "headrace.views.postgres_connection"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    for module in ("pg8000", "pg8000.native", "pg8000.exceptions"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingDependency, match="pg8000"):
        open_store(Settings.of(storage_data=tmp_path, views_backend="postgres"))
