"""What queries have left on the disk: listed, and removed with all that belongs to it.

A query that its script no longer names keeps what it remembers, since the statement may come back. Nobody else would
ever remove it.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from headrace.contracts import Log
from headrace.control.hold import Hold
from headrace.engine.checkpoint import Checkpoint, checkpoints, cuts_topic, sweep, ticks_topic
from headrace.errors import StateUnreadable, UnknownTopic
from headrace.plan.nodes import Query
from headrace.settings import Size


@dataclass(frozen=True)
class Remains:
    """Of one query."""

    query: str
    """PROGRAM/ID."""
    way: str | None
    batches: int
    used_at: int
    """When a batch was done last, or else when it was made; in ms."""
    files: int
    bytes: Size
    problem: str | None = None
    """Why no query can go on from it."""


def remains(folder: Path) -> Iterator[Remains]:
    """What lies in a folder of checkpoints, whoever runs or not."""
    for program in sorted(path for path in folder.glob("*") if path.is_dir()):
        yield from map(_looked_at, checkpoints(program))


def _looked_at(checkpoint: Checkpoint) -> Remains:
    way, problem = None, None
    try:
        way = checkpoint.way()
    except StateUnreadable as error:
        problem = error.what
    sizes = list(_sizes(checkpoint.folder))
    name = f"{checkpoint.folder.parent.name}/{checkpoint.folder.name}"
    batches, used_at = checkpoint.done() + 1, _used_at(checkpoint)
    return Remains(name, way, batches, used_at, len(sizes), Size(sum(sizes)), problem)


def _sizes(folder: Path) -> Iterator[int]:
    for path in folder.rglob("*"):
        with suppress(OSError):  # a query that runs removes files
            if path.is_file():
                yield path.stat().st_size


def _used_at(checkpoint: Checkpoint) -> int:
    commits = checkpoint.spark / "commits"
    place = commits if commits.is_dir() else checkpoint.folder / "manifest.json"
    return int(place.stat().st_mtime * 1000)


def renumbered(folder: Path, query: Query, others: Container[str]) -> Checkpoint | None:
    """The checkpoint of the same statement under another number: that it had while others stood above it.

    Those of `others` are spoken for.
    """
    free = [one for one in checkpoints(folder) if one.folder.name not in others]
    same = [one for one in free if _statement(one) == (_unnumbered(query.id), query.text)]
    return same[0] if len(same) == 1 else None


def _statement(checkpoint: Checkpoint) -> tuple[str, str] | None:
    with suppress(StateUnreadable):
        return (_unnumbered(there.query), there.text) if (there := checkpoint.manifest) else None
    return None


def _unnumbered(query: str) -> str:
    return query.rpartition("_")[0]


def remove(log: Log, checkpoint: Checkpoint) -> None:
    """All that a query has left; refused while its program runs. Its results stay."""
    program = checkpoint.folder.parent
    with Hold(program, program.name):
        sweep(program, forgetting(log))
        checkpoint.remove(forgetting(log))


def forgetting(log: Log) -> Callable[[str], None]:
    """Removes the topics that belong to one life of a query."""

    def forget(run: str) -> None:
        for topic in (ticks_topic(run), cuts_topic(run)):
            with suppress(UnknownTopic):
                log.delete_topic(topic)

    return forget
