"""Finds the queries about whose continuation a person decides: those with a checkpoint, or with results in the log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.contracts import Log
from headrace.control.admin.discovery import SERVER_PROGRAM
from headrace.control.queries.supervisor import checkpoint_folder
from headrace.engine.checkpoint import run_ids
from headrace.engine.io.written_output import WrittenOutput, parse_notes
from headrace.engine.recovery import FROM_OUTPUT, REPROCESS
from headrace.errors import UnknownQuery, suggestion


@dataclass(frozen=True)
class UndecidedQuery:
    """A query with results in the log whose checkpoint is gone: it is refused until a person decides."""

    query: str
    """PROGRAM/ID."""
    topic: str
    decision: str
    """The command that lets it continue without a repeated row."""


def undecided_queries(log: Log, folder: Path) -> list[UndecidedQuery]:
    """Queries whose checkpoints are not in a data folder, for example because it was restored from a backup."""
    runs, topics = run_ids(folder / "checkpoints"), {topic.name: topic.created_at for topic in log.topics()}
    lost = [one for one in parse_notes(log.writer_notes()) if one.run not in runs]
    found = {_undecided(one) for one in lost if topics.get(one.topic) == one.created_at and _has_rows(log, one.topic)}
    return sorted(found, key=lambda one: one.query)


def _has_rows(log: Log, topic: str) -> bool:
    return any(bounds.end > bounds.start for bounds in log.bounds(topic).values())


def _undecided(lost: WrittenOutput) -> UndecidedQuery:
    name = checkpoint_folder(Path(lost.program or SERVER_PROGRAM), lost.query)
    option = REPROCESS if lost.has_state else FROM_OUTPUT
    return UndecidedQuery(str(name), lost.topic, f"headrace state recover {name} --{option}")


def check_recoverable(log: Log, folder: Path, query: str) -> None:
    """Raises UnknownQuery, with the most similar name, if nothing is known of a query (PROGRAM/ID)."""
    programs: Sequence[Path] = [path for path in (folder / "checkpoints").glob("[!.]*") if path.is_dir()]
    stored = {f"{path.parent.name}/{path.name}" for one in programs for path in one.glob("[!.]*") if path.is_dir()}
    known = stored | {one.query for one in undecided_queries(log, folder)}
    if query not in known:
        raise UnknownQuery(
            f'query "{query}" has neither a checkpoint nor results in the log',
            where=str(folder),
            fix=suggestion(query, known, "`headrace state list` shows checkpoints; the error of a query names it"),
        )
