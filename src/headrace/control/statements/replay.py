"""Replays a journal: builds the catalog, apps and registered queries, and finds the entries that are still needed.

A replay only plans; it executes the code of apps for their declarations. Objects that were created and dropped leave no
trace, so replaying a journal twice, or after any crash, gives the same result.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import singledispatchmethod
from typing import NamedTuple

from headrace.clock import millis
from headrace.contracts import Log
from headrace.control.queries.supervisor import RegisteredQuery
from headrace.control.statements.deployed_apps import AppRegistry, DeployedApp
from headrace.control.statements.journal import JournalEntry, read_journal
from headrace.control.statements.ownership import record_owners
from headrace.errors import HeadraceError, UnknownTopic
from headrace.lang.python.app_code import AppCode
from headrace.lang.registry import dialect_of
from headrace.plan import actions
from headrace.plan.actions import Action, QueryVerb
from headrace.plan.catalog import Catalog


class MuteKey(NamedTuple):
    """An alert and one of its keys; None stands for all keys."""

    alert: str
    key: str | None


def empty_catalog(log: Log) -> Catalog:
    """The catalog of a log without any statements."""
    return Catalog(partitions={topic.name: topic.partitions for topic in log.topics()})


def read_catalog(log: Log) -> Catalog:
    """The catalog that a server on this log has journaled, read-only and without executing the code of apps."""
    replay = Replay(empty_catalog(log))
    with suppress(UnknownTopic):  # no server has ever used this log
        replay.plan(entry for entry in read_journal(log)[0] if entry.app is None)
    return replay.catalog


@dataclass
class Replay:
    catalog: Catalog
    apps: AppRegistry = field(default_factory=AppRegistry)
    queries: dict[str, RegisteredQuery] = field(default_factory=dict)
    deleted: list[tuple[str, int]] = field(default_factory=list)
    """Topics that statements deleted, with their creation times."""
    replaced: list[tuple[str, str]] = field(default_factory=list)
    """Queries that others have replaced, in order: the old name and the new one."""
    broken: dict[int, HeadraceError] = field(default_factory=dict)
    """Entries that can no longer be planned, by number."""
    mutes: dict[MuteKey, int] = field(default_factory=dict)
    """The time until which each is muted, in ms."""
    _needed: dict[str, list[JournalEntry]] = field(default_factory=dict)
    """Needed entries by object."""
    _reads: dict[str, set[str]] = field(default_factory=dict)
    """For each source that a query created, the sources that the query reads."""

    def read(self, entries: Iterable[JournalEntry]) -> None:
        """Load the latest code of each app, then replay the statements in order."""
        entries = list(entries)
        latest = {entry.app: entry for entry in entries if entry.app is not None}
        for entry in latest.values():
            self.load_code(entry)
        self.plan(entry for entry in entries if entry.app is None)

    def load_code(self, entry: JournalEntry) -> None:
        if entry.code is None:
            return
        try:
            self.apps.add(AppCode(**entry.code))
        except HeadraceError as error:
            self.broken[entry.number] = error
        self.add_code(entry)

    def plan(self, statements: Iterable[JournalEntry]) -> None:
        for entry in statements:
            self.catalog.numbered = entry.number
            try:
                dialect = dialect_of(entry.language)
                action = dialect.planner(self.catalog, entry.properties).plan(dialect.parse_one(entry.text))
            except HeadraceError as error:
                self.broken[entry.number] = error
                self._require(f"broken {entry.number}", entry)
            else:
                self.add(entry, action)

    def add(self, entry: JournalEntry, action: Action) -> None:
        """Add an entry whose action is already in the catalog."""
        self._add(action, entry)
        record_owners(action, self.catalog.owners, entry)

    def add_code(self, entry: JournalEntry) -> None:
        """Add the entry of an app that is already loaded or removed."""
        self._needed[f"app {entry.app}"] = [] if entry.code is None else [entry]

    def with_app(self, catalog: Catalog, deployed: DeployedApp) -> Replay:
        """Replay again into an empty catalog, with another version of an app."""
        needed = self.needed()
        replay = Replay(catalog, AppRegistry({**self.apps.deployed_apps, deployed.name: deployed}, self.apps.base))
        replay.plan(entry for entry in needed if entry.app is None)
        for entry in needed:
            if entry.app is not None:
                replay.add_code(entry)
        return replay

    def needed(self) -> list[JournalEntry]:
        """The entries that are needed: replaying only these gives the same result."""
        by_number = {entry.number: entry for entries in self._needed.values() for entry in entries}
        return [by_number[number] for number in sorted(by_number)]

    def _require(self, thing: str, entry: JournalEntry) -> None:
        self._needed.setdefault(thing, []).append(entry)

    @singledispatchmethod
    def _add(self, action: Action, entry: JournalEntry) -> None:
        raise LookupError(f"the action {type(action).__name__} is journaled, but cannot be replayed")

    @_add.register
    def _(self, action: actions.CreateSource, entry: JournalEntry) -> None:
        self._require(f"source {action.source.name}", entry)
        if action.query is not None:
            self._reads[action.source.name] = {source.name for source in action.query.sources}
            if action.replaces is not None:
                self.queries.pop(action.replaces, None)
                self.replaced.append((action.replaces, action.query.id))
            self.queries[action.query.id] = RegisteredQuery(action.query, entry.start)

    @_add.register
    def _(self, action: actions.StartQuery, entry: JournalEntry) -> None:
        self._require(f"query {action.query.id}", entry)
        self.queries[action.query.id] = RegisteredQuery(action.query, entry.start)

    @_add.register
    def _(self, action: actions.ControlQueries, entry: JournalEntry) -> None:
        for query in action.queries:
            self._needed.pop(f"pause {query}", None)
            if action.verb is QueryVerb.TERMINATE:
                self._terminate(entry, query)
                continue
            self.queries[query].paused = action.verb is QueryVerb.PAUSE
            if action.verb is QueryVerb.PAUSE:
                self._require(f"pause {query}", entry)

    def _terminate(self, entry: JournalEntry, query: str) -> None:
        """A terminated INSERT INTO or alert leaves nothing; a source outlives its query, so that end is recorded."""
        terminated = self.queries.pop(query)
        for muted in [
            muted for muted in self.mutes if terminated.query.alert and muted.alert == terminated.query.alert.name
        ]:
            self._unmute(muted)
        if self._needed.pop(f"query {query}", None) is None:
            self._require(f"source {terminated.query.sink.name}", entry)

    @_add.register
    def _(self, action: actions.DropSource, entry: JournalEntry) -> None:
        dropped = self._needed.pop(f"source {action.source.name}", [])
        self._reads.pop(action.source.name, None)
        for name in (name for name, read in self._reads.items() if action.source.name in read):
            # A source that was created from it, and whose query was terminated, cannot be planned without it.
            self._needed[f"source {name}"] = [*dropped, entry, *self._needed[f"source {name}"]]
        for query in action.queries:
            self._needed.pop(f"pause {query}", None)
            self.queries.pop(query, None)
        if action.delete_topic and entry.deletes is not None:
            self.deleted.append((action.source.topic, entry.deletes))

    @_add.register(actions.CreateType)
    @_add.register(actions.DropType)
    def _(self, action: Action, entry: JournalEntry) -> None:
        """Entries of types stay: sources that use a type must be plannable after the type is dropped."""
        self._require("types", entry)

    @_add.register
    def _(self, action: actions.CreateNotifier, entry: JournalEntry) -> None:
        self._require(f"notifier {action.notifier.name}", entry)

    @_add.register
    def _(self, action: actions.DropNotifier, entry: JournalEntry) -> None:
        self._needed.pop(f"notifier {action.name}", None)

    @_add.register
    def _(self, action: actions.MuteAlert, entry: JournalEntry) -> None:
        muted = MuteKey(action.name, action.key)
        self._unmute(muted)
        self.mutes[muted] = entry.at + millis(action.duration)
        self._require(f"mute {muted}", entry)

    @_add.register
    def _(self, action: actions.UnmuteAlert, entry: JournalEntry) -> None:
        terminated = [m for m in self.mutes if m.alert == action.name and action.key in (None, m.key)]
        for muted in terminated:
            self._unmute(muted)

    def _unmute(self, muted: MuteKey) -> None:
        self.mutes.pop(muted, None)
        self._needed.pop(f"mute {muted}", None)
