"""Checks whether a principal may execute a planned statement, and limits query results to the rows they may read.

Persistent queries run without row filters, so their creator must be allowed to read all rows of their sources.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import reduce, singledispatchmethod
from typing import Any, cast

from headrace.access.authorization import Rights
from headrace.access.grants import Privilege, Resource, ResourceType, source_resource, topic_resource
from headrace.contracts import INTERNAL_PREFIX, Log
from headrace.errors import (
    BadRowFilter,
    BadTopicName,
    HeadraceError,
    NotAllowed,
    NotifierInUse,
    SourceInUse,
    SourceNotFound,
    StatementError,
    UnknownAlert,
    UnknownGroup,
    UnknownNotifier,
    UnknownSecret,
    UnknownTopic,
)
from headrace.lang.contract import ParsedStatement, StatementPlanner
from headrace.lang.registry import dialect_of
from headrace.plan import actions
from headrace.plan.actions import Action, MetadataKind, TransientSelect
from headrace.plan.catalog import Catalog
from headrace.plan.expressions import PSEUDO, Expression, Or, column_names
from headrace.plan.nodes import Filter, Node, Query, Source
from headrace.plan.rewrite import rewrite_nodes
from headrace.plan.sources import SourceInfo
from headrace.plan.types import BOOLEAN

_REDACTED_FIX = "check the name; LIST shows what you may see"


@dataclass(frozen=True)
class Permissions:
    """Checks for one principal. `catalog` is from before the statement, so it still has what the statement drops."""

    rights: Rights
    catalog: Catalog
    log: Log

    def check(self, action: Action) -> None:
        """Raises unless the action is allowed. A source over an internal topic is never allowed."""
        if isinstance(action, actions.CreateSource) and action.source.topic.startswith(INTERNAL_PREFIX):
            raise BadTopicName(f'topic "{action.source.topic}" is an internal topic', fix="choose another topic")
        if not self.rights.is_admin:
            self._check(action)

    def check_named(
        self,
        statement: ParsedStatement,
        planner: Callable[[Catalog], StatementPlanner],
        *,
        is_executed: bool = True,
    ) -> Action | None:
        """Check before planning: a planning error would reveal columns that the principal may not see.

        A statement that names something hidden is planned as if that did not exist, so it has the error of an unknown
        name. Without an error it either creates something under a hidden name, which is refused, or does nothing. An
        action that is returned is to be used as it is.
        """
        if self.rights.is_admin:
            return None
        if not self._may_name_hidden(statement.text):
            self._check_writes_and_reads(statement)
            return None
        known = replace(self, catalog=known_catalog(self.catalog, self.rights))
        known._check_writes_and_reads(statement)
        action = planner(known.catalog.copy()).plan(statement)
        if not is_executed:
            return action
        known.check(action)
        self._check_not_hidden(action, known.catalog)
        return action if isinstance(action, actions.NoChange) else None

    def _may_name_hidden(self, text: str) -> bool:
        """Whether the text contains the name of something hidden, maybe as part of other words or texts."""
        text = text.replace("``", "`").replace('""', '"').upper()
        catalog, rights = self.catalog, self.rights
        return (
            any(name.upper() in text and not _knows(rights, one) for name, one in catalog.sources.items())
            or any(_is_named(one, text) and not can_see_query(rights, one) for one in catalog.queries.values())
            or any(name.upper() in text and not _knows_topic(rights, name) for name in catalog.partitions)
        )

    def _check_not_hidden(self, action: Action, known: Catalog) -> None:
        if isinstance(action, actions.CreateSource):
            name = action.source.name
            if name in self.catalog.sources and name not in known.sources:
                raise self.rights.refused(Privilege.CREATE, source_resource(name))

    def _check_writes_and_reads(self, statement: ParsedStatement) -> None:
        if (target := self.catalog.sources.get(statement.writes or "")) is not None:
            self._check_writes(target.name, target.topic)
        for name in statement.reads:
            if (read := self.catalog.sources.get(name)) is not None:
                self.rights.rows(read.name, read.topic)

    # -- statements -------------------------------------------------------------------------------------------------

    @singledispatchmethod
    def _check(self, action: Action) -> None:
        """Other actions need no privilege: they change nothing that others see."""

    @_check.register
    def _(self, action: actions.CreateSource) -> None:
        source = action.source
        self._check_create(source.name)
        if action.query is not None:
            self._check_sees_all(action.query)
        if action.replaces is not None and self.rights.changes_own_only:
            self.controls(self.catalog.queries[action.replaces])
        if not self._exists(source.topic):
            if source.topic != source.name:
                self.rights.check(Privilege.CREATE, topic_resource(source.topic))
        elif action.replaces is not None:
            self._check_writes(source.name, source.topic)
        else:
            self._check_topic_access(source)

    def _check_create(self, name: str) -> None:
        """Require CREATE; for a source that exists, which is replaced or altered, it is a change."""
        if name in self.catalog.sources:
            self._check_change(Privilege.CREATE, source_resource(name))
        else:
            self.rights.check(Privilege.CREATE, source_resource(name))

    def _check_change(self, privilege: Privilege, resource: Resource) -> None:
        self.rights.check_change(privilege, resource, self.catalog.owners.get(f"{resource.kind} {resource.name}"))

    def _check_topic_access(self, source: SourceInfo) -> None:
        """A source over an existing topic gives access to it, so the creator needs the rights on the topic."""
        if not _knows_topic(self.rights, source.topic) and source.topic != source.name:
            self.rights.check(Privilege.CREATE, topic_resource(source.topic))  # as for a topic that does not exist
        self.rights.check(Privilege.READ, topic_resource(source.topic))
        if not source.read_only:
            self.rights.check(Privilege.WRITE, topic_resource(source.topic))

    @_check.register
    def _(self, action: actions.StartQuery) -> None:
        self._check_sees_all(action.query)
        if action.query.alert is not None:
            self.rights.check(Privilege.CREATE, source_resource(action.query.alert.name))
            return
        self._check_writes(action.query.sink.name, action.query.sink.topic)

    @_check.register(actions.InsertRow)
    @_check.register(actions.DeleteRows)
    def _(self, action: actions.InsertRow | actions.DeleteRows) -> None:
        self._check_writes(action.source.name, action.source.topic)

    @_check.register
    def _(self, action: actions.ControlQueries) -> None:
        for query in (self.catalog.queries[name] for name in action.queries):
            if not can_see_query(self.rights, query):
                raise NotAllowed(f"{self.rights.principal.name} may not control all queries", fix="name the query")
            self.controls(query)

    @_check.register
    def _(self, action: actions.DropSource) -> None:
        self._check_change(Privilege.DROP, source_resource(action.source.name))
        if action.delete_topic:
            self._check_change(Privilege.DROP, topic_resource(action.source.topic))
        if self.rights.changes_own_only:
            for query in action.queries:
                self.controls(self.catalog.queries[query])

    @_check.register
    def _(self, action: actions.CreateType) -> None:
        self.rights.check(Privilege.CREATE, Resource(ResourceType.TYPE, action.name))

    @_check.register
    def _(self, action: actions.DropType) -> None:
        self._check_change(Privilege.DROP, Resource(ResourceType.TYPE, action.name))

    @_check.register(actions.CreateNotifier)
    @_check.register(actions.DropNotifier)
    def _(self, action: Action) -> None:
        self.rights.check_admin("configure notifiers")

    @_check.register(actions.MuteAlert)
    @_check.register(actions.UnmuteAlert)
    def _(self, action: actions.MuteAlert | actions.UnmuteAlert) -> None:
        self.controls(self.catalog.alerts[action.name])

    @_check.register
    def _(self, action: actions.MetadataQuery) -> None:
        if action.about is MetadataKind.TOPIC:
            self.rights.check(Privilege.READ, topic_resource(action.name))
        elif action.about is MetadataKind.SOURCE:
            self.rights.rows(action.name, self.catalog.sources[action.name].topic)
        elif action.about is MetadataKind.ALERT:
            if not can_see_query(self.rights, self.catalog.alerts[action.name]):
                raise UnknownAlert(f"alert {action.name} does not exist", fix=_REDACTED_FIX)
        elif action.query is not None:
            for read in action.query.sources:
                self.rights.rows(read.name, read.topic)
            if action.query.id in self.catalog.queries and not can_see_query(self.rights, action.query):
                raise self.rights.refused(Privilege.READ, source_resource(action.query.sink.name))

    # -- privileges -------------------------------------------------------------------------------------------------

    def controls(self, query: Query) -> None:
        """Require CONTROL of the source that the query writes, which includes all of its queries."""
        owner = self.catalog.owners.get(f"query {query.id}")
        self.rights.check_change(Privilege.CONTROL, source_resource(_name(query)), owner)

    def _check_sees_all(self, query: Query) -> None:
        for read in query.sources:
            self.rights.check_all(read.name, read.topic)

    def _check_writes(self, name: str, topic: str) -> None:
        if not self.rights.may(Privilege.WRITE, topic_resource(topic)):
            self.rights.check(Privilege.WRITE, source_resource(name))

    def _exists(self, name: str) -> bool:
        try:
            self.log.topic(name)
        except UnknownTopic:
            return False
        return True


# -- visibility -----------------------------------------------------------------------------------------------------


def can_see_query(rights: Rights, query: Query) -> bool:
    """Whether the principal may see a query: its text reveals what it reads and writes."""
    if rights.may(Privilege.CONTROL, source_resource(_name(query))):
        return True
    sinks = () if query.alert is not None else (query.sink,)
    return all(rights.sees(one.name, one.topic) for one in (*sinks, *query.sources))


def _name(query: Query) -> str:
    """The name that grants refer to: the alert's, or that of the query's sink."""
    return query.sink.name if query.alert is None else query.alert.name


def _knows(rights: Rights, source: SourceInfo) -> bool:
    """Whether the principal may know that a source exists: it may see, write, drop or control it."""
    if rights.sees(source.name, source.topic) or rights.may(Privilege.WRITE, topic_resource(source.topic)):
        return True
    privileges = (Privilege.WRITE, Privilege.DROP, Privilege.CONTROL)
    return any(rights.may(privilege, source_resource(source.name)) for privilege in privileges)


def _knows_topic(rights: Rights, topic: str) -> bool:
    privileges = (Privilege.READ, Privilege.WRITE, Privilege.DROP)
    return any(rights.may(privilege, topic_resource(topic)) for privilege in privileges)


def _is_named(query: Query, text: str) -> bool:
    return query.id.upper() in text or (query.alert is not None and query.alert.name.upper() in text)


def known_catalog(catalog: Catalog, rights: Rights) -> Catalog:
    """The part of the catalog whose existence the principal may know."""
    return replace(
        catalog,
        sources={name: one for name, one in catalog.sources.items() if _knows(rights, one)},
        queries={name: one for name, one in catalog.queries.items() if can_see_query(rights, one)},
        partitions={name: count for name, count in catalog.partitions.items() if _knows_topic(rights, name)},
    )


def visible_catalog(catalog: Catalog, rights: Rights) -> Catalog:
    """The part of the catalog that the principal may see."""
    if rights.is_admin:
        return catalog
    return replace(
        catalog,
        sources={name: one for name, one in catalog.sources.items() if rights.sees(name, one.topic)},
        queries={name: one for name, one in catalog.queries.items() if can_see_query(rights, one)},
        notifiers={},
    )


def with_row_filters(select: TransientSelect, rights: Rights, catalog: Catalog) -> TransientSelect:
    """The query with the principal's row filters, placed directly on each source.

    Such a plan must not be reused for another principal: the filters are part of it.
    """
    if rights.is_admin:
        return select

    def change(node: Node) -> Node:
        if not isinstance(node, Source) or not (texts := rights.rows(node.name, node.topic)):
            return node
        return Filter(node, node.relation, _row_filter(texts, catalog.sources[node.name], catalog))

    return replace(select, query=replace(select.query, sink=cast(Any, rewrite_nodes(select.query.sink, change))))


def _row_filter(texts: Sequence[str], source: SourceInfo, catalog: Catalog) -> Expression:
    """The OR of the conditions. An invalid one is an error: then no row is visible."""
    try:
        filters = [dialect_of().condition(text, source, catalog.types).condition for text in texts]
    except HeadraceError as error:
        raise _invalid(source, error.what) from error
    condition = reduce(lambda left, right: Or(BOOLEAN, left, right), filters)
    known = {field.name for field in source.relation.columns} | set(PSEUDO)
    if others := sorted(column_names(condition) - known):
        raise _invalid(source, f"{others[0]} is not one of its columns")
    return condition


def _invalid(source: SourceInfo, reason: str) -> BadRowFilter:
    return BadRowFilter(
        f'the row filter of "{source.name}" is invalid: {reason}',
        fix="ask an admin to fix the condition of the grant; `headrace role list` shows it",
    )


@contextmanager
def redact_errors(rights: Rights) -> Iterator[None]:
    """Remove the names of objects that the statement does not contain from errors: the principal may not see them."""
    try:
        yield
    except HeadraceError as error:
        if not rights.is_admin:
            _redact(error)
        raise


def _redact(error: HeadraceError) -> None:
    if isinstance(error, SourceNotFound | UnknownTopic | UnknownGroup | UnknownSecret | UnknownAlert | UnknownNotifier):
        error.fix = _REDACTED_FIX
    if isinstance(error, SourceInUse | NotifierInUse):
        error.what = "it cannot be dropped, because queries or alerts use it"
    if isinstance(error, StatementError):
        for other in error.others:
            _redact(other)


def can_see_all_rows(select: TransientSelect, rights: Rights) -> bool:
    """Whether the principal may get the result of the query as planned without row filters."""
    return rights.is_admin or all(rights.sees_all(one.name, one.topic) for one in select.query.sources)
