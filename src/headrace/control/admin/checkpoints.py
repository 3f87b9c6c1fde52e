"""Lists the checkpoints of queries, and removes them with all that belongs to them.

The checkpoint of a query that its script no longer contains is retained, since the statement may come back. Only an
explicit removal deletes it.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from headrace.contracts import Log
from headrace.control.admin.lock import ProgramLock
from headrace.engine.checkpoint import (
    Checkpoint,
    cuts_topic,
    finish_removals,
    list_checkpoints,
    ticks_topic,
    writer_name,
)
from headrace.errors import StateUnreadable, UnknownTopic
from headrace.plan.nodes import Query
from headrace.settings import Size


@dataclass(frozen=True)
class CheckpointInfo:
    """The checkpoint of one query."""

    query: str
    """PROGRAM/ID."""
    execution_mode: str | None
    batches: int
    used_at: int
    """Time of the last batch, or else of creation, in ms."""
    files: int
    bytes: Size
    problem: str | None = None
    """Why no query can resume from it."""


def describe_checkpoints(folder: Path) -> Iterator[CheckpointInfo]:
    """All checkpoints in a folder, of running queries and others."""
    for program in sorted(path for path in folder.glob("*") if path.is_dir()):
        yield from map(_describe, list_checkpoints(program))


def _describe(checkpoint: Checkpoint) -> CheckpointInfo:
    execution_mode, problem = None, None
    try:
        execution_mode = checkpoint.execution_mode
    except StateUnreadable as error:
        problem = error.what
    sizes = list(_sizes(checkpoint.folder))
    name = f"{checkpoint.folder.parent.name}/{checkpoint.folder.name}"
    batches, used_at = checkpoint.last_committed() + 1, _used_at(checkpoint)
    return CheckpointInfo(name, execution_mode, batches, used_at, len(sizes), Size(sum(sizes)), problem)


def _sizes(folder: Path) -> Iterator[int]:
    for path in folder.rglob("*"):
        with suppress(OSError):  # a running query removes files
            if path.is_file():
                yield path.stat().st_size


def _used_at(checkpoint: Checkpoint) -> int:
    commits = checkpoint.spark / "commits"
    path = commits if commits.is_dir() else checkpoint.folder / "manifest.json"
    return int(path.stat().st_mtime * 1000)


def find_renumbered(folder: Path, query: Query, others: Container[str]) -> Checkpoint | None:
    """The checkpoint of the same statement under another number, which it had before the script changed above it.

    Checkpoints named in `others` belong to other queries.
    """
    free = [one for one in list_checkpoints(folder) if one.folder.name not in others]
    same = [one for one in free if _statement(one) == (_unnumbered(query.id), query.text)]
    return same[0] if len(same) == 1 else None


def _statement(checkpoint: Checkpoint) -> tuple[str, str] | None:
    with suppress(StateUnreadable):
        return (_unnumbered(manifest.query), manifest.text) if (manifest := checkpoint.manifest) else None
    return None


def _unnumbered(query: str) -> str:
    return query.rpartition("_")[0]


def remove_checkpoint(log: Log, checkpoint: Checkpoint) -> None:
    """Remove a query's checkpoint and internal topics; refused while its program runs. Its results stay."""
    program = checkpoint.folder.parent
    with ProgramLock(program, program.name):
        finish_removals(program, internal_topic_remover(log))
        checkpoint.remove(internal_topic_remover(log))


def internal_topic_remover(log: Log) -> Callable[[str], None]:
    """A function that removes the internal topics of one run of a query, and forgets what it has written."""

    def forget(run: str) -> None:
        log.forget_note(writer_name(run))
        for topic in (ticks_topic(run), cuts_topic(run)):
            with suppress(UnknownTopic):
                log.delete_topic(topic)

    return forget
