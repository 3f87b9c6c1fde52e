"""Whether somebody may do what a statement asks for, once it is planned and before anything is done; and what of a
question's answer they may see.

Queries that go on run as they were made: who makes one must see all of what it reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, cast

from headrace.access.decision import Rights
from headrace.access.grants import Deed, Kind, Thing, source, topic
from headrace.contracts import INTERNAL, Log
from headrace.errors import BadTopicName, SourceNotFound, UnknownAlert, UnknownNotifier, UnknownTopic
from headrace.lang.ksql.ast import (
    CreateNotifier,
    CreateType,
    DropNotifier,
    DropType,
    InsertInto,
    MuteAlert,
    Statement,
    UnmuteAlert,
    sources_named,
)
from headrace.lang.ksql.row_filters import row_filter
from headrace.plan.catalog import (
    About,
    Action,
    Answer,
    Ask,
    Catalog,
    Control,
    Create,
    Delete,
    Done,
    Drop,
    Insert,
    SourceInfo,
    Write,
)
from headrace.plan.nodes import Filter, Node, Query, Source
from headrace.plan.rewriting import everywhere

_DISCREET = "look whether the name is right; what there is to see, LIST shows"


@dataclass(frozen=True)
class Permits:
    """Of one person. `catalog` is that from before the statement: what it ends is still there."""

    rights: Rights
    catalog: Catalog
    log: Log

    def check(self, action: Action) -> None:
        """Raises unless it may be done. Topics of the system's own are nobody's."""
        if isinstance(action, Create) and action.source.topic.startswith(INTERNAL):
            raise BadTopicName(f'topic "{action.source.topic}" is the system\'s own', fix="name another")
        if not self.rights.is_admin and (needed := _NEEDED.get(type(action))) is not None:
            needed(self, action)

    def look(self, statement: Statement) -> None:
        """Before it is planned: an error there would tell the columns of what one may not see."""
        if self.rights.is_admin:
            return
        if isinstance(statement, InsertInto) and (target := self.catalog.sources.get(statement.target)) is not None:
            self._writes(target.name, target.topic)
        for name in sources_named(statement):
            if (read := self.catalog.sources.get(name)) is not None:
                self.rights.rows(read.name, read.topic)

    # -- statements -------------------------------------------------------------------------------------------------

    def _create(self, action: Create) -> None:
        made = action.source
        self.rights.check(Deed.CREATE, source(made.name))
        if action.query is not None:
            self._sees_all(action.query)
        if not self._exists(made.topic):
            if made.topic != made.name:
                self.rights.check(Deed.CREATE, topic(made.topic))
        elif action.replaces is not None:
            self._writes(made.name, made.topic)
        else:
            self._covers(made)

    def _covers(self, made: SourceInfo) -> None:
        """A source over a topic that is there is another way into it: whoever may use the one may then use both."""
        self.rights.check(Deed.READ, topic(made.topic))
        if not made.read_only:
            self.rights.check(Deed.WRITE, topic(made.topic))

    def _insert(self, action: Insert) -> None:
        self._sees_all(action.query)
        if action.query.alert is not None:
            self.rights.check(Deed.CREATE, source(action.query.alert.name))
            return
        self._writes(action.query.sink.name, action.query.sink.topic)

    def _write(self, action: Write | Delete) -> None:
        self._writes(action.source.name, action.source.topic)

    def _control(self, action: Control) -> None:
        for query in action.queries:
            self.controls(self.catalog.queries[query])

    def _drop(self, action: Drop) -> None:
        self.rights.check(Deed.DROP, source(action.source.name))
        if action.delete_topic:
            self.rights.check(Deed.DROP, topic(action.source.topic))

    def _done(self, action: Done) -> None:
        if isinstance(action.statement, CreateType | DropType):
            deed = Deed.CREATE if isinstance(action.statement, CreateType) else Deed.DROP
            self.rights.check(deed, Thing(Kind.TYPE, action.statement.name))
        elif isinstance(action.statement, CreateNotifier | DropNotifier):
            self.rights.check_admin("say where notices go")
        elif isinstance(action.statement, MuteAlert | UnmuteAlert):
            self.rights.check(Deed.CONTROL, source(action.statement.name))

    def _answer(self, action: Answer) -> None:
        if action.about is About.TOPIC:
            self.rights.check(Deed.READ, topic(action.name))
        elif action.about is About.SOURCE:
            self.rights.rows(action.name, self.catalog.sources[action.name].topic)
        elif action.about is About.ALERT:
            if not sees_query(self.rights, self.catalog.alerts[action.name]):
                raise UnknownAlert(f"there is no alert {action.name}", fix=_DISCREET)
        elif action.query is not None:
            for read in action.query.sources:
                self.rights.rows(read.name, read.topic)
            if action.query.id in self.catalog.queries and not sees_query(self.rights, action.query):
                raise self.rights.refused(Deed.READ, source(action.query.sink.name))

    # -- what they come to ------------------------------------------------------------------------------------------

    def controls(self, query: Query) -> None:
        self.rights.check(Deed.CONTROL, source(_name(query)))

    def _sees_all(self, query: Query) -> None:
        for read in query.sources:
            self.rights.check_all(read.name, read.topic)

    def _writes(self, name: str, of: str) -> None:
        if not self.rights.may(Deed.WRITE, topic(of)):
            self.rights.check(Deed.WRITE, source(name))

    def _exists(self, name: str) -> bool:
        try:
            self.log.topic(name)
        except UnknownTopic:
            return False
        return True


_NEEDED: Mapping[type, Callable[[Permits, Any], None]] = {
    Create: Permits._create,
    Insert: Permits._insert,
    Write: Permits._write,
    Delete: Permits._write,
    Control: Permits._control,
    Drop: Permits._drop,
    Done: Permits._done,
    Answer: Permits._answer,
}


# -- what is seen ---------------------------------------------------------------------------------------------------


def sees_query(rights: Rights, query: Query) -> bool:
    """Its text tells of what it reads and writes."""
    if rights.may(Deed.CONTROL, source(_name(query))):
        return True
    written = () if query.alert is not None else (query.sink,)
    return all(rights.sees(one.name, one.topic) for one in (*written, *query.sources))


def _name(query: Query) -> str:
    """By which it is granted: an alert's, or that of what it writes."""
    return query.sink.name if query.alert is None else query.alert.name


def visible(catalog: Catalog, rights: Rights) -> Catalog:
    """Only what somebody may see."""
    if rights.is_admin:
        return catalog
    return replace(
        catalog,
        sources={name: one for name, one in catalog.sources.items() if rights.sees(name, one.topic)},
        queries={name: one for name, one in catalog.queries.items() if sees_query(rights, one)},
        notifiers={},
    )


def filtered(ask: Ask, rights: Rights, catalog: Catalog) -> Ask:
    """The question over those rows only that somebody may see: directly on each source, whatever follows.

    What was planned so for one person is never another's: the filters are part of the plan.
    """
    if rights.is_admin:
        return ask

    def change(node: Node) -> Node:
        if not isinstance(node, Source) or not (texts := rights.rows(node.name, node.topic)):
            return node
        return Filter(node, node.relation, row_filter(catalog.sources[node.name], texts, catalog.types))

    return replace(ask, query=replace(ask.query, sink=cast(Any, everywhere(ask.query.sink, change))))


@contextmanager
def discreet(rights: Rights) -> Iterator[None]:
    """An error about what is not there does not tell somebody what is."""
    try:
        yield
    except (SourceNotFound, UnknownTopic, UnknownAlert, UnknownNotifier) as error:
        if not rights.is_admin:
            error.fix = _DISCREET
        raise


def sees_all(ask: Ask, rights: Rights) -> bool:
    """Whether the question, as it was planned for everybody, may be answered to somebody."""
    return rights.is_admin or all(rights.sees_all(one.name, one.topic) for one in ask.query.sources)
