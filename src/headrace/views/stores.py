"""Opens the store for the views of a data folder, as the setting `views.backend` selects."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

from headrace.contracts import Topic
from headrace.errors import BadSetting, MissingDependency
from headrace.plan.sources import SourceInfo
from headrace.secrets import resolve_secrets
from headrace.settings import Settings
from headrace.views.contract import ViewStore
from headrace.views.materializer import open_view, origin_fingerprint, view_path
from headrace.views.sqlite import SqliteReader, SqliteView


class SqliteStore:
    """Stores each view in a file of its own."""

    is_near = True

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def open(self, source: SourceInfo, topic: Topic) -> SqliteView:
        return open_view(self._folder, source, topic)

    def reader(self, source: SourceInfo, topic: Topic) -> SqliteReader:
        return SqliteReader(view_path(self._folder, source), source, origin_fingerprint(source, topic))

    def file(self, source: SourceInfo, topic: Topic, folder: Path) -> Path | None:
        del topic, folder
        path = view_path(self._folder, source)
        return path if path.exists() else None

    def close(self) -> None:
        pass


def open_store(settings: Settings) -> ViewStore:
    kinds = {"sqlite": lambda: SqliteStore(settings.storage.data), "postgres": lambda: _postgres(settings)}
    if settings.views.backend not in kinds:
        raise BadSetting(
            f'setting "views.backend" cannot be "{settings.views.backend}"', fix=f"choose one of: {', '.join(kinds)}"
        )
    return kinds[settings.views.backend]()


def _postgres(settings: Settings) -> ViewStore:
    """The driver is an optional dependency, which SQLite stores do not need."""
    try:
        from headrace.views.postgres import PostgresStore
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != "pg8000":
            raise
        raise MissingDependency(
            'views in PostgreSQL need the library "pg8000"', fix="pip install 'headrace[postgres]'"
        ) from None
    url = resolve_secrets(settings.views.postgres_url, settings.storage.data, lambda secret: quote(secret, safe=""))
    return PostgresStore(settings.storage.data, url.reveal())
