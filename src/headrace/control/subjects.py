"""Which query is meant, and what is known of it without running anything: from a server's journal, or from a script."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from headrace.contracts import Log
from headrace.control.journal import journalled
from headrace.control.presence import SERVER
from headrace.control.replay import Replay, empty_catalog
from headrace.control.supervisor import place_of
from headrace.engine.batch.shipping import Setup, no_setup
from headrace.errors import UnknownQuery, UnknownTopic
from headrace.plan.catalog import Catalog, Create, Insert, SourceInfo
from headrace.plan.nodes import Query


@dataclass(frozen=True)
class Subject:
    """A query, the folder of its checkpoint and, if it makes a source, that source."""

    query: Query
    folder: Path
    source: SourceInfo | None = None
    shared: bool = False
    """Other queries write into the same topic."""
    setup: Setup = no_setup
    """What a process must do first that is to run it: it declares the user's own functions."""


def of_server(log: Log, data: Path) -> list[Subject]:
    """The queries of the server on this log, running or not."""
    replay = Replay(empty_catalog(log))
    with suppress(UnknownTopic):  # no server was ever here
        replay.read(journalled(log)[0])
    queries = [enlisted.query for enlisted in replay.queries.values()]
    return _subjects(queries, replay.catalog.sources, data / "checkpoints" / SERVER, replay.apps.setup_of)


def of_script(
    actions: Iterable[object], catalog: Catalog, data: Path, program: str, setup: Setup = no_setup
) -> list[Subject]:
    """The queries that a script makes, as `headrace run` names them."""
    found = [action.query for action in actions if isinstance(action, Create | Insert)]
    queries = [query for query in found if query]
    return _subjects(queries, catalog.sources, data / "checkpoints" / program, lambda query: setup)


def _subjects(
    queries: list[Query], sources: Mapping[str, SourceInfo], folder: Path, setup_of: Callable[[Query], Setup]
) -> list[Subject]:
    sinks = [query.sink.topic for query in queries]
    return [
        Subject(q, place_of(folder, q.id), sources.get(q.sink.name), sinks.count(q.sink.topic) > 1, setup_of(q))
        for q in queries
    ]


def named(subjects: Iterable[Subject], name: str, *, fix: str) -> Subject:
    """By the query's id, or by the name of what it fills, in any case."""
    known = list(subjects)
    wanted = name.casefold()
    found = [one for one in known if one.query.id.casefold() == wanted]
    found = found or [one for one in known if one.query.sink.name.casefold() == wanted]
    if len(found) == 1:
        return found[0]
    ids = ", ".join(one.query.id for one in found or known)
    what = "names several queries" if found else "is not known"
    raise UnknownQuery(f'query "{name}" {what}', fix=f"name one of: {ids}" if ids else fix)
