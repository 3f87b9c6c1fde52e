"""Materializes the tables of a node: each has a view as long as it is in the catalog.

Views are reconciled with the catalog after every statement, so there is no other state: a new table gets a view, the
view of a changed table is rebuilt, and the view of a dropped table is removed.
"""

from __future__ import annotations

import logging
from datetime import timedelta

from headrace.contracts import Log, Topic
from headrace.errors import HeadraceError, ViewLagging
from headrace.plan.catalog import Catalog
from headrace.plan.nodes import Source
from headrace.plan.sources import SourceInfo
from headrace.views.contract import Position, View, ViewState, ViewStore, view_replaced
from headrace.views.materializer import ViewMaterializer
from headrace.views.materializer_loop import MaterializerLoop

_logger = logging.getLogger(__name__)


def _is_same(planned: Source, known: SourceInfo) -> bool:
    """Whether the rows of a table are those that a plan reads. A plan may add system columns."""
    added = len(planned.system) - len(known.system)
    columns = planned.relation.value[: len(planned.relation.value) - added]
    stored = known.topic, known.relation.key, known.relation.value, known.relation.window
    return stored == (planned.topic, planned.relation.key, columns, planned.relation.window)


class MaterializedTables:
    """The views in one store, which is closed with them."""

    def __init__(self, log: Log, store: ViewStore) -> None:
        self._log, self._store = log, store
        self._loop = MaterializerLoop(log)
        self._sources: dict[str, SourceInfo] = {}
        self._views: dict[str, View] = {}
        self._failures: dict[str, HeadraceError] = {}

    def reconcile(self, catalog: Catalog) -> None:
        """Materialize the tables of the catalog, and no others."""
        materialized = {source.name: source for source in catalog.sources.values() if source.is_materialized}
        for name in self._sources.keys() - materialized.keys():
            self._drop(name)
        for name, source in materialized.items():
            if self._sources.get(name) != source:
                self._materialize(source)

    def _materialize(self, source: SourceInfo) -> None:
        self._release(source.name)
        self._sources[source.name] = source
        try:
            view = self._store.open(source, self._log.topic(source.topic))
            self._views[source.name] = view
            self._loop.add(ViewMaterializer(self._log, source, view))
        except HeadraceError as error:  # the other views are unaffected; queries on this one raise the error
            self._failures[source.name] = error
            _logger.warning("table %s cannot be queried: %s", source.name, error)

    def _release(self, name: str) -> View | None:
        self._loop.remove(name)
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
        except HeadraceError as error:  # a later table of this name rebuilds it
            _logger.warning("the materialized view of table %s was not removed: %s", name, error)

    # -- reading ----------------------------------------------------------------------------------------------------

    @property
    def are_local(self) -> bool:
        """Whether looking up a row is faster than switching threads."""
        return self._store.is_near

    @property
    def names(self) -> list[str]:
        return sorted(self._sources)

    def view(self, name: str) -> View:
        view = self._views.get(name)
        if view is None:
            raise self._failures.get(name) or ViewLagging(f'table "{name}" is not materialized yet', fix="try again")
        return view

    def check(self, source: Source) -> None:
        """Raise if a table is no longer the one that a query was planned for."""
        known = self._sources.get(source.name)
        if known is not None and not _is_same(source, known):
            raise view_replaced(source.name)

    def location(self, name: str) -> tuple[SourceInfo, Topic]:
        """What another process needs to read a table's view."""
        self.view(name)  # raises if there is none
        source = self._sources[name]
        return source, self._log.topic(source.topic)

    def state(self, name: str) -> ViewState:
        return self.view(name).state()

    def failure(self, name: str) -> Exception | None:
        """Why a table is not materialized at the moment."""
        return self._failures.get(name) or self._loop.failure(name)

    def wait_for(self, name: str, position: Position, timeout: timedelta) -> ViewState:
        """Wait until a table reflects a position of its topic."""
        return self._loop.reached(name, position, timeout)

    def close(self) -> None:
        self._loop.close()
        for view in self._views.values():
            view.close()
        self._store.close()
