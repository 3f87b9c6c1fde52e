"""The context of one command: its global options, and the settings and log that they select."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace import logfile
from headrace.cli.io import error_output
from headrace.errors import NotADataFolder, NotOnThisLog
from headrace.settings import ResolvedSetting, Settings, load_settings, resolve_settings

if TYPE_CHECKING:
    from headrace.contracts import Log
    from headrace.log.embedded import EmbeddedLog


@dataclass
class CommandContext:
    """The global options. `json` is mutable because --json may also follow the command."""

    flags: dict[str, Any] = field(default_factory=dict)
    config: Path | None = None
    json: bool = False

    def settings(self) -> Settings:
        return load_settings(self.flags, file=self.config)

    def origins(self) -> list[ResolvedSetting]:
        return resolve_settings(self.flags, file=self.config)

    @contextlib.contextmanager
    def log(self, *, create: bool = False, long: bool = False) -> Iterator[Log]:
        """Open the log for the block. Only `create` creates a data folder; `long` also configures a log file."""
        from headrace.log import open_log

        settings = self.settings()
        if settings.storage.log == "embedded" and not create:
            require_data_folder(settings.storage.data)
        if long:
            logfile.configure(settings)
        opened = open_log(settings)
        try:
            yield opened
        finally:
            opened.close()

    @contextlib.contextmanager
    def embedded(self, *, long: bool = False) -> Iterator[EmbeddedLog]:
        """Open the log for the block; it must be an embedded log."""
        self.folder()
        with self.log(long=long) as opened:
            yield opened  # type: ignore[misc] - `folder` has checked it

    def folder(self) -> Path:
        """The data folder of the embedded log."""
        settings = self.settings()
        if settings.storage.log != "embedded":
            raise NotOnThisLog("this command is for the embedded log", fix="use Kafka's own tools, or --log embedded")
        require_data_folder(settings.storage.data)
        return settings.storage.data


def require_data_folder(folder: Path) -> None:
    """Raise if the folder does not exist or cannot be read: a mistyped name must not create a data folder."""
    if not folder.is_dir():
        raise NotADataFolder(
            f'there is no data folder "{folder}"',
            fix="name an existing one with --data, or create one: headrace up",
        )
    if not os.access(folder, os.R_OK | os.X_OK):
        raise error_output.access_denied(folder)
