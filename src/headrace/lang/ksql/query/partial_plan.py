"""The intermediate result of planning a query: a plan node, the names in scope, and the key columns among them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import pyarrow as pa

from headrace.errors import BadWindow, SourceNotFound, suggestion
from headrace.lang.ksql import ast
from headrace.lang.ksql.analyzer.scope import ROWOFFSET, ROWPARTITION, SYSTEM_TYPES, Scope, ScopeColumn, parts_of
from headrace.plan import expressions as e
from headrace.plan.catalog import Catalog
from headrace.plan.nodes import Node, Rekey, Select, Source
from headrace.plan.relations import Format, Kind, Relation, System, SystemColumn, Window
from headrace.plan.sources import SourceInfo
from headrace.schema import Field

_ENVELOPE = {ROWPARTITION: System.PARTITION, ROWOFFSET: System.OFFSET}


@dataclass(frozen=True)
class KeyColumn:
    """A column of the key. In a projection any of `candidates`, written with their sources, stands for it.

    After a join on equality there are several; the first of them in a projection becomes the key. `name` is the key
    column's name inside the plan. A synthetic one matches no column of the statement.
    """

    name: str
    type: pa.DataType
    candidates: tuple[ast.Expr, ...]
    synthetic: bool = False


@dataclass(frozen=True)
class PartialPlan:
    node: Node
    relation: Relation
    scope: Scope
    keys: tuple[KeyColumn, ...]
    key_format: Format
    value_format: Format
    infos: tuple[SourceInfo, ...]
    foreign: str | None = None
    """The left source of a foreign-key join, for messages."""
    select_names: tuple[str, ...] = ()
    """The columns of SELECT in order."""

    @property
    def kind(self) -> Kind:
        return self.relation.kind

    def on(self, node: Node, relation: Relation | None = None) -> PartialPlan:
        return replace(self, node=node, relation=relation or self.relation)


def known_source(catalog: Catalog, name: str, node: ast.Ast) -> SourceInfo:
    """Returns the source of that name, or raises with a suggestion."""
    info = catalog.sources.get(name)
    if info is not None:
        return info
    raise SourceNotFound(f"Source `{name}` does not exist.", span=node.span_of(name), fix=nearest_source(catalog, name))


def nearest_source(catalog: Catalog, name: str) -> str:
    """Returns the fix for a source that does not exist."""
    folded = next((n for n in catalog.sources if n.upper() == name.upper()), None)
    if folded is not None:
        return f"Did you mean {folded}? Hint: try removing or adding quotes"
    return suggestion(name, catalog.sources, f"sources are: {', '.join(sorted(catalog.sources)) or 'none'}")


def used_names(query: ast.Query) -> set[str]:
    """Returns every name in the query; for a star also those of envelope columns."""
    names = {part.name for part in parts_of(query) if isinstance(part, ast.Name)}
    expands_star = (
        query.partition_by
        and isinstance(query.source, ast.Join)
        and any(isinstance(item.value, ast.Star) for item in query.select)
    )
    return names | set(_ENVELOPE) if expands_star else names


def source_plan(info: SourceInfo, alias: str, used: Iterable[str]) -> PartialPlan:
    """Plans a source: its columns under their own names."""
    used_names = set(used)
    extra = tuple(SystemColumn(name, kind) for name, kind in _ENVELOPE.items() if name in used_names)
    system = (*info.system, *extra)
    fields = (*info.relation.value, *(Field(s.name, SYSTEM_TYPES[s.name]) for s in extra))
    relation = replace(info.relation, value=fields)
    node = Source(info.name, info.topic, relation, info.key_format, info.value_format, info.timestamp, system)
    visible = [ScopeColumn(alias, f.name, f.name, f.type) for f in info.relation.columns]
    hidden = [ScopeColumn(alias, n, n, SYSTEM_TYPES[n], hidden=True) for n in _system_names(info.relation.window)]
    keys = tuple(KeyColumn(f.name, f.type, (ast.Name(f.name, alias),)) for f in info.relation.key)
    scope = Scope((*visible, *hidden), (alias,))
    return PartialPlan(node, relation, scope, keys, info.key_format, info.value_format, (info,))


def subquery_plan(inner: PartialPlan, alias: str) -> PartialPlan:
    """Plans a subquery as a source of the outer query; a key that it did not select stays hidden."""
    visible = [ScopeColumn(alias, f.name, f.name, f.type) for f in inner.relation.columns if f.name[0] != "$"]
    names = [e.ROWTIME, *(e.BOUNDS if inner.relation.window else ())]
    hidden = [ScopeColumn(alias, n, n, SYSTEM_TYPES[n], hidden=True) for n in names]
    keys = tuple(KeyColumn(f.name, f.type, (ast.Name(f.name, alias),)) for f in inner.relation.key)
    return replace(inner, scope=Scope((*visible, *hidden), (alias,)), keys=keys, foreign=None)


def _system_names(window: Window | None) -> list[str]:
    names = [e.ROWTIME, ROWPARTITION, ROWOFFSET]
    return [*names, *e.BOUNDS] if window else names


def prefix_columns(flow: PartialPlan, used: Iterable[str]) -> PartialPlan:
    """Prepares a side of a join: every column, key and pseudo columns too, as a value named `alias.column`."""
    used_names = set(used)
    (alias,) = flow.scope.sources
    columns = [c for c in flow.scope.columns if c.name not in _ENVELOPE or c.name in used_names]
    named = tuple(e.NamedExpression(f"{alias}.{c.name}", c.expression) for c in columns)
    relation = replace(flow.relation, value=tuple(Field(n.name, n.type) for n in named))
    scope = Scope(tuple(replace(c, inner=n.name) for c, n in zip(columns, named, strict=True)), flow.scope.sources)
    return replace(flow.on(Select(flow.node, relation, named), relation), scope=scope)


def check_not_windowed(flow: PartialPlan, node: ast.Expr) -> None:
    """Raises if the key is windowed: such a key cannot be changed."""
    if flow.relation.window is not None:
        raise BadWindow(
            "Implicit repartitioning of windowed sources is not supported. "
            "See https://github.com/confluentinc/ksql/issues/4385.",
            span=node.span,
        )


def rekey(
    flow: PartialPlan, keys: tuple[KeyColumn, ...], expressions: tuple[e.Expression, ...], *, explicit: bool
) -> PartialPlan:
    """Returns the stream under another key; the old key columns stay as values."""
    values = flow.relation.value
    missing = tuple(f for f in flow.relation.key if all(f.name != v.name for v in values))
    named = tuple(e.NamedExpression(k.name, x) for k, x in zip(keys, expressions, strict=True))
    new = Relation(Kind.STREAM, tuple(Field(n.name, n.type) for n in named), (*values, *missing))
    return replace(flow.on(Rekey(flow.node, new, named, explicit), new), keys=keys)
