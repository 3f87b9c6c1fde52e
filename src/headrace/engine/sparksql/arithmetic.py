"""Arithmetic in Spark SQL with the chain's semantics.

Integers wrap around as in Java, where Spark would raise an error, and division by zero gives null. These functions
build SQL from SQL; an expression without an exact form raises `NotExpressible`.
"""

from __future__ import annotations

import pyarrow as pa

from headrace.engine.sparksql.column_types import MAX_DECIMAL_DIGITS, sql_type
from headrace.plan import types as ty
from headrace.plan.expressions import Arithmetic, Op


class NotExpressible(Exception):
    """Spark has no exact form of the expression; the message says why."""


def wrap_overflow(text: str, kind: pa.DataType) -> str:
    """Wraps an integer of any size as Java's type of that size does; `text` is a decimal or a bigint."""
    bits = 32 if kind == ty.INT else 64
    half, whole = 1 << bits - 1, 1 << bits
    wide = f"cast({text} as decimal(38,0))"
    rest = f"pmod({wide} + {half}BD, {whole}BD) - {half}BD"
    return f"cast({rest} as {sql_type(kind)})"


_TRY = {Op.ADD: "try_add", Op.SUBTRACT: "try_subtract", Op.MULTIPLY: "try_multiply"}
_DECIMAL_DIGITS = {
    Op.ADD: lambda l, r: max(l.precision - l.scale, r.precision - r.scale) + max(l.scale, r.scale) + 1,  # noqa: E741
    Op.MULTIPLY: lambda l, r: l.precision + r.precision + 1,  # noqa: E741
}
_DECIMAL_DIGITS[Op.SUBTRACT] = _DECIMAL_DIGITS[Op.ADD]


def arithmetic(e: Arithmetic, left: str, right: str) -> str:
    """The SQL of an operator from that of its operands."""
    if ty.is_decimal(e.type):
        return _decimal(e, left, right)
    if e.type in (ty.INT, ty.BIGINT) and e.left.type == e.right.type == e.type:
        return _added(e, left, right) if e.op in _TRY else _divided(e, left, right)
    if e.type == ty.DOUBLE and e.left.type == e.right.type == ty.DOUBLE and e.op in _TRY:
        return f"({left} {e.op} {right})"
    raise NotExpressible(f"{e.left.type} {e.op} {e.right.type}")


def negate(text: str, kind: pa.DataType) -> str:
    return wrap_overflow(f"-cast({text} as decimal(19,0))", kind)


def _added(e: Arithmetic, left: str, right: str) -> str:
    exact = f"cast({left} as decimal(19,0)) {e.op} cast({right} as decimal(19,0))"
    return f"coalesce({_TRY[e.op]}({left}, {right}), {wrap_overflow(exact, e.type)})"


def _divided(e: Arithmetic, left: str, right: str) -> str:
    """Only the least number divided by -1 overflows."""
    if e.op is Op.REMAINDER:
        return f"if({right} = 0, null, {left} % {right})"
    quotient = f"cast({left} div {right} as {sql_type(e.type)})"
    return f"case when {right} = 0 then null when {right} = -1 then {negate(left, e.type)} else {quotient} end"


def _decimal(e: Arithmetic, left: str, right: str) -> str:
    kinds = [e.left.type, e.right.type]
    if e.op not in _DECIMAL_DIGITS or not all(map(ty.is_decimal, kinds)):
        raise NotExpressible("division of decimals rounds otherwise in Spark")
    scale = sum(k.scale for k in kinds) if e.op is Op.MULTIPLY else max(k.scale for k in kinds)
    digits = _DECIMAL_DIGITS[e.op](*kinds)
    if digits > MAX_DECIMAL_DIGITS or (e.type.precision, e.type.scale) != (digits, scale):
        raise NotExpressible("Spark's decimal would have other digits")
    return f"({left} {e.op} {right})"


# -- casts ----------------------------------------------------------------------------------------------------------

_EXACT_CASTS = {
    (ty.INT, ty.BIGINT),
    (ty.INT, ty.DOUBLE),
    (ty.BIGINT, ty.DOUBLE),
    (ty.BOOLEAN, ty.STRING),
    (ty.INT, ty.STRING),
    (ty.BIGINT, ty.STRING),
}


def cast(text: str, source: pa.DataType, target: pa.DataType) -> str:
    """Converts a value from one type to the other."""
    if source == target:
        return text
    if (source, target) in _EXACT_CASTS or _widens(source, target):
        return f"cast({text} as {sql_type(target)})"
    if (source, target) == (ty.BIGINT, ty.INT):
        return wrap_overflow(text, ty.INT)
    if (source, target) == (ty.DATE, ty.TIMESTAMP):
        return milliseconds(text, ty.DATE)
    raise NotExpressible(f"CAST from {source} to {target}")


def _widens(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether every integer or decimal of the source type fits the target, a decimal."""
    if not ty.is_decimal(target) or not (source in (ty.INT, ty.BIGINT) or ty.is_decimal(source)):
        return False
    decimal = ty.as_decimal(source)
    return target.scale >= decimal.scale and target.precision - target.scale >= decimal.precision - decimal.scale


def milliseconds(text: str, kind: pa.DataType) -> str:
    """A DATE or a TIMESTAMP in milliseconds."""
    return f"(cast({text} as bigint) * 86400000)" if kind == ty.DATE else text
