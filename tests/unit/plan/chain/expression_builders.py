"""Short ways to write expressions and relations in tests."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa

from headrace.plan import expressions as ex
from headrace.plan import types as ty
from headrace.plan.expressions import Compare, Expression, Op
from headrace.plan.functions.declaration import NullRule, Overload
from headrace.plan.nodes import Sink, Source
from headrace.plan.relations import Format, Kind, Relation
from headrace.schema import Field

AMOUNT = ty.decimal(10, 2)
POINT = ty.struct([("X", ty.INT), ("Y", ty.INT)])
VALUES: dict[str, pa.DataType] = {
    "A": ty.INT,
    "C": ty.INT,
    "L": ty.BIGINT,
    "D": ty.DOUBLE,
    "N": AMOUNT,
    "S": ty.STRING,
    "T": ty.STRING,
    "B": ty.BOOLEAN,
    "BY": ty.BYTES,
    "AT": ty.TIMESTAMP,
    "DAY": ty.DATE,
    "XS": ty.array(ty.INT),
    "M": ty.map_of(ty.STRING, ty.INT),
    "P": POINT,
}


def relation(kind: Kind = Kind.STREAM, key: dict[str, pa.DataType] | None = None, **values: pa.DataType) -> Relation:
    """A relation with key `K`, a text, and the values of VALUES unless others are given."""
    return Relation(kind, _fields(key if key is not None else {"K": ty.STRING}), _fields(values or VALUES))


def _fields(columns: dict[str, pa.DataType]) -> tuple[Field, ...]:
    return tuple(Field(name, kind) for name, kind in columns.items())


def row(**values: Any) -> tuple[Any, ...]:
    """A row of VALUES; what is not given is null."""
    return tuple(values.get(name) for name in VALUES)


def col(name: str) -> ex.Column:
    return ex.Column({**VALUES, "K": ty.STRING, **dict.fromkeys(ex.PSEUDO, ty.BIGINT)}[name], name)


_TYPES = {bool: ty.BOOLEAN, int: ty.INT, float: ty.DOUBLE, str: ty.STRING, bytes: ty.BYTES, type(None): ty.NULL}


def lit(value: Any, kind: pa.DataType | None = None) -> ex.Literal:
    if isinstance(value, Decimal) and kind is None:
        _, digits, exponent = value.as_tuple()
        assert isinstance(exponent, int)
        kind = ty.decimal(max(len(digits), -exponent), -exponent)
    return ex.Literal(kind or _TYPES[type(value)], value)


def math(op: str, left: Expression, right: Expression, kind: pa.DataType | None = None) -> ex.Arithmetic:
    return ex.Arithmetic(kind or left.type, Op(op), left, right)


def compare(left: Expression, op: str, right: Expression) -> ex.Comparison:
    return ex.Comparison(ty.BOOLEAN, Compare(op), left, right)


def both(left: Expression, right: Expression) -> ex.And:
    return ex.And(ty.BOOLEAN, left, right)


def either(left: Expression, right: Expression) -> ex.Or:
    return ex.Or(ty.BOOLEAN, left, right)


def no(value: Expression) -> ex.Not:
    return ex.Not(ty.BOOLEAN, value)


def call(
    python: Any, kind: pa.DataType, *arguments: Expression, nulls: NullRule = NullRule.PROPAGATE, typed: bool = False
) -> ex.Call:
    return ex.Call(kind, "F", Overload("", python, nulls, typed=typed), arguments)


def fail(kind: pa.DataType = ty.INT) -> Expression:
    """Division by zero."""
    return math("/", lit(1), lit(0), kind)


def source(over: Relation, topic: str = "in") -> Source:
    return Source(topic.upper(), topic, over, Format("KAFKA"), Format("JSON"))


def sink(node: Any, topic: str = "out") -> Sink:
    return Sink(node, node.relation, topic.upper(), topic, Format("KAFKA"), Format("JSON"))
