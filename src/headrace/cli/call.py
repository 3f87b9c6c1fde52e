"""One call of the program: its global options, and what they lead to."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace import logfile
from headrace.errors import NotADataFolder, NotOnThisLog
from headrace.settings import Origin, Settings, load, resolve

if TYPE_CHECKING:
    from headrace.contracts import Log
    from headrace.log.embedded import EmbeddedLog


@dataclass
class Call:
    """`json` may also be asked for after the command, so it changes."""

    flags: dict[str, Any] = field(default_factory=dict)
    config: Path | None = None
    json: bool = False

    def settings(self) -> Settings:
        return load(self.flags, file=self.config)

    def origins(self) -> list[Origin]:
        return resolve(self.flags, file=self.config)

    @contextlib.contextmanager
    def log(self, *, create: bool = False, long: bool = False) -> Iterator[Log]:
        """The log, to the end of the block. Only `create` makes a data folder; `long` also keeps a log file."""
        from headrace.log import open_log

        settings = self.settings()
        if settings.log == "embedded" and not create:
            check_folder(settings.data)
        if long:
            logfile.configure(settings)
        opened = open_log(settings)
        try:
            yield opened
        finally:
            opened.close()

    @contextlib.contextmanager
    def embedded(self, *, long: bool = False) -> Iterator[EmbeddedLog]:
        """The log, which must be an embedded one."""
        self.folder()
        with self.log(long=long) as opened:
            yield opened  # type: ignore[misc] - `folder` has made sure of it

    def folder(self) -> Path:
        """The data folder of the embedded log."""
        settings = self.settings()
        if settings.log != "embedded":
            raise NotOnThisLog("this command is for the embedded log", fix="use Kafka's own tools, or --log embedded")
        check_folder(settings.data)
        return settings.data


def check_folder(folder: Path) -> None:
    """A mistyped folder must not come into being because somebody looked into it."""
    if not folder.is_dir():
        raise NotADataFolder(
            f'there is no data folder "{folder}"',
            fix="name it with --data; `headrace topic create` makes one",
        )
