"""Replays a journal: builds the catalog, apps and registered queries, and finds the entries that are still needed.

A replay only plans; it executes the code of apps for their declarations. Objects that were created and dropped leave no
trace, so replaying a journal twice, or after any crash, gives the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from headrace.clock import millis
from headrace.contracts import Log
from headrace.control.queries.supervisor import RegisteredQuery
from headrace.control.statements.deployed_apps import AppRegistry, DeployedApp
from headrace.control.statements.journal import JournalEntry
from headrace.errors import HeadraceError
from headrace.lang.ksql.ast import CreateNotifier, CreateType, DropNotifier, DropType, MuteAlert, UnmuteAlert
from headrace.lang.ksql.grammar.parser import parse_one
from headrace.lang.ksql.statements.planner import Planner
from headrace.lang.python.app_code import AppCode
from headrace.plan.catalog import Action, Catalog, Control, Create, Done, Drop, Insert

JOURNALED_STATEMENTS = (CreateType, DropType, CreateNotifier, DropNotifier, MuteAlert, UnmuteAlert)
"""Statements that only change the catalog, and must survive a restart."""


class MuteKey(NamedTuple):
    """An alert and one of its keys; None stands for all keys."""

    alert: str
    key: str | None


def empty_catalog(log: Log) -> Catalog:
    """The catalog of a log without any statements."""
    return Catalog(partitions={topic.name: topic.partitions for topic in log.topics()})


@dataclass
class Replay:
    catalog: Catalog
    apps: AppRegistry = field(default_factory=AppRegistry)
    queries: dict[str, RegisteredQuery] = field(default_factory=dict)
    deleted: list[tuple[str, int]] = field(default_factory=list)
    """Topics that statements deleted, with their creation times."""
    broken: dict[int, HeadraceError] = field(default_factory=dict)
    """Entries that can no longer be planned, by number."""
    mutes: dict[MuteKey, int] = field(default_factory=dict)
    """The time until which each is muted, in ms."""
    _needed: dict[str, list[JournalEntry]] = field(default_factory=dict)
    """Needed entries by object."""
    _read: dict[str, set[str]] = field(default_factory=dict)
    """For each source that a query created, the sources that the query reads."""

    def read(self, entries: Iterable[JournalEntry]) -> None:
        """Load the latest code of each app, then replay the statements in order."""
        entries = list(entries)
        latest = {entry.app: entry for entry in entries if entry.app is not None}
        for entry in latest.values():
            self.take_code(entry)
        self.plan(entry for entry in entries if entry.app is None)

    def take_code(self, entry: JournalEntry) -> None:
        if entry.code is None:
            return
        try:
            self.apps.take(AppCode(**entry.code))
        except HeadraceError as error:
            self.broken[entry.number] = error
        self.add_code(entry)

    def plan(self, statements: Iterable[JournalEntry]) -> None:
        for entry in statements:
            self.catalog.numbered = entry.number
            try:
                action = Planner(self.catalog, entry.properties).plan(parse_one(entry.text), entry.text)
            except HeadraceError as error:
                self.broken[entry.number] = error
                self._about(f"broken {entry.number}", entry)
            else:
                self.add(entry, action)

    def add(self, entry: JournalEntry, action: Action) -> None:
        """Add an entry whose action is already in the catalog."""
        _HANDLERS[type(action)](self, entry, action)

    def add_code(self, entry: JournalEntry) -> None:
        """Add the entry of an app that is already loaded or removed."""
        self._needed[f"app {entry.app}"] = [] if entry.code is None else [entry]

    def with_app(self, catalog: Catalog, deployed: DeployedApp) -> Replay:
        """Replay again into an empty catalog, with another version of an app."""
        needed = self.needed()
        replay = Replay(catalog, AppRegistry({**self.apps.known, deployed.name: deployed}, self.apps.base))
        replay.plan(entry for entry in needed if entry.app is None)
        for entry in needed:
            if entry.app is not None:
                replay.add_code(entry)
        return replay

    def needed(self) -> list[JournalEntry]:
        """The entries that are needed: replaying only these gives the same result."""
        found = {entry.number: entry for entries in self._needed.values() for entry in entries}
        return [found[number] for number in sorted(found)]

    def _about(self, thing: str, entry: JournalEntry) -> None:
        self._needed.setdefault(thing, []).append(entry)

    def _create(self, entry: JournalEntry, action: Create) -> None:
        self._about(f"source {action.source.name}", entry)
        if action.query is not None:
            self._read[action.source.name] = {source.name for source in action.query.sources}
            self.queries.pop(action.replaces or "", None)
            self.queries[action.query.id] = RegisteredQuery(action.query, entry.start)

    def _insert(self, entry: JournalEntry, action: Insert) -> None:
        self._about(f"query {action.query.id}", entry)
        self.queries[action.query.id] = RegisteredQuery(action.query, entry.start)

    def _control(self, entry: JournalEntry, action: Control) -> None:
        for query in action.queries:
            self._needed.pop(f"pause {query}", None)
            if action.verb == "TERMINATE":
                self._end(entry, query)
                continue
            self.queries[query].paused = action.verb == "PAUSE"
            if action.verb == "PAUSE":
                self._about(f"pause {query}", entry)

    def _end(self, entry: JournalEntry, query: str) -> None:
        """A terminated INSERT INTO or alert leaves nothing; a source outlives its query, so that end is recorded."""
        ended = self.queries.pop(query)
        for muted in [muted for muted in self.mutes if ended.query.alert and muted.alert == ended.query.alert.name]:
            self._unmute(muted)
        if self._needed.pop(f"query {query}", None) is None:
            self._about(f"source {ended.query.sink.name}", entry)

    def _drop(self, entry: JournalEntry, action: Drop) -> None:
        gone = self._needed.pop(f"source {action.source.name}", [])
        self._read.pop(action.source.name, None)
        for name in (name for name, read in self._read.items() if action.source.name in read):
            # A source that was created from it, and whose query was terminated, cannot be planned without it.
            self._needed[f"source {name}"] = [*gone, entry, *self._needed[f"source {name}"]]
        for query in action.ends:
            self._needed.pop(f"pause {query}", None)
            self.queries.pop(query, None)
        if action.delete_topic and entry.deletes is not None:
            self.deleted.append((action.source.topic, entry.deletes))

    def _done(self, entry: JournalEntry, action: Done) -> None:
        """Entries of types stay: sources that use a type must be plannable after the type is dropped."""
        match action.statement:
            case CreateNotifier(name=name):
                self._about(f"notifier {name}", entry)
            case DropNotifier(name=name):
                self._needed.pop(f"notifier {name}", None)
            case MuteAlert(name=name, key=key, duration=duration):
                self._unmute(MuteKey(name, key))
                self.mutes[MuteKey(name, key)] = entry.at + millis(duration)
                self._about(f"mute {MuteKey(name, key)}", entry)
            case UnmuteAlert(name=name, key=key):
                for muted in [muted for muted in self.mutes if muted.alert == name and key in (None, muted.key)]:
                    self._unmute(muted)
            case _:
                self._about("types", entry)

    def _unmute(self, muted: MuteKey) -> None:
        self.mutes.pop(muted, None)
        self._needed.pop(f"mute {muted}", None)


_HANDLERS: dict[type, Callable[[Replay, JournalEntry, Any], None]] = {
    Create: Replay._create,
    Insert: Replay._insert,
    Control: Replay._control,
    Drop: Replay._drop,
    Done: Replay._done,
}
