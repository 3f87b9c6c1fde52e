"""Converts parsed expressions to typed expressions of the plan. One method per kind of node.

A `Typer` works in one clause of one query. Its `substitute` hook sees every part first: GROUP BY uses it to replace
written expressions by key columns and results of aggregates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import singledispatchmethod

import pyarrow as pa

from headrace.errors import (
    BadGrouping,
    BadLiteral,
    BadName,
    BadType,
    ColumnNotFound,
    HeadraceError,
    StatementError,
    TypeMismatch,
    suggestion,
)
from headrace.lang.ksql import ast
from headrace.lang.ksql.analyzer import operator_types
from headrace.lang.ksql.analyzer.coercion import cast_to, common_type, decimal_type, literal_as, unify
from headrace.lang.ksql.analyzer.scope import Scope
from headrace.lang.ksql.analyzer.types import plan_type
from headrace.lang.ksql.formatter import expression_text, type_text
from headrace.plan import expressions as e
from headrace.plan import types as t
from headrace.plan.casts import can_cast
from headrace.plan.functions import find, unknown_function
from headrace.plan.functions.declaration import AggregateFunction, Function
from headrace.plan.functions.signature import UNIT, Argument, LambdaType, lambda_parameters, resolve

Substitute = Callable[[ast.Expr], e.Expression | None]


def _no_substitute(_: ast.Expr) -> e.Expression | None:
    return None


@dataclass
class Typer:
    scope: Scope
    clause: str
    types: Mapping[str, pa.DataType] = field(default_factory=dict)
    substitute: Substitute = _no_substitute
    variables: Mapping[str, pa.DataType] = field(default_factory=dict)

    def typed(self, node: ast.Expr) -> e.Expression:
        substituted = self.substitute(node)
        return substituted if substituted is not None else self._typed(node)

    def condition(self, node: ast.Expr) -> e.Expression:
        """Types an expression that must be boolean."""
        try:
            expression = self.typed(node)
        except TypeMismatch as error:
            error.what = f"Error in {self.clause} expression: {error.what}"
            error.args = (error.what,)
            raise
        if expression.type != t.BOOLEAN:
            raise TypeMismatch(
                f"Type error in {self.clause} expression: Should evaluate to boolean but is "
                f"{expression_text(node)} ({type_text(expression.type)}) instead.",
                span=node.span,
                fix="write a condition, for example a comparison",
            )
        return expression

    @singledispatchmethod
    def _typed(self, node: ast.Expr) -> e.Expression:
        raise BadType(f"{expression_text(node)} cannot be used in {self.clause}", span=node.span)

    # -- names and literals -----------------------------------------------------------------------------------------

    @_typed.register
    def _(self, node: ast.Name) -> e.Expression:
        if node.source is None and node.name in self.variables:
            return e.Variable(self.variables[node.name], node.name)
        return self.scope.resolve(node, self.clause).expression

    @_typed.register
    def _(self, node: ast.IntegerLiteral) -> e.Expression:
        return e.Literal(t.INT if t.INT_MIN <= node.value <= t.INT_MAX else t.BIGINT, node.value)

    @_typed.register
    def _(self, node: ast.DecimalLiteral) -> e.Expression:
        return e.Literal(decimal_type(node.value), node.value)

    @_typed.register
    def _(self, node: ast.DoubleLiteral) -> e.Expression:
        return e.Literal(t.DOUBLE, node.value)

    @_typed.register
    def _(self, node: ast.StringLiteral) -> e.Expression:
        return e.Literal(t.STRING, node.value)

    @_typed.register
    def _(self, node: ast.BooleanLiteral) -> e.Expression:
        return e.Literal(t.BOOLEAN, node.value)

    @_typed.register
    def _(self, node: ast.NullLiteral) -> e.Expression:
        return e.Literal(t.NULL, None)

    @_typed.register
    def _(self, node: ast.ParameterLiteral) -> e.Expression:
        return e.Parameter(t.STRING if isinstance(node.cell.value, str) else t.INT, node.cell)

    @_typed.register
    def _(self, node: ast.TypedLiteral) -> e.Expression:
        kind = {"DATE": t.DATE, "TIME": t.TIME, "TIMESTAMP": t.TIMESTAMP}[node.kind]
        return e.Literal(kind, literal_as(node.text, kind, node.span))

    @_typed.register
    def _(self, node: ast.Unit) -> e.Expression:
        return e.Literal(t.STRING, node.name)

    # -- operators --------------------------------------------------------------------------------------------------

    @_typed.register
    def _(self, node: ast.Arithmetic) -> e.Expression:
        return operator_types.arithmetic(node, self.typed(node.left), self.typed(node.right))

    @_typed.register
    def _(self, node: ast.Unary) -> e.Expression:
        value = self.typed(node.value)
        if not t.is_number(value.type):
            raise TypeMismatch(
                f"operator {node.op} does not support {type_text(value.type)}: {expression_text(node)}", span=node.span
            )
        return value if node.op == "+" else e.Negate(value.type, value)

    @_typed.register
    def _(self, node: ast.Comparison) -> e.Expression:
        return operator_types.comparison(node, self.typed(node.left), self.typed(node.right))

    @_typed.register
    def _(self, node: ast.Logical) -> e.Expression:
        left, right = self._boolean(node.left), self._boolean(node.right)
        return (e.And if node.op == "AND" else e.Or)(t.BOOLEAN, left, right)

    @_typed.register
    def _(self, node: ast.Not) -> e.Expression:
        return e.Not(t.BOOLEAN, self._boolean(node.value))

    def _boolean(self, node: ast.Expr) -> e.Expression:
        value = self.typed(node)
        if value.type not in (t.BOOLEAN, t.NULL):
            raise TypeMismatch(
                f"{expression_text(node)} is of type {type_text(value.type)}, expected BOOLEAN", span=node.span
            )
        return cast_to(value, t.BOOLEAN)

    @_typed.register
    def _(self, node: ast.Between) -> e.Expression:
        value, low, high = self.typed(node.value), self.typed(node.low), self.typed(node.high)
        inside = e.And(
            t.BOOLEAN,
            operator_types.compared(">=", node, node.value, value, node.low, low),
            operator_types.compared("<=", node, node.value, value, node.high, high),
        )
        return e.Not(t.BOOLEAN, inside) if node.negated else inside

    @_typed.register
    def _(self, node: ast.InList) -> e.Expression:
        condition = operator_types.in_list(node, self.typed(node.value), [self.typed(item) for item in node.items])
        return e.Not(t.BOOLEAN, condition) if node.negated else condition

    @_typed.register
    def _(self, node: ast.Like) -> e.Expression:
        value, pattern = self.typed(node.value), self.typed(node.pattern)
        for side in (value, pattern):
            if side.type not in (t.STRING, t.NULL):
                raise TypeMismatch(f"LIKE requires STRING, not {type_text(side.type)}", span=node.span)
        if node.escape is not None and len(node.escape) != 1:
            raise BadLiteral(f"Expected single character escape but got: {node.escape}", span=node.span)
        condition = e.Like(t.BOOLEAN, cast_to(value, t.STRING), cast_to(pattern, t.STRING), node.escape)
        return e.Not(t.BOOLEAN, condition) if node.negated else condition

    @_typed.register
    def _(self, node: ast.IsNull) -> e.Expression:
        condition = e.IsNull(t.BOOLEAN, self.typed(node.value))
        return e.Not(t.BOOLEAN, condition) if node.negated else condition

    @_typed.register
    def _(self, node: ast.Case) -> e.Expression:
        results = [self.typed(result) for _, result in node.branches]
        otherwise = None if node.otherwise is None else self.typed(node.otherwise)
        kind = common_type([r.type for r in (*results, *((otherwise,) if otherwise else ()))])
        if kind is None:
            raise TypeMismatch(
                "Invalid Case expression. Type for all 'THEN' and 'ELSE' clauses should be the same. "
                f"Branches are {', '.join(type_text(r.type) for r in results)}.",
                span=node.span,
                fix="CAST the branches to one type",
            )
        if kind == t.NULL:
            raise TypeMismatch(
                "Invalid Case expression. All case branches have NULL type", span=node.span, fix="CAST one of them"
            )
        conditions = [self._when(node, condition) for condition, _ in node.branches]
        branches = tuple((c, cast_to(r, kind)) for c, r in zip(conditions, results, strict=True))
        return e.Case(kind, branches, None if otherwise is None else cast_to(otherwise, kind))

    def _when(self, node: ast.Case, condition: ast.Expr) -> e.Expression:
        if node.operand is None:
            try:
                return self._boolean(condition)
            except TypeMismatch as error:
                error.what = f"Invalid Case expression. When operand type should be boolean. {error.what}"
                raise
        return self.typed(ast.Comparison("=", node.operand, condition, span=condition.span))

    @_typed.register
    def _(self, node: ast.Cast) -> e.Expression:
        value, kind = self.typed(node.value), plan_type(node.type, self.types)
        if value.type not in (kind, t.NULL) and not can_cast(value.type, kind):
            raise TypeMismatch(f"Cast of {type_text(value.type)} to {type_text(kind)} is not supported", span=node.span)
        return value if value.type == kind else e.Cast(kind, value)

    # -- nested values ----------------------------------------------------------------------------------------------

    @_typed.register
    def _(self, node: ast.Subscript) -> e.Expression:
        value, index = self.typed(node.value), self.typed(node.index)
        if t.is_array(value.type) and index.type in (t.INT, t.BIGINT):
            return e.Subscript(value.type.value_type, value, index)
        if t.is_map(value.type) and index.type == value.type.key_type:
            return e.Subscript(value.type.item_type, value, index)
        raise TypeMismatch(
            f"{expression_text(node)}: {type_text(value.type)} cannot be indexed by {type_text(index.type)}",
            span=node.span,
        )

    @_typed.register
    def _(self, node: ast.Dereference) -> e.Expression:
        value = self.typed(node.value)
        if not t.is_struct(value.type):
            raise TypeMismatch(
                f"{expression_text(node.value)} is of type {type_text(value.type)}, which has no fields", span=node.span
            )
        kinds = t.fields(value.type)
        if node.name not in kinds:
            raise ColumnNotFound(
                f"field '{node.name}' does not exist in {expression_text(node.value)}",
                span=node.span,
                fix=suggestion(node.name, kinds, f"its fields are: {', '.join(kinds)}"),
            )
        return e.FieldOf(kinds[node.name], value, node.name)

    @_typed.register
    def _(self, node: ast.ArrayMaker) -> e.Expression:
        if not node.items:
            raise TypeMismatch(
                "Array constructor cannot be empty. Please supply at least one element.",
                span=node.span,
                fix="add an element, or write CAST(NULL AS ARRAY<...>)",
            )
        items = self._shared(node.items, node, "array", "elements")
        return e.MakeArray(t.array(items[0].type), tuple(items))

    @_typed.register
    def _(self, node: ast.MapMaker) -> e.Expression:
        if not node.pairs:
            raise TypeMismatch(
                "Map constructor cannot be empty. Please supply at least one key value pair.", span=node.span
            )
        keys = self._shared([k for k, _ in node.pairs], node, "map", "keys")
        values = self._shared([v for _, v in node.pairs], node, "map", "values")
        return e.MakeMap(t.map_of(keys[0].type, values[0].type), tuple(zip(keys, values, strict=True)))

    def _shared(self, nodes: Sequence[ast.Expr], node: ast.Expr, what: str, parts: str) -> list[e.Expression]:
        """Converts all to one type, or raises."""
        items = [self.typed(item) for item in nodes]
        if all(item.type == t.NULL for item in items):
            article = "an" if what == "array" else "a"
            raise TypeMismatch(
                f"Cannot construct {article} {what} with all NULL {parts}",
                span=node.span,
                fix="CAST one of them to a type",
            )
        as_one = unify(nodes, items)
        if as_one is None:
            kinds = ", ".join(type_text(item.type) for item in items)
            raise TypeMismatch(f"{parts} of {what} have different types: {kinds}", span=node.span, fix="CAST them")
        return as_one

    @_typed.register
    def _(self, node: ast.StructMaker) -> e.Expression:
        names = [name for name, _ in node.fields]
        if len(set(names)) < len(names):
            raise BadName(f"Duplicate field names found in STRUCT: {', '.join(names)}", span=node.span)
        fields = tuple((name, self.typed(value)) for name, value in node.fields)
        return e.MakeStruct(t.struct((name, value.type) for name, value in fields), fields)

    # -- functions --------------------------------------------------------------------------------------------------

    @_typed.register
    def _(self, node: ast.Call) -> e.Expression:
        function = find(node.name)
        if function is None:
            error = unknown_function(node.name)
            error.span = replace(node.span, end=min(node.span.end, node.span.start + len(node.name)))
            raise error
        if isinstance(function, AggregateFunction):
            raise BadGrouping(
                f"{self.clause} does not support aggregate functions: {node.name} is an aggregate function.",
                span=node.span,
                fix="write the condition in HAVING, after GROUP BY" if self.clause == "WHERE" else None,
            )
        if function.table:
            raise BadGrouping(
                f"Table function {node.name} cannot be used inside {self.clause} or another function", span=node.span
            )
        return self.call(node, function)

    def call(self, node: ast.Call, function: Function) -> e.Expression:
        """Types a scalar or table function with the overload that fits its arguments."""
        arguments = self._arguments(node, function)
        try:
            call = resolve(function, [_kind(a, n) for a, n in zip(arguments, node.arguments, strict=True)])
        except HeadraceError as error:
            raise _placed(error, node) from None
        cast = tuple(
            a if isinstance(a, e.Lambda) else cast_to(a, k) for a, k in zip(arguments, call.arguments, strict=True)
        )
        return e.Call(call.result, function.name, call.overload, cast)

    def _arguments(self, node: ast.Call, function: Function) -> list[e.Expression]:
        plain = [None if isinstance(a, ast.Lambda) else self.typed(a) for a in node.arguments]
        if all(p is not None for p in plain):
            return [p for p in plain if p is not None]
        kinds = [
            LambdaType(len(a.parameters)) if isinstance(a, ast.Lambda) else _kind(p, a)
            for a, p in zip(node.arguments, plain, strict=True)
        ]
        try:
            parameters = lambda_parameters(function, kinds)
        except HeadraceError as error:
            raise _placed(error, node) from None
        return [
            p if p is not None else self._lambda(a, parameters[at])
            for at, (a, p) in enumerate(zip(node.arguments, plain, strict=True))
        ]

    def _lambda(self, node: ast.Expr, kinds: tuple[pa.DataType, ...]) -> e.Expression:
        assert isinstance(node, ast.Lambda)
        inner = Typer(
            self.scope,
            self.clause,
            self.types,
            self.substitute,
            {**self.variables, **dict(zip(node.parameters, kinds, strict=True))},
        )
        body = inner.typed(node.body)
        return e.Lambda(body.type, node.parameters, body)


def _kind(argument: e.Expression | None, node: ast.Expr) -> Argument:
    if isinstance(argument, e.Lambda):
        return LambdaType(len(argument.parameters), argument.type)
    if isinstance(node, ast.Unit):
        return UNIT
    return t.NULL if argument is None else argument.type


def _placed(error: HeadraceError, node: ast.Expr) -> HeadraceError:
    if isinstance(error, StatementError) and error.span is None:
        error.span = node.span
    return error
