"""Streams, tables and queries on them. Each method returns a new relation; nothing runs before it is named.

    >>> import headrace as hr
    >>> from headrace import col
    >>> app = hr.App()
    >>> clicks = app.stream("clicks", "user STRING KEY, page STRING, amount BIGINT", topic="clicks")
    >>> per_page = clicks.where(col.amount > 10).group_by("page").agg(n=hr.count()).to_table("per_page")
    >>> print(per_page.ksql)
    CREATE TABLE `PER_PAGE` AS SELECT `PAGE`, COUNT(*) AS `N` FROM `CLICKS` WHERE (`AMOUNT` > 10) GROUP BY `PAGE`;

Each is a SELECT of the syntax tree. What does not fit into one (a `where` after a `select`) becomes a SELECT over
another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from headrace.errors import BadPython
from headrace.lang.ksql import ast
from headrace.lang.ksql.statement_formatter import query_sql
from headrace.lang.python.call_site import call_site
from headrace.lang.python.expressions import Expr, column_of, fold_name, node_of

if TYPE_CHECKING:
    from headrace.lang.python.app import App
    from headrace.lang.python.operators import Operator

_ALL = (ast.SelectItem(ast.Star()),)
_KINDS = ("inner", "left", "right", "full")


@dataclass(frozen=True)
class Relation:
    """A query that is not named yet: a SELECT."""

    app: App
    query: ast.Query

    def where(self, *conditions: Expr) -> Relation:
        """Keep rows for which all conditions are true."""
        inner = self._open()
        for condition in map(node_of, conditions):
            before = inner.query.where
            inner = inner._with(where=ast.Logical("AND", before, condition, span=call_site()) if before else condition)
        return inner

    filter = where

    def select(self, *columns: Expr | str, **named: Any) -> Relation:
        """Select only these columns; `named` ones are computed: `select("user", twice=col.amount * 2)`.

        A stored result needs its key: select the key's columns too, or choose another key with `key_by`.
        """
        keyed = all(isinstance(key, ast.Name) for key in self.query.partition_by)
        inner = self if keyed and _is_plain(replace(self.query, where=None, partition_by=())) else self._open()
        return inner._with(select=_items(columns, named))

    def with_columns(self, **named: Any) -> Relation:
        """Select all columns, and add these."""
        return self._open()._with(select=_ALL + _items((), named))

    def key_by(self, *columns: Expr | str) -> Relation:
        """Repartition by another key (PARTITION BY)."""
        return self._open()._with(partition_by=tuple(column_of(column).node for column in columns))

    def distinct(self, *on: Expr | str, window: ast.WindowClause | None = None) -> Relation:
        """Keep the first of the rows that are equal in these columns, or in all; with a tumbling window, per window."""
        columns = tuple(column_of(column).node for column in on)
        return self._open(selected=True)._with(distinct=ast.Distinct(columns, span=call_site()), window=window)

    def group_by(self, *keys: Expr | str) -> GroupedRelation:
        """Group rows by keys; `agg` aggregates them."""
        return GroupedRelation(self._open(), tuple(column_of(key) for key in keys))

    def join(
        self,
        other: Relation,
        on: Expr | str | tuple[str, str],
        how: str = "inner",
        within: timedelta | tuple[timedelta, timedelta] | None = None,
        grace: timedelta | None = None,
    ) -> Relation:
        """Join with another relation: on a column that both have, on one of each, or on a condition.

        Two streams need `within`, how far apart in time two rows may be. `how` is inner, left, right or full.
        """
        if how not in _KINDS:
            raise BadPython(
                f'join type "{how}" does not exist', where=call_site().where, fix=f"choose one of {', '.join(_KINDS)}"
            )
        left, right = self._joinable(), other._joinable()
        if isinstance(right, ast.Join):
            right = ast.SubqueryRef(other.query, other.name, span=call_site())
        bounds = None if within is None else _within(within, grace)
        condition = _condition(on, None if isinstance(left, ast.Join) else self.name, other.name)
        joined = ast.Join(left, right, how.upper(), condition, bounds, span=call_site())
        return Relation(self.app, ast.Query(_ALL, joined, span=call_site()))

    def union(self, *others: Relation) -> Relation:
        """Merge this stream and the others, in the order of arrival."""
        return self._single()._with(union=tuple(other._single().query for other in others))

    def top(self, count: int, by: Expr | str, *, descending: bool = True) -> Relation:
        """A table of the first `count` rows."""
        order = ast.OrderItem(column_of(by).node, descending, span=call_site())
        return self._open(selected=True)._with(order_by=(order,), limit=count)

    def operate(self, operator: type[Operator] | str) -> Relation:
        """Apply a user-defined operator to the rows, per key (see `headrace.Operator`)."""
        name = operator if isinstance(operator, str) else self.app.operator(operator).name
        plain = _is_plain(self.query) and isinstance(self.query.source, ast.SourceRef | ast.SubqueryRef)
        inner = self.query.source if plain else ast.SubqueryRef(self.query, self.name)
        assert isinstance(inner, ast.SourceRef | ast.SubqueryRef)
        return Relation(
            self.app, ast.Query(_ALL, ast.OperatorRef(fold_name(name), inner, span=call_site()), span=call_site())
        )

    # -- names ------------------------------------------------------------------------------------------------------

    def alias(self, name: str) -> Relation:
        """Set the name by which a join refers to it."""
        inner = self.query.source if _is_plain(self.query) else ast.SubqueryRef(self.query)
        return Relation(self.app, ast.Query(_ALL, _aliased(inner, fold_name(name)), span=call_site()))

    @property
    def name(self) -> str:
        """The name by which a join refers to it: that of its source, unless `alias` set another."""
        source = self.query.source
        if isinstance(source, ast.Join):
            return "JOINED"
        return source.alias or ("NESTED" if isinstance(source, ast.SubqueryRef) else source.name)

    def __getitem__(self, column: str) -> Expr:
        """A column of this relation, for conditions and results of a join: `clicks["user"]`."""
        return Expr(ast.Name(fold_name(column), self.name, span=call_site()))

    # -- results ----------------------------------------------------------------------------------------------------

    def to_stream(self, name: str, *, topic: str | None = None, **properties: Any) -> NamedRelation:
        """Start the query as a stream of that name, with its own topic (CREATE STREAM ... AS).

        Other WITH properties are keyword arguments: `format="avro"`, `partitions=4`, `key_format="json"`.
        """
        return self._stored("STREAM", name, topic, properties)

    def to_table(self, name: str, *, topic: str | None = None, **properties: Any) -> NamedRelation:
        """Start the query as a table of that name, with its own topic (CREATE TABLE ... AS)."""
        return self._stored("TABLE", name, topic, properties)

    def insert_into(self, target: NamedRelation | str) -> None:
        """Start the query, writing its rows into an existing stream (INSERT INTO)."""
        name = target.name if isinstance(target, Relation) else fold_name(target)
        self.app.add(ast.InsertInto(name, self.query, span=call_site()))

    def _stored(self, kind: str, name: str, topic: str | None, properties: Mapping[str, Any]) -> NamedRelation:
        topic_property = {} if topic is None else {"kafka_topic": topic}
        statement = ast.CreateAs(
            kind, fold_name(name), self.query, properties_of({**topic_property, **properties}), span=call_site()
        )
        return NamedRelation.create(self.app, statement.name, self.app.add(statement))

    # -- composing SELECTs ------------------------------------------------------------------------------------------

    def _with(self, **parts: Any) -> Relation:
        return Relation(self.app, replace(self.query, **parts))

    def _open(self, *, selected: bool = False) -> Relation:
        """Return a SELECT to which a clause can be added: this one, or one around it."""
        query = replace(self.query, select=_ALL) if selected else self.query
        if _is_plain(replace(query, where=None)):
            return Relation(self.app, self.query)
        return Relation(self.app, ast.Query(_ALL, ast.SubqueryRef(self.query, self.name), span=call_site()))

    def _single(self) -> Relation:
        """Return a SELECT for a UNION: clauses that would apply to the whole UNION move into a subquery."""
        query = self.query
        if not (query.union or query.order_by or query.emit):
            return self
        return Relation(self.app, ast.Query(_ALL, ast.SubqueryRef(query, self.name), span=call_site()))

    def _joinable(self) -> ast.From:
        return self.query.source if _is_plain(self.query) else ast.SubqueryRef(self.query, self.name, span=call_site())

    def __repr__(self) -> str:
        return query_sql(self.query)


@dataclass(frozen=True, repr=False)
class NamedRelation(Relation):
    """A stream or table with a name: declared, or filled by a query."""

    ksql: str = ""
    """The statement that created it."""

    @classmethod
    def create(cls, app: App, name: str, text: str) -> NamedRelation:
        return cls(app, ast.Query(_ALL, ast.SourceRef(name)), text)

    def __repr__(self) -> str:
        return self.ksql


@dataclass(frozen=True)
class GroupedRelation:
    """Rows by group and, optionally, by window."""

    rows: Relation
    keys: tuple[Expr, ...]
    clause: ast.WindowClause | None = None
    condition: Expr | None = None
    final: bool = False

    def window(self, window: ast.WindowClause) -> GroupedRelation:
        """Divide each group into windows: `window(hr.tumbling(minutes=1))`."""
        return replace(self, clause=window)

    def having(self, condition: Expr) -> GroupedRelation:
        """Keep groups for which it is true; it may use aggregates: `having(hr.count() > 3)`."""
        return replace(self, condition=condition)

    def emit_final(self) -> GroupedRelation:
        """Emit each window's result once, when no more rows can arrive for it, instead of every change."""
        return replace(self, final=True)

    def agg(self, *aggregates: Expr, **named: Any) -> Relation:
        """A table of the groups' keys and these aggregates: `agg(n=hr.count(), total=hr.sum("amount"))`."""
        return self.rows._with(
            select=_items(self.keys, {}) + _items(aggregates, named),
            group_by=tuple(key.node for key in self.keys),
            window=self.clause,
            having=None if self.condition is None else self.condition.node,
            emit=ast.Emit.FINAL if self.final else None,
        )

    def count(self, name: str = "n") -> Relation:
        """A table of the number of rows per group."""
        return self.agg(**{name: Expr(ast.Call("COUNT", (ast.Star(),), span=call_site()))})


# -- parts of statements --------------------------------------------------------------------------------------------


def properties_of(properties: Mapping[str, Any]) -> tuple[ast.Property, ...]:
    """Convert `format="json"` to KSQL properties: FORMAT = 'json'."""
    return tuple(
        ast.Property(name.upper(), value, span=call_site()) for name, value in properties.items() if value is not None
    )


def _items(columns: Sequence[Expr | str], named: Mapping[str, Any]) -> tuple[ast.SelectItem, ...]:
    plain = [column_of(column) for column in columns]
    computed = [
        (fold_name(name), column_of(value) if isinstance(value, str) else value) for name, value in named.items()
    ]
    items = [ast.SelectItem(one.node, one.alias_name, span=call_site()) for one in plain]
    return (*items, *(ast.SelectItem(node_of(value), name, span=call_site()) for name, value in computed))


def _is_plain(query: ast.Query) -> bool:
    """Whether it is only SELECT * FROM a source."""
    return query == ast.Query(_ALL, query.source)


def _aliased(source: ast.From, name: str) -> ast.From:
    if isinstance(source, ast.Join):
        return ast.SubqueryRef(ast.Query(_ALL, source), name)
    return replace(source, alias=name)


def _condition(on: Expr | str | tuple[str, str], left: str | None, right: str) -> ast.Expr:
    if isinstance(on, Expr):
        return on.node
    ours, theirs = (on, on) if isinstance(on, str) else on
    return ast.Comparison("=", ast.Name(fold_name(ours), left), ast.Name(fold_name(theirs), right), span=call_site())


def _within(within: timedelta | tuple[timedelta, timedelta], grace: timedelta | None) -> ast.Within:
    before, after = (within, within) if isinstance(within, timedelta) else within
    return ast.Within(before, after, grace, span=call_site())
