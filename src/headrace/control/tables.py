"""The tables of a node that can be asked: each is kept as a view, as long as it is in the catalog.

What is kept is settled after every statement by looking at the catalog, so there is nothing to remember: a table that
is new gets a view, one that has become another begins anew, one that is gone loses its view.
"""

from __future__ import annotations

import logging
from datetime import timedelta

from headrace.contracts import Log
from headrace.errors import HeadraceError, ViewBehind
from headrace.plan.catalog import Catalog, SourceInfo
from headrace.views.contract import Position, State, Store, View
from headrace.views.keeper import Keeper
from headrace.views.keeping import Keeping

_logger = logging.getLogger(__name__)


class Tables:
    """In one store, which is closed with them."""

    def __init__(self, log: Log, store: Store) -> None:
        self._log, self._store = log, store
        self._keeping = Keeping(log)
        self._sources: dict[str, SourceInfo] = {}
        self._views: dict[str, View] = {}
        self._failures: dict[str, HeadraceError] = {}

    def settle(self, catalog: Catalog) -> None:
        """Keep the tables of the catalog, and no others."""
        wanted = {source.name: source for source in catalog.sources.values() if source.is_kept}
        for name in self._sources.keys() - wanted.keys():
            self._drop(name)
        for name, source in wanted.items():
            if self._sources.get(name) != source:
                self._keep(source)

    def _keep(self, source: SourceInfo) -> None:
        self._release(source.name)
        self._sources[source.name] = source
        try:
            view = self._store.open(source, self._log.topic(source.topic))
            self._views[source.name] = view
            self._keeping.add(Keeper(self._log, source, view))
        except HeadraceError as error:  # the others are kept, and who asks for this one is told
            self._failures[source.name] = error
            _logger.warning("table %s cannot be asked: %s", source.name, error)

    def _release(self, name: str) -> View | None:
        self._keeping.remove(name)
        self._failures.pop(name, None)
        view = self._views.pop(name, None)
        if view is not None:
            view.close()
        return view

    def _drop(self, name: str) -> None:
        view = self._release(name)
        del self._sources[name]
        if view is None:
            return
        try:
            view.remove()
        except HeadraceError as error:  # a table of this name that is made later begins it anew
            _logger.warning("what was kept of table %s is left behind: %s", name, error)

    # -- asking -----------------------------------------------------------------------------------------------------

    @property
    def are_near(self) -> bool:
        """Whether to look up a row takes less than to change threads."""
        return self._store.is_near

    @property
    def names(self) -> list[str]:
        return sorted(self._sources)

    def view(self, name: str) -> View:
        view = self._views.get(name)
        if view is None:
            raise self._failures.get(name) or ViewBehind(f'table "{name}" is not kept yet', fix="ask again")
        return view

    def state(self, name: str) -> State:
        return self.view(name).state()

    def failure(self, name: str) -> Exception | None:
        """Why a table is not kept at the moment."""
        return self._failures.get(name) or self._keeping.failure(name)

    def reached(self, name: str, position: Position, timeout: timedelta) -> State:
        """Wait until a table reflects a position of its topic."""
        return self._keeping.reached(name, position, timeout)

    def close(self) -> None:
        self._keeping.close()
        for view in self._views.values():
            view.close()
        self._store.close()
