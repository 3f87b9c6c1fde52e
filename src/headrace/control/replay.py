"""What a journal comes to: the catalog, apps, the queries that are to run, and which entries that still hangs on.

Nothing is done here but planning; the code of apps is executed for what it declares. What came and went again leaves no
trace, so reading a journal twice, or after any crash, gives the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from headrace.clock import millis
from headrace.contracts import Log
from headrace.control.apps import Apps, Deployed
from headrace.control.journal import Entry
from headrace.control.supervisor import Enlisted
from headrace.errors import HeadraceError
from headrace.lang.ksql.ast import CreateNotifier, CreateType, DropNotifier, DropType, MuteAlert, UnmuteAlert
from headrace.lang.ksql.parser import parse_one
from headrace.lang.ksql.planner import Planner
from headrace.lang.python.loading import Code
from headrace.plan.catalog import Action, Catalog, Control, Create, Done, Drop, Insert

KEPT = (CreateType, DropType, CreateNotifier, DropNotifier, MuteAlert, UnmuteAlert)
"""Statements that only change what is known, and must be known after a restart."""


class Muted(NamedTuple):
    """An alert for one key, or for all."""

    alert: str
    key: str | None


def empty_catalog(log: Log) -> Catalog:
    """Of a log without any statement."""
    return Catalog(partitions={topic.name: topic.partitions for topic in log.topics()})


@dataclass
class Replay:
    catalog: Catalog
    apps: Apps = field(default_factory=Apps)
    queries: dict[str, Enlisted] = field(default_factory=dict)
    deleted: list[tuple[str, int]] = field(default_factory=list)
    """Topics that were to be deleted, and when they were made."""
    broken: dict[int, HeadraceError] = field(default_factory=dict)
    """Entries that cannot be done any more, by their numbers."""
    mutes: dict[Muted, int] = field(default_factory=dict)
    """Until when, in ms."""
    _needed: dict[str, list[Entry]] = field(default_factory=dict)
    """By what they are about."""
    _read: dict[str, set[str]] = field(default_factory=dict)
    """Of sources that queries made, what those read."""

    def read(self, entries: Iterable[Entry]) -> None:
        """The last code of each app, then one statement after another."""
        entries = list(entries)
        latest = {entry.app: entry for entry in entries if entry.app is not None}
        for entry in latest.values():
            self.take_code(entry)
        self.plan(entry for entry in entries if entry.app is None)

    def take_code(self, entry: Entry) -> None:
        if entry.code is None:
            return
        try:
            self.apps.take(Code(**entry.code))
        except HeadraceError as error:
            self.broken[entry.number] = error
        self.add_code(entry)

    def plan(self, statements: Iterable[Entry]) -> None:
        for entry in statements:
            self.catalog.numbered = entry.number
            try:
                action = Planner(self.catalog, entry.properties).plan(parse_one(entry.text), entry.text)
            except HeadraceError as error:
                self.broken[entry.number] = error
                self._about(f"broken {entry.number}", entry)
            else:
                self.add(entry, action)

    def add(self, entry: Entry, action: Action) -> None:
        """An entry whose action is in the catalog already."""
        _DEEDS[type(action)](self, entry, action)

    def add_code(self, entry: Entry) -> None:
        """Of an app that is in its place already, or withdrawn."""
        self._needed[f"app {entry.app}"] = [] if entry.code is None else [entry]

    def with_app(self, catalog: Catalog, deployed: Deployed) -> Replay:
        """The same again, into an empty catalog, with an app that is another now."""
        needed = self.needed()
        replay = Replay(catalog, Apps({**self.apps.known, deployed.name: deployed}, self.apps.base))
        replay.plan(entry for entry in needed if entry.app is None)
        for entry in needed:
            if entry.app is not None:
                replay.add_code(entry)
        return replay

    def needed(self) -> list[Entry]:
        """The entries that count; from these alone all would be as it is."""
        found = {entry.number: entry for entries in self._needed.values() for entry in entries}
        return [found[number] for number in sorted(found)]

    def _about(self, thing: str, entry: Entry) -> None:
        self._needed.setdefault(thing, []).append(entry)

    def _create(self, entry: Entry, action: Create) -> None:
        self._about(f"source {action.source.name}", entry)
        if action.query is not None:
            self._read[action.source.name] = {source.name for source in action.query.sources}
            self.queries.pop(action.replaces or "", None)
            self.queries[action.query.id] = Enlisted(action.query, entry.start)

    def _insert(self, entry: Entry, action: Insert) -> None:
        self._about(f"query {action.query.id}", entry)
        self.queries[action.query.id] = Enlisted(action.query, entry.start)

    def _control(self, entry: Entry, action: Control) -> None:
        for query in action.queries:
            self._needed.pop(f"pause {query}", None)
            if action.verb == "TERMINATE":
                self._end(entry, query)
                continue
            self.queries[query].paused = action.verb == "PAUSE"
            if action.verb == "PAUSE":
                self._about(f"pause {query}", entry)

    def _end(self, entry: Entry, query: str) -> None:
        """Of INSERT INTO and of alerts nothing is left; a source stays when its query ends, and that must be known."""
        ended = self.queries.pop(query)
        for muted in [muted for muted in self.mutes if ended.query.alert and muted.alert == ended.query.alert.name]:
            self._unmute(muted)
        if self._needed.pop(f"query {query}", None) is None:
            self._about(f"source {ended.query.sink.name}", entry)

    def _drop(self, entry: Entry, action: Drop) -> None:
        gone = self._needed.pop(f"source {action.source.name}", [])
        self._read.pop(action.source.name, None)
        for name in (name for name, read in self._read.items() if action.source.name in read):
            # What was made of it, and whose query has ended, cannot be read without it.
            self._needed[f"source {name}"] = [*gone, entry, *self._needed[f"source {name}"]]
        for query in action.ends:
            self._needed.pop(f"pause {query}", None)
            self.queries.pop(query, None)
        if action.delete_topic and entry.deletes is not None:
            self.deleted.append((action.source.topic, entry.deletes))

    def _done(self, entry: Entry, action: Done) -> None:
        """Of a type: sources that were made with it must be readable after it is gone."""
        match action.statement:
            case CreateNotifier(name=name):
                self._about(f"notifier {name}", entry)
            case DropNotifier(name=name):
                self._needed.pop(f"notifier {name}", None)
            case MuteAlert(name=name, key=key, duration=duration):
                self._unmute(Muted(name, key))
                self.mutes[Muted(name, key)] = entry.at + millis(duration)
                self._about(f"mute {Muted(name, key)}", entry)
            case UnmuteAlert(name=name, key=key):
                for muted in [muted for muted in self.mutes if muted.alert == name and key in (None, muted.key)]:
                    self._unmute(muted)
            case _:
                self._about("types", entry)

    def _unmute(self, muted: Muted) -> None:
        self.mutes.pop(muted, None)
        self._needed.pop(f"mute {muted}", None)


_DEEDS: dict[type, Callable[[Replay, Entry, Any], None]] = {
    Create: Replay._create,
    Insert: Replay._insert,
    Control: Replay._control,
    Drop: Replay._drop,
    Done: Replay._done,
}
