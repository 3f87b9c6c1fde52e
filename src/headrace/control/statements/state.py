"""The state of a server that its journal describes: the catalog, apps, queries and mutes."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.clock import Clock
from headrace.contracts import Log
from headrace.control.statements.deployed_apps import AppRegistry
from headrace.control.statements.journal import Journal
from headrace.control.statements.replay import Replay, empty_catalog
from headrace.errors import (
    HeadraceError,
)
from headrace.plan.catalog import Catalog
from headrace.plan.serialization import Setup

_COMPACT_AFTER = 100  # obsolete journal entries: with more than this, the journal is compacted


class ServerState:
    """The journal and its replay. `replay` is replaced as a whole when an app is deployed again.

    Statements change `catalog` in order, under the server's lock. Readers use `snapshot`, which nobody changes.
    """

    def __init__(self, log: Log, clock: Clock, setup: Setup) -> None:
        self.journal = Journal(log, clock)
        self.replay = Replay(empty_catalog(log), AppRegistry(base=setup))
        self.snapshot = self.catalog.copy()

    @property
    def catalog(self) -> Catalog:
        return self.replay.catalog

    @property
    def apps(self) -> AppRegistry:
        return self.replay.apps

    @property
    def broken(self) -> Mapping[int, HeadraceError]:
        """Journalled statements that can no longer be planned, by entry number."""
        return self.replay.broken

    def restore(self) -> None:
        """Replay the journal."""
        self.replay.read(self.journal.entries)
        self.publish()

    def publish(self) -> None:
        """Show readers the catalog as it is now."""
        self.catalog.numbered = self.journal.next
        self.snapshot = self.catalog.copy()

    def compact(self) -> None:
        """Compact the journal if it has many obsolete entries."""
        needed = self.replay.needed()
        if len(self.journal.entries) - len(needed) > _COMPACT_AFTER:
            self.journal.compact(needed)
