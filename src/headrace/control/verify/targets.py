"""Finds the query to verify, from a server's journal or from a script, without running anything."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from headrace.contracts import Log
from headrace.control.admin.discovery import SERVER_PROGRAM
from headrace.control.queries.supervisor import checkpoint_folder
from headrace.control.statements.journal import read_journal
from headrace.control.statements.replay import Replay, empty_catalog
from headrace.errors import UnknownQuery, UnknownTopic
from headrace.plan.actions import CreateSource, StartQuery
from headrace.plan.catalog import Catalog
from headrace.plan.nodes import Query
from headrace.plan.serialization import Setup, no_setup
from headrace.plan.sources import SourceInfo


@dataclass(frozen=True)
class VerifyTarget:
    """A query, its checkpoint folder and, if it creates a source, that source."""

    query: Query
    folder: Path
    source: SourceInfo | None = None
    shared: bool = False
    """Whether other queries write to the same topic."""
    setup: Setup = no_setup
    """Setup that a process must run before the query: declares user-defined functions."""


def server_targets(log: Log, data: Path) -> list[VerifyTarget]:
    """The queries of the server on this log, running or not."""
    replay = Replay(empty_catalog(log))
    with suppress(UnknownTopic):  # no server has ever used this log
        replay.read(read_journal(log)[0])
    queries = [registered.query for registered in replay.queries.values()]
    return _targets(queries, replay.catalog.sources, data / "checkpoints" / SERVER_PROGRAM, replay.apps.setup_of)


def script_targets(
    actions: Iterable[object], catalog: Catalog, data: Path, program: str, setup: Setup = no_setup
) -> list[VerifyTarget]:
    """The queries that a script creates, with the names that `headrace run` gives them."""
    started = [action.query for action in actions if isinstance(action, CreateSource | StartQuery)]
    queries = [query for query in started if query]
    return _targets(queries, catalog.sources, data / "checkpoints" / program, lambda query: setup)


def _targets(
    queries: list[Query], sources: Mapping[str, SourceInfo], folder: Path, setup_of: Callable[[Query], Setup]
) -> list[VerifyTarget]:
    sinks = [query.sink.topic for query in queries]
    return [
        VerifyTarget(
            q, checkpoint_folder(folder, q.id), sources.get(q.sink.name), sinks.count(q.sink.topic) > 1, setup_of(q)
        )
        for q in queries
    ]


def find_target(targets: Iterable[VerifyTarget], name: str, *, fix: str) -> VerifyTarget:
    """Find a target by the query's id or the name of its sink, case-insensitive."""
    all_targets = list(targets)
    folded_name = name.casefold()
    matches = [one for one in all_targets if one.query.id.casefold() == folded_name]
    matches = matches or [one for one in all_targets if one.query.sink.name.casefold() == folded_name]
    if len(matches) == 1:
        return matches[0]
    ids = ", ".join(one.query.id for one in matches or all_targets)
    what = "is ambiguous" if matches else "is not known"
    raise UnknownQuery(f'query "{name}" {what}', fix=f"name one of: {ids}" if ids else fix)
