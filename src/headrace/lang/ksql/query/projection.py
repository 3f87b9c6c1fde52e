"""SELECT: expands stars, names the columns, and finds the key among them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from headrace.errors import BadKey, BadName, BadQuery, BadType, TypeMismatch
from headrace.lang.ksql import ast
from headrace.lang.ksql.analyzer.scope import SYSTEM_TYPES, Scope, ScopeColumn, qualify
from headrace.lang.ksql.analyzer.typer import Typer
from headrace.lang.ksql.formatter import expression_text, type_text
from headrace.lang.ksql.query.partial_plan import KeyColumn, PartialPlan
from headrace.plan import expressions as e
from headrace.plan import types as t
from headrace.plan.nodes import Select
from headrace.schema import Field

_GENERATED = re.compile(r"KSQL_COL_(\d+)$")


@dataclass(frozen=True)
class SelectColumn:
    """A column of the result: its name, and its expression with source qualifiers."""

    name: str
    expr: ast.Expr


@dataclass
class ColumnNames:
    """Generates names: KSQL_COL_0, KSQL_COL_1 ..., and a field's own name, made unique."""

    scope: Scope
    assigned: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        numbers = [int(m[1]) for c in self.scope.columns if (m := _GENERATED.match(c.name))]
        self._next = max(numbers, default=-1) + 1

    def column(self) -> str:
        self._next += 1
        return f"KSQL_COL_{self._next - 1}"

    def field(self, name: str) -> str:
        reserved = self.assigned | {c.name for c in self.scope.columns}
        if name not in reserved:
            return name
        return next(n for i in range(1, 1 << 20) if (n := f"{name}_{i}") not in reserved)


def select_items(query: ast.Query, flow: PartialPlan, scope: Scope, *, transient: bool = False) -> list[SelectColumn]:
    """Returns the columns of SELECT in order, with stars expanded.

    In a `transient` query, whose result is returned to a client and not stored, columns may have the names of system
    columns, and a star includes the bounds of a window.
    """
    names = ColumnNames(scope)
    items: list[SelectColumn] = []
    for select in query.select:
        if isinstance(select.value, ast.Star):
            items += _expand_star(select.value, query, flow, scope, names, bounds=transient)
        elif isinstance(select.value, ast.StructStar):
            items += _struct_fields(select.value, scope)
        else:
            items.append(_select_column(select, scope, names, reserved=not transient))
        names.assigned |= {item.name for item in items}
    _check_names(query, items)
    return items


def _select_column(select: ast.SelectItem, scope: Scope, names: ColumnNames, *, reserved: bool) -> SelectColumn:
    expr = qualify(select.value, scope, "SELECT")
    if select.alias is not None:
        if select.alias in SYSTEM_TYPES:
            raise BadName(
                f"`{select.alias}` is a reserved column name. You cannot use it as an alias for a column.",
                span=select.span,
                fix="choose another name",
            )
        return SelectColumn(select.alias, expr)
    name = _default_name(expr, scope, names)
    if reserved and name in SYSTEM_TYPES:
        raise BadName(
            f"Reserved column name in select: `{name}`. Please remove or alias the column.",
            span=select.span,
            fix=f"write {name} AS something",
        )
    return SelectColumn(name, expr)


def _default_name(expr: ast.Expr, scope: Scope, names: ColumnNames) -> str:
    if isinstance(expr, ast.Name):
        if scope.is_join and expr.source and scope.clashes(expr.name):
            return f"{expr.source}_{expr.name}"
        return expr.name
    if isinstance(expr, ast.Dereference):
        return names.field(expr.name)
    return names.column()


def _expand_star(
    star: ast.Star, query: ast.Query, flow: PartialPlan, scope: Scope, names: ColumnNames, *, bounds: bool
) -> list[SelectColumn]:
    if star.source is not None and star.source not in scope.sources:
        scope.resolve(ast.Name("*", star.source, span=star.span), "SELECT")
    columns = scope.visible(star.source)
    if query.partition_by:
        columns = _order_after_rekey(columns, flow, scope)
    elif bounds or scope.is_join:
        columns = _with_bounds(columns, flow, scope)
    items = [SelectColumn(_star_name(c, scope), c.ast_name) for c in columns]
    if query.partition_by:
        exprs = [item.expr for item in items]
        extra = [k for k in flow.keys if not any(v in exprs for v in k.candidates)]
        items = [SelectColumn(_key_name(k, scope, names), k.candidates[0]) for k in extra] + items
    return items


def _order_after_rekey(columns: list[ScopeColumn], flow: PartialPlan, scope: Scope) -> list[ScopeColumn]:
    """Puts a source's old key last among its values; after a join also the pseudo columns, as in ksqlDB."""
    ordered: list[ScopeColumn] = []
    for alias, info in zip(scope.sources, flow.infos, strict=True):
        old = {f.name for f in info.relation.key}
        of_source = [c for c in columns if c.source == alias]
        pseudo = [c for c in scope.columns if c.source == alias and c.hidden and scope.is_join and of_source]
        ordered += [c for c in of_source if c.name not in old] + pseudo + [c for c in of_source if c.name in old]
    return [c for c in columns if c.source is None] + ordered


def _with_bounds(columns: list[ScopeColumn], flow: PartialPlan, scope: Scope) -> list[ScopeColumn]:
    """Adds the bounds of a source's window after its key."""
    ordered = [c for c in columns if c.source is None]
    for alias, info in zip(scope.sources, flow.infos, strict=True):
        of_source = [c for c in columns if c.source == alias]
        keys = {f.name for f in info.relation.key}
        bounds = [c for c in scope.columns if c.source == alias and c.hidden and c.name in e.BOUNDS and of_source]
        ordered += [c for c in of_source if c.name in keys] + bounds + [c for c in of_source if c.name not in keys]
    return ordered


def _star_name(column: ScopeColumn, scope: Scope) -> str:
    return f"{column.source}_{column.name}" if scope.is_join and column.source else column.name


def _key_name(key: KeyColumn, scope: Scope, names: ColumnNames) -> str:
    expr = key.candidates[0]
    return expr.name if isinstance(expr, ast.Name) else _default_name(expr, scope, names)


def _struct_fields(star: ast.StructStar, scope: Scope) -> list[SelectColumn]:
    expr = qualify(star.value, scope, "SELECT")
    kind = Typer(scope, "SELECT").typed(expr).type
    if not t.is_struct(kind):
        raise BadType(
            f"{expression_text(star.value)} is of type {type_text(kind)}, which has no fields", span=star.span
        )
    return [SelectColumn(name, ast.Dereference(expr, name, span=star.span)) for name in t.fields(kind)]


def _check_names(query: ast.Query, items: Sequence[SelectColumn]) -> None:
    names = [item.name for item in items]
    for item in items:
        if names.count(item.name) > 1:
            raise BadName(
                f"column `{item.name}` appears twice in the projection",
                span=item.expr.span,
                fix=f"give one of them another name: ... AS {item.name}_2",
            )


# -- key ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class KeyPurpose:
    """The origin of the key, for messages."""

    target: str | None
    clause: str
    """`key column`, `partitioning expression`, `grouping expression` or `join expression`."""


def project(
    flow: PartialPlan, items: Sequence[SelectColumn], typed: Sequence[e.Expression], purpose: KeyPurpose
) -> PartialPlan:
    """Projects to these columns. Without a target the result is not stored, and the key may be omitted."""
    keys = _key_items(flow, items, purpose)
    key_items = [item for item in keys if item is not None]
    values = [(i, x) for i, x in zip(items, typed, strict=True) if not any(i is k for k in key_items)]
    if purpose.target is not None and not values:
        raise BadQuery(
            "The projection contains no value columns.",
            span=items[0].expr.span if items else None,
            fix="select a column",
        )
    for item, x in values:
        _check_typed(item, x)
    named = tuple(e.NamedExpression(item.name, x) for item, x in values)
    key = tuple(Field(item.name if item else f"${k.name}", k.type) for item, k in zip(keys, flow.keys, strict=True))
    relation = replace(flow.relation, key=key, value=tuple(Field(n.name, n.type) for n in named))
    return replace(
        flow.on(Select(flow.node, relation, named), relation), select_names=tuple(item.name for item in items)
    )


def _check_typed(item: SelectColumn, expression: e.Expression) -> None:
    if expression.type == t.NULL:
        raise TypeMismatch(
            "Can't infer a type of null. Please explicitly cast it to a required type, e.g. CAST(null AS VARCHAR).",
            span=item.expr.span,
            fix=f"CAST(NULL AS VARCHAR) AS {item.name}",
        )


def _key_items(flow: PartialPlan, items: Sequence[SelectColumn], purpose: KeyPurpose) -> list[SelectColumn | None]:
    key_items: list[SelectColumn | None] = []
    missing: list[KeyColumn] = []
    for key in flow.keys:
        same = next((m for v in key.candidates if (m := [item for item in items if item.expr == v])), [])
        if not same:
            missing.append(key)
            key_items.append(None)
            continue
        if len(same) > 1 and purpose.target is not None:
            raise BadKey(
                f"The projection contains a key column more than once: {' and '.join(f'`{i.name}`' for i in same)}.",
                span=same[1].expr.span,
                fix=f"write AS_VALUE({expression_text(same[1].expr)}) for a copy",
            )
        key_items.append(same[0])
    if missing and purpose.target is not None:
        raise _missing_key(flow, missing, purpose)
    return key_items


def _missing_key(flow: PartialPlan, missing: Sequence[KeyColumn], purpose: KeyPurpose) -> BadKey:
    if flow.foreign is not None:
        names = ", ".join(f"`{k.name}`" for k in missing)
        return BadKey(
            "Primary key column missing in projection. For foreign-key table-table joins, the projection must include "
            f"all primary key columns from the left input table (`{flow.foreign}`). Missing column: {names}.",
            span=flow.scope.columns[0].ast_name.span,
            fix="add it to SELECT",
        )
    several = purpose.clause == "join expression"
    candidates = [v for k in missing for v in k.candidates]
    bare = purpose.clause in ("grouping expression", "key column")
    exprs = [expression_text(replace(v, source=None) if bare and isinstance(v, ast.Name) else v) for v in candidates]
    expr_list = exprs[0] if len(exprs) == 1 else f"{', '.join(exprs[:-1])} {'or' if several else 'and'} {exprs[-1]}"
    example = exprs[0] if several else ", ".join(exprs)
    note = ""
    if any(k.synthetic for k in missing):
        note = (
            "\nROWKEY was added as a synthetic key column because the join criteria did not match any source column. "
            "This expression must be included in the projection and may be aliased."
        )
    plural = "s" if len(exprs) > 1 else ""
    return BadKey(
        "Key missing from projection (ie, SELECT).\n"
        f"The query used to build `{purpose.target}` must include the {purpose.clause}{plural} {expr_list} in its "
        f"projection (eg, SELECT {example}...).{note}",
        fix=f"add {example} to SELECT",
    )
