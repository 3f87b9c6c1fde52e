"""Where the views of a data folder are kept: the setting `views` chooses."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

from headrace.contracts import Topic
from headrace.errors import BadSetting, MissingPart
from headrace.plan.catalog import SourceInfo
from headrace.secrets import resolve
from headrace.settings import Settings
from headrace.views.contract import Store
from headrace.views.keeper import open_view, view_path
from headrace.views.sqlite import SqliteView


class FileStore:
    """Each view in a file of its own."""

    is_near = True

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def open(self, source: SourceInfo, topic: Topic) -> SqliteView:
        return open_view(self._folder, source, topic)

    def file(self, source: SourceInfo, topic: Topic, folder: Path) -> Path | None:
        del topic, folder
        path = view_path(self._folder, source)
        return path if path.exists() else None

    def close(self) -> None:
        pass


def store_of(settings: Settings) -> Store:
    kinds = {"sqlite": lambda: FileStore(settings.data), "postgres": lambda: _postgres(settings)}
    if settings.views not in kinds:
        raise BadSetting(f'setting "views" cannot be "{settings.views}"', fix=f"choose one of: {', '.join(kinds)}")
    return kinds[settings.views]()


def _postgres(settings: Settings) -> Store:
    """The driver is an extra, and is not asked for by who keeps files."""
    try:
        from headrace.views.postgres import PostgresStore
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != "pg8000":
            raise
        raise MissingPart(
            'views in PostgreSQL need the library "pg8000"', fix="pip install 'headrace[postgres]'"
        ) from None
    url = resolve(settings.views_url, settings.data, lambda secret: quote(secret, safe=""))
    return PostgresStore(settings.data, url.reveal())
