"""FROM: sources and joins. The kind of join follows from the kinds of its sides and from the condition."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from headrace.errors import BadJoin, BadWindow
from headrace.lang.ksql import ast
from headrace.lang.ksql.analyzer.scope import Scope, ScopeColumn, parts_of, qualify
from headrace.lang.ksql.analyzer.typer import Typer
from headrace.lang.ksql.formatter import expression_text, type_text
from headrace.lang.ksql.query.partial_plan import KeyColumn, PartialPlan, check_not_windowed, prefix_columns, rekey
from headrace.plan import expressions as e
from headrace.plan.nodes import ForeignKeyJoin, JoinKind, Node, StreamJoin, StreamTableJoin, TableJoin
from headrace.plan.relations import Kind, Relation, Window, WindowKind
from headrace.schema import Field

_JOIN_TEXTS = {
    "INNER": "[INNER] JOIN",
    "LEFT": "LEFT [OUTER] JOIN",
    "RIGHT": "RIGHT [OUTER] JOIN",
    "FULL": "[FULL] OUTER JOIN",
}
SYNTHETIC = "ROWKEY"
"""The name of a key that no source has: of a full join, and of a join on expressions."""


@dataclass(frozen=True)
class _Side:
    flow: PartialPlan
    expr: ast.Expr
    """The join expression, with source qualifiers."""
    expression: e.Expression

    @property
    def on_key(self) -> bool:
        keys = self.flow.keys
        return len(keys) == 1 and not keys[0].synthetic and self.expr in keys[0].candidates

    @property
    def on_shared_key(self) -> bool:
        """Whether the key is that of a full join of tables, and the column is the key of one of them."""
        of = dict(zip(self.flow.scope.sources, self.flow.infos, strict=True))
        keys = [ast.Name(f.name, s) for s, info in of.items() for f in info.relation.key]
        return self.flow.keys[0].synthetic and self.expr in keys

    @property
    def is_column(self) -> bool:
        return isinstance(self.expr, ast.Name)


SourcePlanner = Callable[[ast.SourceRef | ast.SubqueryRef | ast.OperatorRef], PartialPlan]
"""Plans a source or a subquery."""


def from_clause(source: ast.From, plan_source: SourcePlanner, used: set[str]) -> PartialPlan:
    """Plans a FROM clause."""
    return _join(source, plan_source, used) if isinstance(source, ast.Join) else plan_source(source)


def _join(join: ast.Join, plan_source: SourcePlanner, used: set[str]) -> PartialPlan:
    left = _operand(join.left, plan_source, used)
    right = _operand(join.right, plan_source, used)
    _check_sources(join, left, right)
    left_side, right_side = _sides(join, left, right)
    _check_types(join, left_side, right_side)
    _check_windows(join, left, right)
    if left.kind is Kind.TABLE and right.kind is Kind.STREAM:
        raise BadJoin(
            "Invalid join order: table-stream joins are not supported; only stream-table joins. "
            + _got(join, left, right),
            span=join.span,
            fix="put the stream on the left",
        )
    if right.kind is Kind.STREAM:
        return _stream_join(join, left_side, right_side)
    return (
        _stream_table_join(join, left_side, right_side)
        if left.kind is Kind.STREAM
        else _table_join(join, left_side, right_side)
    )


def _operand(source: ast.From, plan_source: SourcePlanner, used: set[str]) -> PartialPlan:
    return (
        _join(source, plan_source, used) if isinstance(source, ast.Join) else prefix_columns(plan_source(source), used)
    )


def _got(join: ast.Join, left: PartialPlan, right: PartialPlan) -> str:
    return f"Got {left.scope.sources[-1]} {_JOIN_TEXTS[join.kind]} {right.scope.sources[-1]}."


# -- checks ---------------------------------------------------------------------------------------------------------


def _check_sources(join: ast.Join, left: PartialPlan, right: PartialPlan) -> None:
    for info in left.infos:
        if info.name == right.infos[0].name:
            raise BadJoin(
                f"Can not join '{info.name}' to '{info.name}': self joins are not yet supported.", span=join.right.span
            )
    for alias in right.scope.sources:
        if alias in left.scope.sources:
            raise BadJoin(f"'{alias}' names two sources", span=join.right.span, fix="give one of them another alias")
    plain = [i.name for i in (*left.infos, *right.infos) if i.value_format.name == "KAFKA"]
    if plain:
        raise BadJoin(
            f"Source(s) {', '.join(plain)} are using the 'KAFKA' value format. This format does not yet support JOIN.",
            span=join.span,
            fix="copy the source to a stream with VALUE_FORMAT='JSON' first",
        )


def _sides(join: ast.Join, left: PartialPlan, right: PartialPlan) -> tuple[_Side, _Side]:
    on = join.on
    if not (isinstance(on, ast.Comparison) and on.op == "="):
        both = Scope((*left.scope.columns, *right.scope.columns), (*left.scope.sources, *right.scope.sources))
        condition = expression_text(qualify(on, both, "JOIN ON"))
        several = (
            "joins on multiple conditions are not yet supported."
            if isinstance(on, ast.Logical)
            else "joins require an equality."
        )
        raise BadJoin(
            f"Invalid join condition: {several} Got {condition}.",
            span=on.span,
            fix="join ON left.column = right.column",
        )
    both = Scope((*left.scope.columns, *right.scope.columns), (*left.scope.sources, *right.scope.sources))
    exprs = [qualify(part, both, "JOIN ON") for part in (on.left, on.right)]
    sides = [_side_of(part, on, exprs, left, right) for part in exprs]
    if sides[0] == sides[1]:
        names = [sorted({p.source for p in parts_of(w) if isinstance(p, ast.Name) and p.source}) for w in exprs]
        raise BadJoin(
            "Each side of the join must reference exactly one source and not the same source. Left side references "
            f"`{names[0][0]}` and right references `{names[1][0]}`",
            span=on.span,
        )
    if sides[0] == "right":
        exprs.reverse()
    typed = [Typer(f.scope, "JOIN ON").typed(w) for f, w in zip((left, right), exprs, strict=True)]
    return _Side(left, exprs[0], typed[0]), _Side(right, exprs[1], typed[1])


def _side_of(part: ast.Expr, on: ast.Comparison, exprs: list[ast.Expr], left: PartialPlan, right: PartialPlan) -> str:
    sources = {p.source for p in parts_of(part) if isinstance(p, ast.Name)}
    if len(sources) != 1:
        condition = f"({expression_text(exprs[0])} = {expression_text(exprs[1])})"
        raise BadJoin(
            f"Invalid comparison expression '{expression_text(part)}' in join '{condition}'. Each side of the join "
            "comparision must contain references from exactly one source.",
            span=on.span,
        )
    return "left" if sources <= set(left.scope.sources) else "right"


def _check_types(join: ast.Join, left: _Side, right: _Side) -> None:
    if left.expression.type != right.expression.type:
        raise BadJoin(
            "Invalid join condition: types don't match. Got "
            f"{expression_text(left.expr)}{{{type_text(left.expression.type)}}} = "
            f"{expression_text(right.expr)}{{{type_text(right.expression.type)}}}.",
            span=join.on.span,
            fix="CAST one side",
        )


def _check_windows(join: ast.Join, left: PartialPlan, right: PartialPlan) -> None:
    left_window, right_window = left.relation.window, right.relation.window
    if (left_window is None) != (right_window is None):
        sides = [f"`{f.infos[0].name}` is {_windowed(f.relation.window)}" for f in (left, right)]
        raise BadWindow("Can not join windowed source to non-windowed source.\n" + "\n".join(sides), span=join.span)
    if (
        left_window
        and right_window
        and (left_window.kind is WindowKind.SESSION) != (right_window.kind is WindowKind.SESSION)
    ):
        raise BadWindow("Can not join sources with different window types", span=join.span)
    if left_window and right_window and left_window.size != right_window.size:
        raise BadWindow("Implicit repartitioning of windowed sources is not supported.", span=join.span)


def _windowed(window: Window | None) -> str:
    return f"{window.kind.upper()} windowed" if window else "not windowed"


# -- kinds of joins -------------------------------------------------------------------------------------------------


def _output(left: PartialPlan, right: PartialPlan, key: tuple[KeyColumn, ...], kind: Kind) -> Relation:
    fields = tuple(Field(k.name, k.type) for k in key)
    return Relation(kind, fields, (*left.relation.value, *right.relation.value), left.relation.window)


def _result(
    node: Node, relation: Relation, key: tuple[KeyColumn, ...], left: PartialPlan, right: PartialPlan
) -> PartialPlan:
    columns = (*left.scope.columns, *right.scope.columns)
    columns = tuple(c for c in columns if c.name != SYNTHETIC or c.source is not None)
    if key[0].synthetic:
        columns = (ScopeColumn(None, SYNTHETIC, key[0].name, key[0].type), *columns)
    scope = Scope(columns, (*left.scope.sources, *right.scope.sources))
    return PartialPlan(node, relation, scope, key, left.key_format, left.value_format, (*left.infos, *right.infos))


def _key(join: ast.Join, left: _Side, right: _Side) -> tuple[KeyColumn, ...]:
    kind = left.expression.type
    if join.kind != "FULL":
        candidates: tuple[ast.Expr, ...] = ()
        if left.on_key:
            candidates = left.flow.keys[0].candidates
        elif left.is_column:
            candidates = (left.expr,)
        if right.is_column:
            candidates = (*candidates, right.expr)
        if candidates:
            return (KeyColumn("$key", kind, candidates),)
    return (KeyColumn(SYNTHETIC, kind, (ast.Name(SYNTHETIC),), synthetic=True),)


def _rekeyed(side: _Side) -> PartialPlan:
    """Returns the stream under the key that the join needs."""
    if side.on_key:
        return side.flow
    check_not_windowed(side.flow, side.expr)
    key = KeyColumn("$key", side.expression.type, (side.expr,))
    return rekey(side.flow, (key,), (side.expression,), explicit=False)


def _stream_join(join: ast.Join, left: _Side, right: _Side) -> PartialPlan:
    if join.within is None:
        raise BadJoin(
            "Stream-Stream joins must have a WITHIN clause specified. None was provided. "
            + _got(join, left.flow, right.flow),
            span=join.span,
            fix="add WITHIN 1 HOUR, for example",
        )
    left_plan, right_plan, key = _rekeyed(left), _rekeyed(right), _key(join, left, right)
    relation = _output(left_plan, right_plan, key, Kind.STREAM)
    within = join.within
    node = StreamJoin(
        left_plan.node,
        right_plan.node,
        relation,
        JoinKind(join.kind.lower()),
        within.before,
        within.after,
        within.grace,
    )
    return _result(node, relation, key, left_plan, right_plan)


def _reject_within(join: ast.Join, left: _Side, right: _Side) -> None:
    if join.within is not None:
        raise BadJoin(
            f"Join with a table does not support WITHIN. {_got(join, left.flow, right.flow)}",
            span=join.span,
            fix="remove WITHIN",
        )


def _stream_table_join(join: ast.Join, left: _Side, right: _Side) -> PartialPlan:
    _reject_within(join, left, right)
    if join.kind in ("RIGHT", "FULL"):
        name = "full-outer" if join.kind == "FULL" else "right-outer"
        raise BadJoin(
            f"Invalid join type: {name} join not supported for stream-table join. {_got(join, left.flow, right.flow)}",
            span=join.span,
        )
    _check_primary_key(join, left, right, "stream-table")
    left_plan, key = _rekeyed(left), _key(join, left, right)
    relation = _output(left_plan, right.flow, key, Kind.STREAM)
    node = StreamTableJoin(left_plan.node, right.flow.node, relation, JoinKind(join.kind.lower()))
    return _result(node, relation, key, left_plan, right.flow)


def _check_primary_key(join: ast.Join, left: _Side, right: _Side, kind: str) -> None:
    if not right.on_key:
        where = "the primary key of the right input table" if kind == "table-table" else "the table's primary key"
        exprs = [expression_text(s) for s in (left.expr, right.expr)]
        if isinstance(join.on, ast.Comparison) and {
            p.source for p in parts_of(join.on.left) if isinstance(p, ast.Name)
        } <= set(right.flow.scope.sources):
            exprs.reverse()
        raise BadJoin(
            f"Invalid join condition: {kind} joins require to join on {where}. Got {' = '.join(exprs)}.",
            span=join.on.span,
        )


def _table_join(join: ast.Join, left: _Side, right: _Side) -> PartialPlan:
    _reject_within(join, left, right)
    _check_primary_key(join, left, right, "table-table")
    if left.on_key or left.on_shared_key:
        key = _key(join, left, right)
        relation = _output(left.flow, right.flow, key, Kind.TABLE)
        node = TableJoin(left.flow.node, right.flow.node, relation, JoinKind(join.kind.lower()))
        return _result(node, relation, key, left.flow, right.flow)
    return _foreign_key_join(join, left, right)


def _foreign_key_join(join: ast.Join, left: _Side, right: _Side) -> PartialPlan:
    source, *others = left.flow.infos
    if others:
        raise BadJoin(
            "Invalid join condition: foreign-key table-table joins are not supported as part of n-way joins. "
            f"Got {expression_text(left.expr)} = {expression_text(right.expr)}.",
            span=join.on.span,
        )
    if left.flow.relation.window is not None or right.flow.relation.window is not None:
        raise BadJoin("Foreign-key table-table joins are not supported on windowed tables.", span=join.span)
    if join.kind in ("RIGHT", "FULL"):
        raise BadJoin(f"{join.kind} OUTER JOIN on a foreign key is not supported", span=join.span)
    relation = _output(left.flow, right.flow, left.flow.keys, Kind.TABLE)
    node = ForeignKeyJoin(left.flow.node, right.flow.node, relation, JoinKind(join.kind.lower()), left.expression)
    flow = _result(node, relation, left.flow.keys, left.flow, right.flow)
    return replace(flow, foreign=source.name)
