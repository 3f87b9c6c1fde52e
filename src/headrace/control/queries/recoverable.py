"""Checks that a query is known before a decision about it is stored: it has a checkpoint, or results in the log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from headrace.contracts import Log
from headrace.control.admin.discovery import SERVER_PROGRAM
from headrace.control.queries.supervisor import checkpoint_folder
from headrace.engine.checkpoint import run_ids
from headrace.engine.log_adapter import log_adapter_for
from headrace.errors import UnknownQuery, suggestion
from headrace.settings import Settings


def check_recoverable(log: Log, settings: Settings, query: str) -> None:
    """Raises UnknownQuery, with the most similar name, if nothing is known of a query (PROGRAM/ID)."""
    known = {f"{folder.parent.name}/{folder.name}" for folder in _folders(log, settings)}
    if query not in known:
        raise UnknownQuery(
            f'query "{query}" has neither a checkpoint nor results in the log',
            where=str(settings.storage.data),
            fix=suggestion(query, known, "`headrace state list` shows checkpoints; the error of a query names it"),
        )


def _folders(log: Log, settings: Settings) -> Iterator[Path]:
    """The folders of checkpoints that exist, and of those that are gone: any program may have had them."""
    folder = settings.storage.data / "checkpoints"
    programs = {folder / SERVER_PROGRAM, *(path for path in folder.glob("[!.]*") if path.is_dir())}
    runs = run_ids(folder)
    gone = {one.query for one in log_adapter_for(log, settings).written() if one.run not in runs}
    for program in programs:
        yield from (path for path in program.glob("[!.]*") if path.is_dir())
        yield from (checkpoint_folder(program, query) for query in gone)
