"""Decides which records of a query must meet in one chain, and which may be processed separately.

Records may be processed separately if all state that they touch is under one key and nothing depends on the time of
other keys: a record's key group is then a hash of that key. The key may be computed (GROUP BY, PARTITION BY); it is
found by running the stateless part of the plan, from the source up to the first state, over the record. Stream-stream
joins and triggers follow the time of the whole stream, so their queries have one key group. A windowed aggregate, and
EMIT FINAL over it, can have several if each key group learns the time of the others (`KeyGroupAssigner.lateness`); so
can DISTINCT.

`StateScope` says under which key a node's rows are:

    free      no state yet: any key group will do
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
from headrace.plan.chain.aggregation.windows import grace_of
from headrace.plan.chain.interpreter import Chain
from headrace.plan.chain.records import Decoder, RawRecord
from headrace.plan.codegen.compiler import evaluator
from headrace.plan.expressions import Call, Column, Expression, NamedExpression
from headrace.plan.functions import SCALARS
from headrace.plan.relations import Kind, Relation, Window, payload
from headrace.plan.rewrite import column_position, relation_of
from headrace.plan.steps import Batch, Context, Key, Problem

HASHABLE_TYPES = (ty.BOOLEAN, ty.INT, ty.BIGINT, ty.STRING, ty.BYTES, ty.DATE, ty.TIME, ty.TIMESTAMP)
"""Types whose equal values have equal texts, so that a hash of the text will do."""


class SingleKeyGroup(Exception):
    """All records must meet; the message says why."""


class StateScope(StrEnum):
    FREE = "free"
    KEYED = "keyed"
    LOOSE = "loose"


@dataclass(frozen=True)
class StateEntry:
    """Where a source's records first meet state: at `node`, under `groups`, or under their key if there are none."""

    source: n.Source
    node: n.Node
    groups: tuple[NamedExpression, ...] = ()


@dataclass(frozen=True)
class Partitioning:
    state: StateScope
    sources: tuple[n.Source, ...] = ()
    """Sources whose records have met no state."""
    state_entries: tuple[StateEntry, ...] = ()
    exploded: bool = False
    lateness: int | None = None
    """How far a row may be behind stream time, in ms, if there are windows."""
    nulls: bool = False
    """Whether rows with a null in their key, or without a key, meet state as well."""


@singledispatch
def partitioning_of(node: n.Node) -> Partitioning:
    if not node.traits.single_key_group:
        raise NotImplementedError(f"{type(node).__name__} does not say under which key its state lies")
    raise SingleKeyGroup(f"{type(node).__name__} looks at more than one key or at the time of the whole stream")


@partitioning_of.register
def _(node: n.Source) -> Partitioning:
    if node.relation.window is not None:
        raise SingleKeyGroup(f"{node.name} has windows in its key")
    free = Partitioning(StateScope.FREE, (node,))
    return free if node.relation.kind is Kind.STREAM else _enter_state(free, node)


@partitioning_of.register(n.Filter)
@partitioning_of.register(n.Select)
@partitioning_of.register(n.Sink)
def _(node: Any) -> Partitioning:
    return partitioning_of(node.input)


@partitioning_of.register
def _(node: n.Explode) -> Partitioning:
    return replace(partitioning_of(node.input), exploded=True)


@partitioning_of.register
def _(node: n.Rekey) -> Partitioning:
    below = partitioning_of(node.input)
    if below.exploded:
        raise SingleKeyGroup("a record becomes rows of several keys")
    return below if below.state is StateScope.FREE else replace(below, state=StateScope.LOOSE)


@partitioning_of.register
def _(node: n.Union) -> Partitioning:
    left, right = partitioning_of(node.left), partitioning_of(node.right)
    if left.state is not right.state:
        raise SingleKeyGroup("only one side of UNION has state")
    if left.lateness is not None or right.lateness is not None:
        raise SingleKeyGroup("the sides of UNION have windows, each with its own time")
    return _union(left, right, left.state)


@partitioning_of.register
def _(node: n.Aggregate) -> Partitioning:
    below = partitioning_of(node.input)
    if node.relation.window is not None:
        return _windowed(node, node.relation.window, below)
    if below.lateness is not None:
        raise SingleKeyGroup("windows are grouped again")
    if below.state is StateScope.FREE and not below.exploded:
        return _enter_state(below, node.input, node.groups)
    if below.state is not StateScope.LOOSE and _is_key(node.groups, node.input):
        return _enter_state(below, node.input)
    raise SingleKeyGroup("GROUP BY brings rows of several keys together")


def _windowed(node: n.Aggregate, window: Window, below: Partitioning) -> Partitioning:
    _check_window(window, below)
    return replace(_enter_state(below, node.input, node.groups), lateness=grace_of(window))


def _check_window(window: Window, below: Partitioning) -> None:
    if below.state is not StateScope.FREE or below.exploded:
        raise SingleKeyGroup(
            "windows close by the time of the whole stream, which is known before the first state only"
        )
    if window.idle is not None:
        raise SingleKeyGroup("windows close when the whole stream is idle")


@partitioning_of.register
def _(node: n.Distinct) -> Partitioning:
    """Equal rows have equal keys if the whole key is compared: they meet in its key group, in order by key."""
    below = partitioning_of(node.input)
    if below.lateness is not None:
        raise SingleKeyGroup("rows of windows are compared again")
    if node.window is not None:
        _check_window(node.window, below)
    if not _has_key(node.on, node.input):
        raise SingleKeyGroup("DISTINCT compares rows of several keys")
    under = _unselected(node.input)
    entered = replace(_enter_state(below, under, _key_of(under)), nulls=True)
    return entered if node.window is None else replace(entered, lateness=grace_of(node.window))


@partitioning_of.register
def _(node: n.Final) -> Partitioning:
    return partitioning_of(node.input)


@partitioning_of.register
def _(node: n.StreamTableJoin) -> Partitioning:
    if node.history is not None:
        raise SingleKeyGroup("the table's past is kept by the time of the whole stream")
    return _joined(node)


@partitioning_of.register
def _(node: n.TableJoin) -> Partitioning:
    return _joined(node)


def _joined(node: n.StreamTableJoin | n.TableJoin) -> Partitioning:
    left, right = (
        _enter_state(partitioning_of(node.left), node.left),
        _enter_state(partitioning_of(node.right), node.right),
    )
    if left.lateness is not None or right.lateness is not None:
        raise SingleKeyGroup("a join with windows follows the time of the whole stream")
    return _union(left, right, StateScope.KEYED)


def _enter_state(below: Partitioning, node: n.Node, groups: tuple[NamedExpression, ...] = ()) -> Partitioning:
    """The rows meet state under the groups, or under the key they have at this node."""
    if below.state is StateScope.LOOSE:
        raise SingleKeyGroup("rows meet state under a first key and then under another")
    kinds = [g.type for g in groups] if groups else [field.type for field in relation_of(node).key]
    if any(kind not in HASHABLE_TYPES for kind in kinds):
        raise SingleKeyGroup(f"equal keys of type {', '.join(map(str, kinds))} may look different")
    new = tuple(StateEntry(source, node, groups) for source in below.sources)
    return Partitioning(StateScope.KEYED, (), below.state_entries + new, below.exploded)


def _union(left: Partitioning, right: Partitioning, state: StateScope) -> Partitioning:
    sources, state_entries = left.sources + right.sources, left.state_entries + right.state_entries
    return Partitioning(state, sources, state_entries, left.exploded or right.exploded, nulls=left.nulls or right.nulls)


def _is_key(groups: Sequence[NamedExpression], node: n.Node) -> bool:
    key = relation_of(node).key
    names = [g.expression.name if isinstance(g.expression, Column) else None for g in groups]
    return names == [column.name for column in key]


def _has_key(on: Sequence[NamedExpression], node: n.Node) -> bool:
    """Whether the compared columns include all key columns, of which there is at least one."""
    relation = relation_of(node)
    places = {column_position(relation, named.expression.name) for named in on if isinstance(named.expression, Column)}
    return bool(relation.key) and {("key", at) for at in range(len(relation.key))} <= places


def _unselected(node: n.Node) -> n.Node:
    """The node below Selects through which every row passes with its key unchanged."""
    return _unselected(node.input) if isinstance(node, n.Select) and _key_of(node.input) else node


def _key_of(node: n.Node) -> tuple[NamedExpression, ...]:
    """The key's columns as groups; empty if there is no key, or if a value column hides a key column."""
    relation = relation_of(node)
    visible = all(column_position(relation, field.name) == ("key", at) for at, field in enumerate(relation.key))
    return (
        tuple(NamedExpression(field.name, Column(field.type, field.name)) for field in relation.key) if visible else ()
    )


# -- key groups at run time ------------------------------------------------------------------------------------------

KeyFinder = Callable[[RawRecord], tuple[int, Key] | None]
"""Returns the time and the key with which a record meets state; None if it does not get that far."""


@dataclass
class KeyGroupAssigner:
    """Assigns records to key groups. `reason` says why there is only one."""

    reason: str | None
    finders: dict[str, KeyFinder] = field(default_factory=dict)
    """By topic; a stateless query has none, and its records may be in any key group."""
    plain: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """By topic, where the key is just some columns of the source, and all records meet state: these columns."""
    lateness: int | None = None
    """If key groups must be given the stream time: by how many ms a row may be late before that matters."""
    nulls: bool = False
    """Whether rows with a null in their key advance stream time too."""

    @property
    def are_several(self) -> bool:
        return self.reason is None

    def key_group(self, topic: str, record: RawRecord, key_groups: int) -> int:
        if self.reason is not None:
            return 0
        match = self.finders[topic](record) if topic in self.finders else (0, record)
        return key_group_of(match and match[1], key_groups)


def key_group_of(key: Any, key_groups: int) -> int:
    return crc32(repr(key).encode()) % key_groups


def key_group_assigner(
    query: n.Query, columns: Mapping[str, Sequence[str]] | None = None, *, timed: bool = False
) -> KeyGroupAssigner:
    """`columns` are those of topics with a schema; `timed` says that key groups will be given the stream time."""
    try:
        _check_calls(query)
        partitioning = partitioning_of(query.sink)
        _check_topics(query)
        if partitioning.lateness is not None and not timed:
            raise SingleKeyGroup("windows close by the time of the whole stream")
    except SingleKeyGroup as reason:
        return KeyGroupAssigner(str(reason))
    finders = {m.source.topic: _key_finder(m, (columns or {}).get(m.source.topic)) for m in partitioning.state_entries}
    plain = {m.source.topic: names for m in partitioning.state_entries if (names := _plain_key(m)) is not None}
    return KeyGroupAssigner(None, finders, plain, partitioning.lateness, partitioning.nulls)


def _plain_key(entry: StateEntry) -> tuple[str, ...] | None:
    """The key's columns if nothing lies between source and state, and the record's own time is used."""
    if entry.node is not entry.source or entry.source.timestamp is not None:
        return None
    if not entry.groups:
        return tuple(field.name for field in entry.source.relation.key)
    own = {field.name for field in payload(entry.source.relation, entry.source.system)}
    own |= {field.name for field in entry.source.relation.key}
    names = [g.expression.name for g in entry.groups if isinstance(g.expression, Column)]
    return tuple(names) if len(names) == len(entry.groups) and own.issuperset(names) else None


def _check_topics(query: n.Query) -> None:
    topics = [source.topic for source in query.sources]
    if len(set(topics)) < len(topics):
        raise SingleKeyGroup("a topic is read twice, and may meet state under two keys")


def _check_calls(query: n.Query) -> None:
    """A non-deterministic function may count its calls."""
    for node in n.walk(query.sink):
        for name in scalar_calls(vars(node)):
            if not SCALARS[name.upper()].repeatable:
                raise SingleKeyGroup(f"{name} does not give the same each time")


def scalar_calls(value: Any) -> list[str]:
    """Names of the scalar functions anywhere in a node's own fields."""
    if isinstance(value, Call):
        return [value.name, *scalar_calls(vars(value))]
    if isinstance(value, dict):
        return [name for item in value.values() for name in scalar_calls(item)]
    if isinstance(value, tuple):
        return [name for item in value for name in scalar_calls(item)]
    return scalar_calls(vars(value)) if isinstance(value, Expression | NamedExpression | n.AggregateCall) else []


def _key_finder(entry: StateEntry, columns: Sequence[str] | None) -> KeyFinder:
    """Runs the stateless part of the plan, up to the first state, over single records."""
    decoder = Decoder(entry.source, columns)
    stateless, group = _stateless_part(entry), _key_evaluator(entry, relation_of(entry.node))

    def find(record: RawRecord) -> tuple[int, Key] | None:
        event = decoder.decode(record)
        entries = [] if isinstance(event, Problem) else stateless([event])
        return (entries[0][0], group(entries[0])) if entries else None

    return find


def _stateless_part(entry: StateEntry) -> Callable[[Batch], Batch]:
    """The plan from the source to the first state. A table's own rows are state already, under their own key."""
    if entry.node is entry.source:
        return lambda events: events
    node: Any = entry.node
    chain = Chain(n.Query("key group", node), Context(), rules=())
    (source_path,) = (e for e in chain.source_paths if e.source.topic == entry.source.topic)
    return source_path.feed


def _key_evaluator(entry: StateEntry, relation: Relation) -> Callable[[Any], Any]:
    if not entry.groups:
        return lambda entry: entry[1]
    values = evaluator([named.expression for named in entry.groups], relation, Context(), "GROUP BY")
    return lambda entry: None if entry[2] is None else values(*entry[:3])
