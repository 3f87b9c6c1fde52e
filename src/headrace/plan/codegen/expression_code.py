"""Generates a Python expression for each kind of expression; `headrace.plan.expressions` defines their semantics.

Each function returns an `ExpressionCode`. An operand that is used twice (once for a null check) is bound with `:=`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch
from typing import Any

import pyarrow as pa

from headrace.plan import expressions as ex
from headrace.plan import scalar_operations as do
from headrace.plan import types as ty
from headrace.plan.casts import caster, identity
from headrace.plan.codegen.code import CodeBuilder, ExpressionCode
from headrace.plan.expressions import Compare, Expression, Op
from headrace.plan.functions.declaration import NullRule

_DAY = 86_400_000


@singledispatch
def expression_code(expression: Expression, code: CodeBuilder) -> ExpressionCode:
    """Returns the expression as Python source."""
    raise NotImplementedError(f"{type(expression).__name__} has no Python form")


def null_propagating(
    code: CodeBuilder, pieces: Sequence[ExpressionCode], template: str, *, raises: bool = False, nullable: bool = False
) -> ExpressionCode:
    """Fills the template with the operands; null if any of them is null. The template may use each operand once."""
    checks, text = _filled(code, pieces, template)
    raising = raises or any(piece.raises for piece in pieces)
    if not checks:
        return ExpressionCode(f"({text})", nullable, raising)
    return ExpressionCode(f"(None if {checks} else {text})", True, raising)


def computed(
    code: CodeBuilder, pieces: Sequence[ExpressionCode], template: str, *, raises: bool = False
) -> ExpressionCode:
    """The same for arithmetic and logic, which fail on a null inside a lambda, and the call with them."""
    if not code.variables:
        return null_propagating(code, pieces, template, raises=raises)
    checks, text = _filled(code, pieces, template)
    if checks:
        text = f"{code.constant(do.fail_on_null)}() if {checks} else {text}"
    return ExpressionCode(f"({text})", nullable=False, raises=True)


def _filled(code: CodeBuilder, pieces: Sequence[ExpressionCode], template: str) -> tuple[str, str]:
    """Returns the condition under which an operand is null, and the template filled with their names."""
    checked = [_checked(code, piece) for piece in pieces]
    return " or ".join(check for check, _ in checked if check), template.format(*(name for _, name in checked))


def _plain(text: str | None) -> str:
    """Returns a string's source, escaped for a template."""
    return repr(text).replace("{", "{{").replace("}", "}}")


def _checked(code: CodeBuilder, piece: ExpressionCode) -> tuple[str, str]:
    """Returns the operand's null check, and its name after the check."""
    if not piece.nullable:
        return "", piece.text
    if piece.text.isidentifier():
        return f"{piece.text} is None", piece.text
    name = code.name()
    return f"({name} := {piece.text}) is None", name


@expression_code.register
def _(e: ex.Column, code: CodeBuilder) -> ExpressionCode:
    return code.column(e.name)


@expression_code.register
def _(e: ex.Variable, code: CodeBuilder) -> ExpressionCode:
    return ExpressionCode(code.variables[e.name])


@expression_code.register
def _(e: ex.Literal, code: CodeBuilder) -> ExpressionCode:
    return ExpressionCode(code.constant(e.value), nullable=e.value is None)


@expression_code.register
def _(e: ex.Parameter, code: CodeBuilder) -> ExpressionCode:
    return ExpressionCode(f"{code.constant(e)}.value", nullable=False)


# -- numbers --------------------------------------------------------------------------------------------------------

_RANGES = {
    ty.INT: ("-0x80000000", "0x7FFFFFFF", do.wrap_int),
    ty.BIGINT: (f"-0x8{0:015}", f"0x7{'F' * 15}", do.wrap_bigint),
}
_WHOLE = {Op.DIVIDE: do.divide_int, Op.REMAINDER: do.remainder_int}
_DOUBLE = {Op.DIVIDE: do.divide_double, Op.REMAINDER: do.remainder_double}
_DECIMAL = {
    Op.ADD: do.EXACT.add,
    Op.SUBTRACT: do.EXACT.subtract,
    Op.MULTIPLY: do.EXACT.multiply,
    Op.DIVIDE: do.EXACT.divide,
    Op.REMAINDER: do.EXACT.remainder,
}
_EXACT_SCALE = {Op.ADD: max, Op.SUBTRACT: max, Op.MULTIPLY: lambda left, right: left + right}


@expression_code.register
def _(e: ex.Arithmetic, code: CodeBuilder) -> ExpressionCode:
    sides = [code.piece(e.left), code.piece(e.right)]
    if ty.is_decimal(e.type):
        return _decimal(e, code, sides)
    if e.type in _RANGES:
        return _integer(e, code, sides)
    if e.type == ty.DOUBLE and e.op in _DOUBLE:
        return computed(code, sides, f"{code.constant(_DOUBLE[e.op])}({{}}, {{}})")
    if e.type in (ty.STRING, ty.BYTES):
        joined = code.charged(f"{code.constant(do.concat_text)}({{}}, {{}})", "||")
        return computed(code, sides, joined, raises=True)
    return computed(code, sides, f"{{}} {e.op} {{}}")


def _integer(e: ex.Arithmetic, code: CodeBuilder, sides: list[ExpressionCode]) -> ExpressionCode:
    known = _WHOLE.get(e.op)
    plain = f"{code.constant(known)}({{}}, {{}})" if known else f"{{}} {e.op} {{}}"
    if e.op is Op.REMAINDER:
        return computed(code, sides, plain, raises=True)
    return computed(code, sides, _in_range(code, e.type, plain), raises=known is not None)


def _in_range(code: CodeBuilder, kind: pa.DataType, text: str) -> str:
    least, most, wrap = _RANGES[kind]
    name = code.name()
    return f"({name} if {least} <= ({name} := {text}) <= {most} else {code.constant(wrap)}({name}))"


def _decimal(e: ex.Arithmetic, code: CodeBuilder, sides: list[ExpressionCode]) -> ExpressionCode:
    scales = [side.type.scale for side in (e.left, e.right) if ty.is_decimal(side.type)]
    exact = _EXACT_SCALE.get(e.op)
    text = f"{code.constant(_DECIMAL[e.op])}({{}}, {{}})"
    if exact is None or len(scales) < 2 or exact(*scales) != e.type.scale:
        text = f"{code.constant(do.scaler(e.type.scale))}({text})"
    return computed(code, sides, text, raises=e.op in (Op.DIVIDE, Op.REMAINDER))


@expression_code.register
def _(e: ex.Negate, code: CodeBuilder) -> ExpressionCode:
    value = [code.piece(e.value)]
    if ty.is_decimal(e.type):
        return computed(code, value, f"{code.constant(do.EXACT.minus)}({{}})")
    return computed(code, value, _in_range(code, e.type, "-{}") if e.type in _RANGES else "-{}")


# -- comparisons and logic ------------------------------------------------------------------------------------------

_PYTHON = {Compare.EQUAL: "==", Compare.NOT_EQUAL: "!=", Compare.NOT_DISTINCT: "==", Compare.DISTINCT: "!="}


@expression_code.register
def _(e: ex.Comparison, code: CodeBuilder) -> ExpressionCode:
    return _compared(code, e.op, _alike(code, e.left, e.right.type), _alike(code, e.right, e.left.type))


def _compared(code: CodeBuilder, op: Compare, left: ExpressionCode, right: ExpressionCode) -> ExpressionCode:
    sign = _PYTHON.get(op, op)
    raises = left.raises or right.raises
    if op in (Compare.DISTINCT, Compare.NOT_DISTINCT):
        return ExpressionCode(f"({left.text} {sign} {right.text})", False, raises)
    checks, names = zip(*(_checked(code, side) for side in (left, right)), strict=True)
    not_null = [check.removesuffix("is None") + "is not None" for check in checks if check]
    return ExpressionCode(f"({' and '.join([*not_null, f'{names[0]} {sign} {names[1]}'])})", False, raises)


def _alike(code: CodeBuilder, side: Expression, other: pa.DataType) -> ExpressionCode:
    """Returns a side of a comparison in a form that Python compares correctly with values of the other type."""
    piece = code.piece(side)
    if side.type == ty.DOUBLE and ty.is_decimal(other):
        return null_propagating(code, [piece], f"{code.constant(do.double_as_decimal)}({{}})", raises=True)
    if side.type == ty.DATE and other == ty.TIMESTAMP:
        return null_propagating(code, [piece], f"{{}} * {_DAY}")
    return piece


@expression_code.register
def _(e: ex.And, code: CodeBuilder) -> ExpressionCode:
    return _joined(code, e, "and")


@expression_code.register
def _(e: ex.Or, code: CodeBuilder) -> ExpressionCode:
    return _joined(code, e, "or")


def _joined(code: CodeBuilder, e: ex.And | ex.Or, word: str) -> ExpressionCode:
    """Flattens a chain of the same operator, of any length; null counts as false."""
    pieces = [code.piece(part) for part in ex.operands(e, type(e))]
    texts = [_true(code, piece) for piece in pieces]
    return ExpressionCode(f"({f' {word} '.join(texts)})", False, _may_fail(code, pieces))


def _true(code: CodeBuilder, condition: ExpressionCode) -> str:
    """Returns whether a condition holds: null does not, and inside a lambda it fails."""
    if not condition.nullable:
        return condition.text
    return computed(code, [condition], "{}").text if code.variables else f"({condition.text} is True)"


def _may_fail(code: CodeBuilder, conditions: Sequence[ExpressionCode]) -> bool:
    return any(piece.raises or (piece.nullable and code.variables) for piece in conditions)


@expression_code.register
def _(e: ex.Not, code: CodeBuilder) -> ExpressionCode:
    return computed(code, [code.piece(e.value)], "not {}")


@expression_code.register
def _(e: ex.IsNull, code: CodeBuilder) -> ExpressionCode:
    piece = code.piece(e.value)
    return ExpressionCode(f"({piece.text} is None)" if piece.nullable else "False", False, piece.raises)


@expression_code.register
def _(e: ex.In, code: CodeBuilder) -> ExpressionCode:
    value = code.piece(e.value)
    if all(isinstance(item, ex.Literal) and item.type == e.value.type for item in e.items):
        return _in_constants(code, e, value)
    check, name = _checked(code, value)
    if not check:
        name = code.name()
        check = f"({name} := {value.text}) is None"
    comparisons = [
        _compared(
            code, Compare.EQUAL, _alike_name(code, name, e.value.type, item.type), _alike(code, item, e.value.type)
        )
        for item in e.items
    ]
    text = " or ".join(piece.text for piece in comparisons) or "False"
    return ExpressionCode(
        f"(False if {check} else ({text}))", False, value.raises or any(piece.raises for piece in comparisons)
    )


def _in_constants(code: CodeBuilder, e: ex.In, value: ExpressionCode) -> ExpressionCode:
    values: Any = [item.value for item in e.items if isinstance(item, ex.Literal) and item.value is not None]
    constants = values if ty.is_nested(e.value.type) else frozenset(values)
    return ExpressionCode(f"({value.text} in {code.constant(constants)})", False, value.raises)


def _alike_name(code: CodeBuilder, name: str, kind: pa.DataType, other: pa.DataType) -> ExpressionCode:
    if kind == ty.DOUBLE and ty.is_decimal(other):
        return ExpressionCode(f"{code.constant(do.double_as_decimal)}({name})", False, raises=True)
    return ExpressionCode(f"{name} * {_DAY}" if (kind, other) == (ty.DATE, ty.TIMESTAMP) else name, False)


@expression_code.register
def _(e: ex.Like, code: CodeBuilder) -> ExpressionCode:
    value = code.piece(e.value)
    if isinstance(e.pattern, ex.Literal) and e.pattern.value is not None:
        match = code.constant(do.like_matcher(e.pattern.value, e.escape))
        return null_propagating(code, [value], f"{match}({{}})")
    return null_propagating(
        code, [value, code.piece(e.pattern)], f"{code.constant(do.like)}({{}}, {{}}, {_plain(e.escape)})"
    )


@expression_code.register
def _(e: ex.Case, code: CodeBuilder) -> ExpressionCode:
    conditions = [code.piece(condition) for condition, _ in e.branches]
    results = [code.piece(result) for _, result in e.branches]
    last = code.piece(e.otherwise) if e.otherwise else ExpressionCode("None")
    text = "".join(f"{r.text} if {_true(code, c)} else " for c, r in zip(conditions, results, strict=True))
    raises = _may_fail(code, conditions) or any(piece.raises for piece in [*results, last])
    return ExpressionCode(f"({text}{last.text})", any(piece.nullable for piece in [*results, last]), raises)


# -- nested values --------------------------------------------------------------------------------------------------


@expression_code.register
def _(e: ex.Cast, code: CodeBuilder) -> ExpressionCode:
    value = code.piece(e.value)
    cast = caster(e.value.type, e.type)
    if cast is None:
        raise NotImplementedError(f"{e.value.type} has no cast to {e.type}")
    if cast is identity:
        return value
    return null_propagating(code, [value], _repeated(code, e, f"{code.constant(cast)}({{}})", "CAST"), raises=True)


@expression_code.register
def _(e: ex.Subscript, code: CodeBuilder) -> ExpressionCode:
    sides = [code.piece(e.value), code.piece(e.index)]
    template = "{}.get({})" if ty.is_map(e.value.type) else f"{code.constant(do.array_item)}({{}}, {{}})"
    return null_propagating(code, sides, template, nullable=True)


@expression_code.register
def _(e: ex.FieldOf, code: CodeBuilder) -> ExpressionCode:
    return null_propagating(code, [code.piece(e.value)], f"{{}}.get({_plain(e.name)})", nullable=True)


@expression_code.register
def _(e: ex.MakeArray, code: CodeBuilder) -> ExpressionCode:
    text = f"[{', '.join(code.guarded(item).text for item in e.items)}]"
    return _built(code, e, text, "ARRAY")


@expression_code.register
def _(e: ex.MakeMap, code: CodeBuilder) -> ExpressionCode:
    pairs = (f"{code.guarded(key).text}: {code.guarded(value).text}" for key, value in e.pairs)
    return _built(code, e, f"{{{', '.join(pairs)}}}", "MAP")


@expression_code.register
def _(e: ex.MakeStruct, code: CodeBuilder) -> ExpressionCode:
    fields = (f"{name!r}: {code.guarded(value).text}" for name, value in e.fields)
    return _built(code, e, f"{{{', '.join(fields)}}}", "STRUCT")


def _built(code: CodeBuilder, e: Expression, text: str, name: str) -> ExpressionCode:
    return ExpressionCode(_repeated(code, e, text, name), nullable=False, raises=bool(code.variables))


def _repeated(code: CodeBuilder, e: Expression, text: str, name: str) -> str:
    """Charges what is created anew for each item, inside a lambda; elsewhere the statement itself bounds it."""
    return code.charged(text, name) if code.variables and not ty.is_fixed_size(e.type) else text


# -- functions ------------------------------------------------------------------------------------------------------


@expression_code.register
def _(e: ex.Lambda, code: CodeBuilder) -> ExpressionCode:
    around = code.variables
    code.variables = around | {parameter: code.name() for parameter in e.parameters}
    try:
        body = code.piece(e.body)
        names = ", ".join(code.variables[parameter] for parameter in e.parameters)
    finally:
        code.variables = around
    return ExpressionCode(f"(lambda {names}: {body.text})", nullable=False)


@expression_code.register
def _(e: ex.Call, code: CodeBuilder) -> ExpressionCode:
    overload = e.overload
    function = overload.python([a.type for a in e.arguments]) if overload.typed else overload.python
    call = f"{code.constant(function)}({', '.join(['{}'] * len(e.arguments))})"
    if e.can_grow or (code.variables and not ty.is_fixed_size(e.type)):
        call = code.charged(call, e.name)
    if overload.nulls is NullRule.PROPAGATE:
        arguments = [code.piece(argument) for argument in e.arguments]
        return null_propagating(code, arguments, call, raises=True, nullable=True)
    # A function that handles nulls (COALESCE) must also handle arguments that fail.
    return ExpressionCode(call.format(*(code.guarded(argument).text for argument in e.arguments)), raises=True)
