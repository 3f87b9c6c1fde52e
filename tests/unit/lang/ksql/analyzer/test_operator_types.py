"""Operators and the types of their operands."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.lang.ksql.analyzer.operator_types import compared
from headrace.plan import expressions as e
from headrace.plan import types as t
from headrace.plan.codegen.compiler import evaluator
from headrace.plan.relations import Kind, Relation
from headrace.plan.steps import Context
from headrace.schema import Field
from tests.ksql_parsing import parse

OVER = Relation(Kind.STREAM, (), (Field("X", t.DOUBLE),))
X = e.Column(t.DOUBLE, "X")
(STATEMENT, _), *_ = parse("SELECT * FROM s;").statements


def less(number: Decimal) -> e.Expression:
    digits = number.as_tuple()
    scale = -int(digits.exponent)
    literal = e.Literal(t.decimal(max(len(digits.digits), scale), scale), number)
    return compared("<", STATEMENT, STATEMENT, X, STATEMENT, literal)  # type: ignore[arg-type]


def is_less(value: float, number: Decimal) -> bool:
    return evaluator([less(number)], OVER, Context(), "")(0, None, (value,))[0]


@given(st.floats(-1e9, 1e9), st.decimals(-(10**9), 10**9, places=4))
@example(0.9, Decimal("0.9"))
@example(0.1 + 0.2, Decimal("0.3"))
def test_a_double_is_compared_by_its_shortest_decimal_text(value: float, number: Decimal) -> None:
    assert is_less(value, number) == (Decimal(repr(value)) < number)


@pytest.mark.parametrize(
    ("text", "kind"), [("0.9", "double"), ("0.90", "double"), ("0.3000000000000000444", "decimal")]
)
def test_only_a_decimal_that_a_double_represents_becomes_one(text: str, kind: str) -> None:
    comparison = less(Decimal(text))
    assert isinstance(comparison, e.Comparison)
    assert str(comparison.right.type).startswith(kind)
