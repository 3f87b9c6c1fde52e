"""Which records of a query must meet in one chain, and which may run apart.

Records may run apart if all state that they touch lies under one key and nothing depends on the time of other keys: a
record's page is then a hash of that key. The key may be computed on the way (GROUP BY, PARTITION BY); it is found by
running the stateless part of the plan, from the source up to the first state, over the record. Stream-stream joins and
triggers follow the time of the whole stream, so their queries are one page. A windowed aggregate, and EMIT FINAL over
it, can be several if somebody tells each page what time it is for the others (`Pages.lateness`); so can DISTINCT.
`Bound` says under which key a node's rows lie:

    free      no state yet: any page will do
    keyed     state under the key that the rows have now
    loose     there was state, and the rows have another key since
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import singledispatch
from typing import Any
from zlib import crc32

from headrace.plan import nodes as n
from headrace.plan import types as ty
from headrace.plan.chain.chain import Chain
from headrace.plan.chain.compile import evaluator
from headrace.plan.chain.contract import Batch, Context, Key, Problem
from headrace.plan.chain.records import Decoder, Raw
from headrace.plan.chain.windows import grace_of
from headrace.plan.expressions import Call, Column, Expression, Named
from headrace.plan.functions import SCALARS
from headrace.plan.nodes import payload
from headrace.plan.rewriting import place, relation_of

PLAIN = (ty.BOOLEAN, ty.INT, ty.BIGINT, ty.STRING, ty.BYTES, ty.DATE, ty.TIME, ty.TIMESTAMP)
"""Types of which equal values are written alike, so that a hash of the text will do."""


class OnePage(Exception):
    """All records must meet; says why."""


class State(StrEnum):
    FREE = "free"
    KEYED = "keyed"
    LOOSE = "loose"


@dataclass(frozen=True)
class Meeting:
    """Where a source's records first meet state: at `node`, under `groups`, or under their key if there are none."""

    source: n.Source
    node: n.Node
    groups: tuple[Named, ...] = ()


@dataclass(frozen=True)
class Bound:
    state: State
    sources: tuple[n.Source, ...] = ()
    """Those whose records have met no state."""
    meetings: tuple[Meeting, ...] = ()
    exploded: bool = False
    lateness: int | None = None
    """How far behind the stream's time a row may be, in ms, if there are windows."""
    nulls: bool = False
    """A row with a null in its key, or without one, meets state as well."""


@singledispatch
def bound(node: n.Node) -> Bound:
    raise OnePage(f"{type(node).__name__} looks at more than one key or at the time of the whole stream")


@bound.register
def _(node: n.Source) -> Bound:
    if node.relation.window is not None:
        raise OnePage(f"{node.name} has windows in its key")
    free = Bound(State.FREE, (node,))
    return free if node.relation.kind is n.Kind.STREAM else _meet(free, node)


@bound.register(n.Filter)
@bound.register(n.Select)
@bound.register(n.Sink)
def _(node: Any) -> Bound:
    return bound(node.input)


@bound.register
def _(node: n.Explode) -> Bound:
    return replace(bound(node.input), exploded=True)


@bound.register
def _(node: n.Rekey) -> Bound:
    below = bound(node.input)
    if below.exploded:
        raise OnePage("a record becomes rows of several keys")
    return below if below.state is State.FREE else replace(below, state=State.LOOSE)


@bound.register
def _(node: n.Union) -> Bound:
    left, right = bound(node.left), bound(node.right)
    if left.state is not right.state:
        raise OnePage("only one side of UNION has state")
    if left.lateness is not None or right.lateness is not None:
        raise OnePage("the sides of UNION have windows, each with its own time")
    return _together(left, right, left.state)


@bound.register
def _(node: n.Aggregate) -> Bound:
    below = bound(node.input)
    if node.relation.window is not None:
        return _windowed(node, node.relation.window, below)
    if below.lateness is not None:
        raise OnePage("windows are grouped again")
    if below.state is State.FREE and not below.exploded:
        return _meet(below, node.input, node.groups)
    if below.state is not State.LOOSE and _is_key(node.groups, node.input):
        return _meet(below, node.input)
    raise OnePage("GROUP BY brings rows of several keys together")


def _windowed(node: n.Aggregate, window: n.Window, below: Bound) -> Bound:
    _check_windowed(window, below)
    return replace(_meet(below, node.input, node.groups), lateness=grace_of(window))


def _check_windowed(window: n.Window, below: Bound) -> None:
    if below.state is not State.FREE or below.exploded:
        raise OnePage("windows close by the time of the whole stream, which is known before the first state only")
    if window.idle is not None:
        raise OnePage("windows close when the whole stream is idle")


@bound.register
def _(node: n.Distinct) -> Bound:
    """Equal rows have equal keys if the whole key is compared: they meet on its page, and each key keeps its order."""
    below = bound(node.input)
    if below.lateness is not None:
        raise OnePage("rows of windows are compared again")
    if node.window is not None:
        _check_windowed(node.window, below)
    if not _has_key(node.on, node.input):
        raise OnePage("DISTINCT compares rows of several keys")
    under = _unselected(node.input)
    met = replace(_meet(below, under, _key_of(under)), nulls=True)
    return met if node.window is None else replace(met, lateness=grace_of(node.window))


@bound.register
def _(node: n.Final) -> Bound:
    return bound(node.input)


@bound.register
def _(node: n.Enrich) -> Bound:
    if node.history is not None:
        raise OnePage("the table's past is kept by the time of the whole stream")
    return _joined(node)


@bound.register
def _(node: n.TableJoin) -> Bound:
    return _joined(node)


def _joined(node: n.Enrich | n.TableJoin) -> Bound:
    left, right = _meet(bound(node.left), node.left), _meet(bound(node.right), node.right)
    if left.lateness is not None or right.lateness is not None:
        raise OnePage("a join with windows follows the time of the whole stream")
    return _together(left, right, State.KEYED)


def _meet(below: Bound, node: n.Node, groups: tuple[Named, ...] = ()) -> Bound:
    """The rows meet state under the groups, or under the key they have at this node."""
    if below.state is State.LOOSE:
        raise OnePage("rows meet state under a first key and then under another")
    kinds = [g.type for g in groups] if groups else [field.type for field in vars(node)["relation"].key]
    if any(kind not in PLAIN for kind in kinds):
        raise OnePage(f"equal keys of type {', '.join(map(str, kinds))} may look different")
    new = tuple(Meeting(source, node, groups) for source in below.sources)
    return Bound(State.KEYED, (), below.meetings + new, below.exploded)


def _together(left: Bound, right: Bound, state: State) -> Bound:
    sources, meetings = left.sources + right.sources, left.meetings + right.meetings
    return Bound(state, sources, meetings, left.exploded or right.exploded, nulls=left.nulls or right.nulls)


def _is_key(groups: Sequence[Named], node: n.Node) -> bool:
    key = vars(node)["relation"].key
    names = [g.expression.name if isinstance(g.expression, Column) else None for g in groups]
    return names == [column.name for column in key]


def _has_key(on: Sequence[Named], node: n.Node) -> bool:
    """Whether all columns of a key that has some are among what is compared."""
    relation = relation_of(node)
    found = {place(relation, named.expression.name) for named in on if isinstance(named.expression, Column)}
    return bool(relation.key) and {("key", at) for at in range(len(relation.key))} <= found


def _unselected(node: n.Node) -> n.Node:
    """What lies below Selects, through which every row passes under the key that it has."""
    return _unselected(node.input) if isinstance(node, n.Select) and _key_of(node.input) else node


def _key_of(node: n.Node) -> tuple[Named, ...]:
    """The key's columns as groups; none if there are no such, or not all of them can be named."""
    relation = relation_of(node)
    seen = all(place(relation, field.name) == ("key", at) for at, field in enumerate(relation.key))
    return tuple(Named(field.name, Column(field.type, field.name)) for field in relation.key) if seen else ()


# -- pages at work --------------------------------------------------------------------------------------------------

Find = Callable[[Raw], tuple[int, Key] | None]
"""The time and the key with which a record meets state; None if it does not come so far."""


@dataclass
class Pages:
    """Finds a record's page. `reason` says why there is only one."""

    reason: str | None
    finders: dict[str, Find] = field(default_factory=dict)
    """By topic; a query without state has none, and its records may lie anywhere."""
    plain: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """By topic, where the key is just some columns of the source, and all records meet state: these columns."""
    lateness: int | None = None
    """If a page must be told what time it is: by how many ms a row may be late before that matters."""
    nulls: bool = False
    """Whether rows with a null in their key move that time too."""

    @property
    def are_several(self) -> bool:
        return self.reason is None

    def page(self, topic: str, record: Raw, pages: int) -> int:
        if self.reason is not None:
            return 0
        found = self.finders[topic](record) if topic in self.finders else (0, record)
        return page_of(found and found[1], pages)


def page_of(key: Any, pages: int) -> int:
    return crc32(repr(key).encode()) % pages


def pages_of(query: n.Query, columns: Mapping[str, Sequence[str]] | None = None, *, timed: bool = False) -> Pages:
    """`columns` are those of topics with a schema; `timed` says that pages will be told what time it is."""
    try:
        _check_calls(query)
        found = bound(query.sink)
        _check_topics(query)
        if found.lateness is not None and not timed:
            raise OnePage("windows close by the time of the whole stream")
    except OnePage as reason:
        return Pages(str(reason))
    finders = {m.source.topic: _finder(m, (columns or {}).get(m.source.topic)) for m in found.meetings}
    plain = {m.source.topic: names for m in found.meetings if (names := _plain(m)) is not None}
    return Pages(None, finders, plain, found.lateness, found.nulls)


def _plain(meeting: Meeting) -> tuple[str, ...] | None:
    """The columns of the key if nothing lies between the source and the state, and the record's time is its own."""
    if meeting.node is not meeting.source or meeting.source.timestamp is not None:
        return None
    if not meeting.groups:
        return tuple(field.name for field in meeting.source.relation.key)
    own = {field.name for field in payload(meeting.source.relation, meeting.source.system)}
    own |= {field.name for field in meeting.source.relation.key}
    names = [g.expression.name for g in meeting.groups if isinstance(g.expression, Column)]
    return tuple(names) if len(names) == len(meeting.groups) and own.issuperset(names) else None


def _check_topics(query: n.Query) -> None:
    topics = [source.topic for source in query.sources]
    if len(set(topics)) < len(topics):
        raise OnePage("a topic is read twice, and may meet state under two keys")


def _check_calls(query: n.Query) -> None:
    """A function that is not repeatable may count its calls."""
    for node in n.walk(query.sink):
        for name in calls_of(vars(node)):
            if not SCALARS[name.upper()].repeatable:
                raise OnePage(f"{name} does not give the same each time")


def calls_of(value: Any) -> list[str]:
    """Names of the scalar functions anywhere in a node's own fields."""
    if isinstance(value, Call):
        return [value.name, *calls_of(vars(value))]
    if isinstance(value, dict):
        return [name for item in value.values() for name in calls_of(item)]
    if isinstance(value, tuple):
        return [name for item in value for name in calls_of(item)]
    return calls_of(vars(value)) if isinstance(value, Expression | Named | n.AggregateCall) else []


def _finder(meeting: Meeting, columns: Sequence[str] | None) -> Find:
    """The stateless part of the plan up to the meeting, run over single records."""
    decoder = Decoder(meeting.source, columns)
    passed, group = _way(meeting), _group(meeting, vars(meeting.node)["relation"])

    def find(record: Raw) -> tuple[int, Key] | None:
        event = decoder.decode(record)
        entries = [] if isinstance(event, Problem) else passed([event])
        return (entries[0][0], group(entries[0])) if entries else None

    return find


def _way(meeting: Meeting) -> Callable[[Batch], Batch]:
    """From the source to the meeting. A table's own rows are state already, under the key they come with."""
    if meeting.node is meeting.source:
        return lambda events: events
    node: Any = meeting.node
    chain = Chain(n.Query("page", node), Context(), rules=())
    (entrance,) = (e for e in chain.entrances if e.source.topic == meeting.source.topic)
    return entrance.feed


def _group(meeting: Meeting, relation: n.Relation) -> Callable[[Any], Any]:
    if not meeting.groups:
        return lambda entry: entry[1]
    values = evaluator([named.expression for named in meeting.groups], relation, Context(), "GROUP BY")
    return lambda entry: None if entry[2] is None else values(*entry[:3])
