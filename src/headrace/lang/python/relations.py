"""Streams and tables, named or in the making. What is done to one gives another; nothing runs before it has a name.

    >>> import headrace as hr
    >>> from headrace import col
    >>> app = hr.App()
    >>> clicks = app.stream("clicks", "user STRING KEY, page STRING, amount BIGINT", topic="clicks")
    >>> per_page = clicks.where(col.amount > 10).group_by("page").agg(n=hr.count()).to_table("per_page")
    >>> print(per_page.ksql)
    CREATE TABLE `PER_PAGE` AS SELECT `PAGE`, COUNT(*) AS `N` FROM `CLICKS` WHERE (`AMOUNT` > 10) GROUP BY `PAGE`;

Each is a SELECT of the grammar. What does not fit into one (a `where` behind a `select`) becomes a SELECT over another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from headrace.errors import BadPython
from headrace.lang.ksql import ast
from headrace.lang.python.expressions import Expr, column_of, folded, node_of
from headrace.lang.python.places import here
from headrace.lang.python.writing import query_text

if TYPE_CHECKING:
    from headrace.lang.python.app import App
    from headrace.lang.python.operators import Operator

_ALL = (ast.SelectItem(ast.Star()),)
_KINDS = ("inner", "left", "right", "full")


@dataclass(frozen=True)
class Relation:
    """Rows in the making: a SELECT without a name."""

    app: App
    query: ast.Query

    def where(self, *conditions: Expr) -> Relation:
        """Only rows for which all conditions are true."""
        inner = self._open()
        for condition in map(node_of, conditions):
            before = inner.query.where
            inner = inner._with(where=ast.Logical("AND", before, condition, span=here()) if before else condition)
        return inner

    filter = where

    def select(self, *columns: Expr | str, **named: Any) -> Relation:
        """These columns and no others; `named` ones are computed: `select("user", twice=col.amount * 2)`.

        What is stored must keep its key: select the key's columns too, or choose another key by `key_by`.
        """
        keyed = all(isinstance(key, ast.Name) for key in self.query.partition_by)
        inner = self if keyed and _is_plain(replace(self.query, where=None, partition_by=())) else self._open()
        return inner._with(select=_items(columns, named))

    def with_columns(self, **named: Any) -> Relation:
        """All columns, and these beside them."""
        return self._open()._with(select=_ALL + _items((), named))

    def key_by(self, *columns: Expr | str) -> Relation:
        """The same rows under another key (PARTITION BY)."""
        return self._open()._with(partition_by=tuple(column_of(column).node for column in columns))

    def distinct(self, *on: Expr | str, window: ast.WindowClause | None = None) -> Relation:
        """Of rows that are equal in these columns, or in all, the first; with a tumbling window the first of each."""
        columns = tuple(column_of(column).node for column in on)
        return self._open(selected=True)._with(distinct=ast.Distinct(columns, span=here()), window=window)

    def group_by(self, *keys: Expr | str) -> Grouped:
        """Rows of equal keys together; `agg` says what of them."""
        return Grouped(self._open(), tuple(column_of(key) for key in keys))

    def join(
        self,
        other: Relation,
        on: Expr | str | tuple[str, str],
        how: str = "inner",
        within: timedelta | tuple[timedelta, timedelta] | None = None,
        grace: timedelta | None = None,
    ) -> Relation:
        """Rows with those of another that fit: by a column that both have, by one of each, or by a condition.

        Two streams need `within`, how far apart in time two rows may be. `how` is inner, left, right or full.
        """
        if how not in _KINDS:
            raise BadPython(f'there is no join "{how}"', where=_where(), fix=f"choose one of {', '.join(_KINDS)}")
        left, right = self._joinable(), other._joinable()
        if isinstance(right, ast.Join):
            right = ast.SubqueryRef(other.query, other.name, span=here())
        bounds = None if within is None else _within(within, grace)
        condition = _condition(on, None if isinstance(left, ast.Join) else self.name, other.name)
        joined = ast.Join(left, right, how.upper(), condition, bounds, span=here())
        return Relation(self.app, ast.Query(_ALL, joined, span=here()))

    def union(self, *others: Relation) -> Relation:
        """All rows of this stream and the others, in the order in which they arrive."""
        return self._single()._with(union=tuple(other._single().query for other in others))

    def top(self, count: int, by: Expr | str, *, descending: bool = True) -> Relation:
        """A table of the first `count` rows."""
        order = ast.OrderItem(column_of(by).node, descending, span=here())
        return self._open(selected=True)._with(order_by=(order,), limit=count)

    def operate(self, operator: type[Operator] | str) -> Relation:
        """What an operator of one's own makes of the rows, key by key (see `headrace.Operator`)."""
        name = operator if isinstance(operator, str) else self.app.operator(operator).name
        plain = _is_plain(self.query) and isinstance(self.query.source, ast.SourceRef | ast.SubqueryRef)
        inner = self.query.source if plain else ast.SubqueryRef(self.query, self.name)
        assert isinstance(inner, ast.SourceRef | ast.SubqueryRef)
        return Relation(self.app, ast.Query(_ALL, ast.OperatorRef(folded(name), inner, span=here()), span=here()))

    # -- names ------------------------------------------------------------------------------------------------------

    def alias(self, name: str) -> Relation:
        """The same under a name by which a join tells it from others."""
        inner = self.query.source if _is_plain(self.query) else ast.SubqueryRef(self.query)
        return Relation(self.app, ast.Query(_ALL, _aliased(inner, folded(name)), span=here()))

    @property
    def name(self) -> str:
        """By which a join tells it from others: that of what it is made of, unless `alias` gave it another."""
        source = self.query.source
        if isinstance(source, ast.Join):
            return "JOINED"
        return source.alias or ("NESTED" if isinstance(source, ast.SubqueryRef) else source.name)

    def __getitem__(self, column: str) -> Expr:
        """A column of just this one, for conditions and results of a join: `clicks["user"]`."""
        return Expr(ast.Name(folded(column), self.name, span=here()))

    # -- results ----------------------------------------------------------------------------------------------------

    def to_stream(self, name: str, *, topic: str | None = None, **properties: Any) -> Named:
        """Run it: a stream of that name, with a topic of its own (CREATE STREAM ... AS).

        Others of KSQL's properties may be given: `format="avro"`, `partitions=4`, `key_format="json"`.
        """
        return self._stored("STREAM", name, topic, properties)

    def to_table(self, name: str, *, topic: str | None = None, **properties: Any) -> Named:
        """Run it: a table of that name, with a topic of its own (CREATE TABLE ... AS)."""
        return self._stored("TABLE", name, topic, properties)

    def insert_into(self, target: Named | str) -> None:
        """Run it, its rows into a stream that exists (INSERT INTO)."""
        name = target.name if isinstance(target, Relation) else folded(target)
        self.app.add(ast.InsertInto(name, self.query, span=here()))

    def _stored(self, kind: str, name: str, topic: str | None, properties: Mapping[str, Any]) -> Named:
        given = {} if topic is None else {"kafka_topic": topic}
        statement = ast.CreateAs(kind, folded(name), self.query, properties_of({**given, **properties}), span=here())
        return Named.made(self.app, statement.name, self.app.add(statement))

    # -- how SELECTs are put together -------------------------------------------------------------------------------

    def _with(self, **parts: Any) -> Relation:
        return Relation(self.app, replace(self.query, **parts))

    def _open(self, *, selected: bool = False) -> Relation:
        """A SELECT to which a clause can be added: this one, or one around it."""
        query = replace(self.query, select=_ALL) if selected else self.query
        if _is_plain(replace(query, where=None)):
            return Relation(self.app, self.query)
        return Relation(self.app, ast.Query(_ALL, ast.SubqueryRef(self.query, self.name), span=here()))

    def _single(self) -> Relation:
        """One that can be a part of a UNION: what counts for the whole of it stands inside."""
        query = self.query
        if not (query.union or query.order_by or query.emit):
            return self
        return Relation(self.app, ast.Query(_ALL, ast.SubqueryRef(query, self.name), span=here()))

    def _joinable(self) -> ast.From:
        return self.query.source if _is_plain(self.query) else ast.SubqueryRef(self.query, self.name, span=here())

    def __repr__(self) -> str:
        return query_text(self.query)


@dataclass(frozen=True, repr=False)
class Named(Relation):
    """A stream or table that has a name: it was declared, or a query fills it."""

    ksql: str = ""
    """The statement that made it."""

    @classmethod
    def made(cls, app: App, name: str, text: str) -> Named:
        return cls(app, ast.Query(_ALL, ast.SourceRef(name)), text)

    def __repr__(self) -> str:
        return self.ksql


@dataclass(frozen=True)
class Grouped:
    """Rows by groups, and by windows if it says so."""

    rows: Relation
    keys: tuple[Expr, ...]
    clause: ast.WindowClause | None = None
    condition: Expr | None = None
    final: bool = False

    def window(self, window: ast.WindowClause) -> Grouped:
        """Each group by windows of time: `window(hr.tumbling(minutes=1))`."""
        return replace(self, clause=window)

    def having(self, condition: Expr) -> Grouped:
        """Only groups for which it is true; it may use aggregates: `having(hr.count() > 3)`."""
        return replace(self, condition=condition)

    def emit_final(self) -> Grouped:
        """Each window's result once, when no more rows can come for it, instead of every change."""
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
        """A table of how many rows each group has."""
        return self.agg(**{name: Expr(ast.Call("COUNT", (ast.Star(),), span=here()))})


# -- parts of statements --------------------------------------------------------------------------------------------


def properties_of(given: Mapping[str, Any]) -> tuple[ast.Property, ...]:
    """`format="json"` as KSQL writes it: FORMAT = 'json'."""
    return tuple(ast.Property(name.upper(), value, span=here()) for name, value in given.items() if value is not None)


def _items(columns: Sequence[Expr | str], named: Mapping[str, Any]) -> tuple[ast.SelectItem, ...]:
    plain = [column_of(column) for column in columns]
    computed = [(folded(name), column_of(value) if isinstance(value, str) else value) for name, value in named.items()]
    items = [ast.SelectItem(one.node, one.alias_name, span=here()) for one in plain]
    return (*items, *(ast.SelectItem(node_of(value), name, span=here()) for name, value in computed))


def _is_plain(query: ast.Query) -> bool:
    """SELECT * FROM something, and no more."""
    return query == ast.Query(_ALL, query.source)


def _aliased(source: ast.From, name: str) -> ast.From:
    if isinstance(source, ast.Join):
        return ast.SubqueryRef(ast.Query(_ALL, source), name)
    return replace(source, alias=name)


def _condition(on: Expr | str | tuple[str, str], left: str | None, right: str) -> ast.Expr:
    if isinstance(on, Expr):
        return on.node
    ours, theirs = (on, on) if isinstance(on, str) else on
    return ast.Comparison("=", ast.Name(folded(ours), left), ast.Name(folded(theirs), right), span=here())


def _within(within: timedelta | tuple[timedelta, timedelta], grace: timedelta | None) -> ast.Within:
    before, after = (within, within) if isinstance(within, timedelta) else within
    return ast.Within(before, after, grace, span=here())


def _where() -> str:
    place = here()
    return f"{place.file}:{place.line}"
