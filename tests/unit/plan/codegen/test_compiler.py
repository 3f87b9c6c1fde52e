"""Expressions at work: the values they give, what null does, what happens when they fail."""

from __future__ import annotations

import math as m
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.plan import expressions as ex
from headrace.plan import types as ty
from headrace.plan.codegen.compiler import evaluator, predicate, projector
from headrace.plan.expressions import Expression
from headrace.plan.functions.declaration import NullRule
from headrace.plan.functions.scalars.regular_expressions import extract
from headrace.plan.relations import Kind, Relation, Window, WindowKind
from headrace.plan.steps import Context, Problem
from tests.unit.plan.chain.expression_builders import (
    AMOUNT,
    POINT,
    both,
    call,
    col,
    compare,
    either,
    fail,
    lit,
    math,
    no,
    relation,
    row,
)

BIG, SMALL = (1 << 31) - 1, -(1 << 31)
HUGE = (1 << 63) - 1
NULL = lit(None)


def evaluate(expression: Expression, **values: Any) -> tuple[Any, list[Problem]]:
    problems: list[Problem] = []
    made = evaluator([expression], relation(), Context(report=problems.append), "test")
    return made(1000, ("k",), row(**values))[0], problems


def like(value: Expression, pattern: Expression, escape: str | None = None) -> ex.Like:
    return ex.Like(ty.BOOLEAN, value, pattern, escape)


def is_in(value: Expression, *items: Expression) -> ex.In:
    return ex.In(ty.BOOLEAN, value, items)


def at(value: Expression, index: Expression) -> ex.Subscript:
    return ex.Subscript(ty.INT, value, index)


def case(*branches: tuple[Expression, Expression], otherwise: Expression | None = None) -> ex.Case:
    return ex.Case(ty.INT, branches, otherwise)


def d(text: str) -> Decimal:
    return Decimal(text)


A, C, L, D, N, S, T, B = (col(name) for name in ["A", "C", "L", "D", "N", "S", "T", "B"])
XS, M, P = col("XS"), col("M"), col("P")
WIDE = ty.decimal(30, 4)

CASES: list[tuple[str, Expression, dict[str, Any], Any]] = [
    ("column", A, {"A": 3}, 3),
    ("key column", col("K"), {}, "k"),
    ("row time", col("ROWTIME"), {}, 1000),
    ("int wraps", math("+", A, lit(1)), {"A": BIG}, SMALL),
    ("int wraps down", math("-", A, lit(1)), {"A": SMALL}, BIG),
    ("int times wraps", math("*", A, A), {"A": 65536}, 0),
    ("bigint wraps", math("+", L, lit(1, ty.BIGINT)), {"L": HUGE}, -HUGE - 1),
    ("null plus", math("+", A, lit(1)), {}, None),
    ("divide toward zero", math("/", A, lit(2)), {"A": -7}, -3),
    ("divide smallest by -1 wraps", math("/", A, lit(-1)), {"A": SMALL}, SMALL),
    ("remainder has the dividend's sign", math("%", A, lit(3)), {"A": -7}, -1),
    ("remainder by a negative", math("%", A, lit(-3)), {"A": 7}, 1),
    ("double by zero", math("/", D, lit(0.0)), {"D": 1.0}, m.inf),
    ("double by minus zero", math("/", D, lit(-0.0)), {"D": 1.0}, -m.inf),
    ("double remainder", math("%", D, lit(2.0)), {"D": -5.5}, -1.5),
    ("double sum is Java's", math("+", D, lit(0.2)), {"D": 0.1}, 0.30000000000000004),
    ("decimal sum", math("+", N, lit(d("0.005")), ty.decimal(12, 3)), {"N": d("1.10")}, d("1.105")),
    ("decimal product", math("*", N, N, ty.decimal(21, 4)), {"N": d("1.10")}, d("1.2100")),
    ("decimal quotient", math("/", N, lit(d("3.00")), WIDE), {"N": d("2.00")}, d("0.6667")),
    ("decimal remainder", math("%", N, lit(d("0.30")), AMOUNT), {"N": d("-1.00")}, d("-0.10")),
    ("text joins", math("+", S, lit("b")), {"S": "a"}, "ab"),
    ("negate wraps", ex.Negate(ty.INT, A), {"A": SMALL}, SMALL),
    ("negate decimal zero", ex.Negate(AMOUNT, N), {"N": d("0.00")}, d("0.00")),
    ("equal", compare(A, "=", lit(3)), {"A": 3}, True),
    ("null equals nothing", compare(A, "=", C), {}, False),
    ("null differs from nothing", compare(A, "<>", C), {"A": 1}, False),
    ("less than null", compare(A, "<", NULL), {"A": 1}, False),
    ("distinct from null", compare(A, "IS DISTINCT FROM", C), {"A": 1}, True),
    ("null not distinct from null", compare(A, "IS NOT DISTINCT FROM", C), {}, True),
    ("bigint with double", compare(L, "<", D), {"L": 1, "D": 1.5}, True),
    ("double with decimal", compare(D, "=", lit(d("1.1"))), {"D": 1.1}, True),
    ("decimal with double", compare(N, ">=", D), {"N": d("0.10"), "D": 0.1}, True),
    ("decimal with int", compare(N, "=", A), {"N": d("3.00"), "A": 3}, True),
    ("bytes", compare(col("BY"), ">", lit(b"a")), {"BY": b"b"}, True),
    ("date with timestamp", compare(col("DAY"), "<", col("AT")), {"DAY": 1, "AT": 86_400_001}, True),
    ("arrays", compare(XS, "=", lit([1, None], ty.array(ty.INT))), {"XS": [1, None]}, True),
    ("maps", compare(M, "<>", M), {"M": {"a": 1}}, False),
    ("structs", compare(P, "=", lit({"X": 1, "Y": 2}, POINT)), {"P": {"X": 1, "Y": 2}}, True),
    ("and", both(B, lit(True)), {"B": True}, True),
    ("and takes null as false", both(B, lit(True)), {}, False),
    ("or takes null as false", either(B, lit(True)), {}, True),
    ("and stops early", both(lit(False), compare(fail(), "=", lit(1))), {}, False),
    ("or stops early", either(lit(True), compare(fail(), "=", lit(1))), {}, True),
    ("not", no(B), {"B": False}, True),
    ("not null", no(B), {}, None),
    ("is null", ex.IsNull(ty.BOOLEAN, A), {}, True),
    ("a literal is not null", ex.IsNull(ty.BOOLEAN, lit(1)), {}, False),
    ("in", is_in(A, lit(1), lit(2)), {"A": 2}, True),
    ("not in", is_in(A, lit(1), NULL), {"A": 2}, False),
    ("null is in nothing", is_in(A, lit(1), NULL), {}, False),
    ("in columns", is_in(A, C, lit(1)), {"A": 4, "C": 4}, True),
    ("in other types", is_in(D, lit(1), lit(d("0.1"))), {"D": 0.1}, True),
    ("in arrays", is_in(XS, lit([1], ty.array(ty.INT))), {"XS": [1]}, True),
    ("like", like(S, lit("a%c_")), {"S": "abbc\n"}, True),
    ("like is about the whole", like(S, lit("b")), {"S": "abc"}, False),
    ("like with signs of patterns", like(S, lit("a.[b")), {"S": "a.[b"}, True),
    ("like escaped", like(S, T, "!"), {"S": "%", "T": "!%"}, True),
    ("like escaped, no match", like(S, T, "!"), {"S": "x", "T": "!%"}, False),
    ("like in parts", like(S, lit("%b%c_%d")), {"S": "abbcc\ndd"}, True),
    ("like in parts, each behind the other", like(S, lit("%bc%cb%")), {"S": "bcb"}, False),
    ("like in parts, the end for the last", like(S, lit("%b%b%b")), {"S": "bb"}, False),
    ("like without going back and forth", like(S, lit("%a%a%a%a%a%a%b")), {"S": "a" * 3000}, False),
    ("like null", like(S, lit("a")), {}, None),
    ("case", case((compare(A, "=", lit(1)), lit(10)), (B, lit(20))), {"B": True}, 20),
    ("case without a match", case((B, lit(1))), {}, None),
    ("case is lazy", case((lit(True), lit(1)), (compare(fail(), "=", lit(1)), fail()), otherwise=fail()), {}, 1),
    ("first item", at(XS, lit(1)), {"XS": [7, 8]}, 7),
    ("last item", at(XS, lit(-1)), {"XS": [7, 8]}, 8),
    ("no such item", at(XS, lit(3)), {"XS": [7, 8]}, None),
    ("item 0", at(XS, lit(0)), {"XS": [7, 8]}, None),
    ("too far from the end", at(XS, lit(-3)), {"XS": [7, 8]}, None),
    ("item of null", at(XS, lit(1)), {}, None),
    ("map value", at(M, S), {"M": {"a": 1}, "S": "a"}, 1),
    ("no such map value", at(M, S), {"M": {"a": 1}, "S": "b"}, None),
    ("field", ex.FieldOf(ty.INT, P, "Y"), {"P": {"X": 1, "Y": 2}}, 2),
    ("field of null", ex.FieldOf(ty.INT, P, "Y"), {}, None),
    ("field with odd name", ex.FieldOf(ty.INT, P, "{'}"), {"P": {"{'}": 2}}, 2),
    ("array", ex.MakeArray(ty.array(ty.INT), (A, NULL)), {"A": 1}, [1, None]),
    ("map", ex.MakeMap(ty.map_of(ty.STRING, ty.INT), ((S, A),)), {"S": "a", "A": 1}, {"a": 1}),
    ("struct", ex.MakeStruct(POINT, (("X", A), ("Y", NULL))), {"A": 1}, {"X": 1, "Y": None}),
    ("cast", ex.Cast(ty.STRING, D), {"D": 1e10}, "1.0E10"),
    ("cast of null", ex.Cast(ty.STRING, D), {}, None),
    ("call", call(str.upper, ty.STRING, S), {"S": "a"}, "A"),
    ("call with null", call(str.upper, ty.STRING, S), {}, None),
    ("call that sees nulls", call(lambda a: a is None, ty.BOOLEAN, S, nulls=NullRule.PASS), {}, True),
    ("typed call", call(lambda kinds: lambda v: str(kinds[0]), ty.STRING, A, typed=True), {"A": 1}, "int32"),
    ("text that looks like a template", call(len, ty.INT, lit("{}{0}")), {}, 5),
]


@pytest.mark.parametrize(("expression", "values", "expected"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_value(expression: Expression, values: dict[str, Any], expected: Any) -> None:
    result, problems = evaluate(expression, **values)
    assert result == expected
    assert type(result) is type(expected)
    assert str(result) == str(expected)
    assert not problems


def test_nan() -> None:
    assert m.isnan(evaluate(math("/", D, lit(0.0)), D=0.0)[0])
    assert m.isnan(evaluate(math("%", D, lit(0.0)), D=1.0)[0])


@pytest.mark.parametrize(
    "expression",
    [
        fail(),
        math("%", lit(1), lit(0)),
        math("/", lit(d("1.0")), lit(d("0.0")), AMOUNT),
        ex.Cast(ty.INT, lit("x")),
        call(int, ty.INT, lit("x")),
        compare(fail(), "=", lit(1)),
        compare(lit(m.nan), "=", lit(d("1.0"))),
    ],
    ids=["divide", "remainder", "decimal", "cast", "call", "inside", "not a number"],
)
def test_what_fails_is_reported_and_null(expression: Expression) -> None:
    result, problems = evaluate(expression)
    assert result is None
    assert [(p.code, p.where, p.time, p.key) for p in problems] == [("expression-failed", "test", 1000, ("k",))]


def test_what_fails_inside_an_array_or_before_a_default_is_null_there() -> None:
    array = ex.MakeArray(ty.array(ty.INT), (fail(), A))
    default = call(lambda a, b: b if a is None else a, ty.INT, fail(), A, nulls=NullRule.PASS)
    assert evaluate(array, A=1)[0] == [None, 1]
    result, problems = evaluate(default, A=1)
    assert result == 1
    assert len(problems) == 1


def test_others_are_not_touched_by_what_fails() -> None:
    made = evaluator([A, fail(), C], relation(), Context(), "test")
    assert made(0, None, row(A=1, C=2)) == (1, None, 2)


def test_a_failing_condition_does_not_hold() -> None:
    problems: list[Problem] = []
    holds = predicate(compare(fail(), "=", lit(1)), relation(), Context(report=problems.append), "test")
    assert holds(0, None, row()) is False
    assert len(problems) == 1


def test_a_null_condition_does_not_hold() -> None:
    assert predicate(B, relation(), Context(), "test")(0, None, row()) is False


def test_columns_of_nothing_are_null() -> None:
    made = evaluator([A, col("K"), col("ROWTIME")], relation(), Context(), "test")
    assert made(5, None, None) == (None, None, 5)


def test_window_bounds() -> None:
    over = Relation(Kind.TABLE, relation().key, relation().value, Window(WindowKind.SESSION))
    made = evaluator([col("K"), col("WINDOWSTART"), col("WINDOWEND")], over, Context(), "test")
    assert made(5, ("k", (10, 20)), row()) == ("k", 10, 20)
    assert made(5, None, row()) == (None, None, None)


def variable(name: str) -> ex.Variable:
    return ex.Variable(ty.INT, name)


def test_a_pattern_that_takes_too_long_is_reported_with_its_row() -> None:
    value, problems = evaluate(call(extract, ty.STRING, lit("(a|aa)+$"), S), S="a" * 60 + "!")
    assert value is None
    assert [(p.code, p.reason.split(":")[0]) for p in problems] == [("expression-failed", "pattern-too-slow")]


def test_lambdas_see_columns_and_the_variables_around_them() -> None:
    inner = ex.Lambda(ty.INT, ("Y",), math("+", math("+", variable("X"), variable("Y")), A))
    mapped = call(lambda xs, f: [f(x) for x in xs], ty.array(ty.INT), XS, inner)
    outer = ex.Lambda(ty.array(ty.INT), ("X",), mapped)
    expression = call(lambda xs, f: [f(x) for x in xs], ty.array(ty.array(ty.INT)), XS, outer)
    assert evaluate(expression, XS=[1, 2], A=10)[0] == [[12, 13], [13, 14]]


def test_arithmetic_with_a_null_inside_a_lambda_fails_the_call() -> None:
    added = ex.Lambda(ty.INT, ("X",), math("+", variable("X"), lit(5)))
    result, problems = evaluate(call(lambda xs, f: [f(x) for x in xs], ty.array(ty.INT), XS, added), XS=[5, None])
    assert result is None
    assert [problem.code for problem in problems] == ["expression-failed"]


@pytest.mark.parametrize(
    "body",
    [
        ex.Not(ty.BOOLEAN, ex.Variable(ty.BOOLEAN, "X")),
        ex.And(ty.BOOLEAN, ex.Variable(ty.BOOLEAN, "X"), lit(True)),
        ex.Or(ty.BOOLEAN, ex.Variable(ty.BOOLEAN, "X"), lit(True)),
        ex.Case(ty.BOOLEAN, ((ex.Variable(ty.BOOLEAN, "X"), lit(True)),), lit(False)),
    ],
    ids=["not", "and", "or", "case"],
)
def test_so_does_logic_with_a_null(body: Expression) -> None:
    called = call(lambda xs, f: [f(x) for x in xs], ty.array(ty.BOOLEAN), XS, ex.Lambda(ty.BOOLEAN, ("X",), body))
    assert evaluate(called, XS=[True])[0] == [not isinstance(body, ex.Not)]
    result, problems = evaluate(called, XS=[None])
    assert result is None
    assert [problem.code for problem in problems] == ["expression-failed"]


def test_a_lambdas_parameter_hides_that_of_the_lambda_around_it() -> None:
    inner = call(lambda x, f: f(x), ty.INT, lit(5), ex.Lambda(ty.INT, ("X",), variable("X")))
    body = math("+", inner, variable("X"))
    assert evaluate(call(lambda x, f: f(x), ty.INT, lit(1), ex.Lambda(ty.INT, ("X",), body)))[0] == 6


def test_expressions_may_be_long_and_deep() -> None:
    total: Expression = A
    any_of: Expression = compare(A, "=", lit(-1))
    for number in range(150):
        total = math("+", total, A)
        any_of = either(any_of, compare(A, "=", lit(number)))
    assert evaluate(total, A=2)[0] == 302
    assert evaluate(any_of, A=149)[0] is True


def test_depth_keeps_the_variables_of_lambdas() -> None:
    body: Expression = variable("X")
    for _ in range(60):
        body = math("+", body, A)
    assert evaluate(call(lambda x, f: f(x), ty.INT, lit(1), ex.Lambda(ty.INT, ("X",), body)), A=1)[0] == 61


# -- the batch form is the row form ---------------------------------------------------------------------------------

INTS = st.one_of(st.none(), st.sampled_from([0, 1, -1, 2, BIG, SMALL]), st.integers(SMALL, BIG))
NUMBERS = st.one_of(st.sampled_from([A, C]), st.builds(lit, st.integers(SMALL, BIG)), st.just(lit(None, ty.INT)))


def deeper(numbers: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    conditions = st.one_of(
        st.builds(compare, numbers, st.sampled_from(list(ex.Compare)), numbers),
        st.builds(lambda value: ex.IsNull(ty.BOOLEAN, value), numbers),
        st.builds(is_in, numbers, numbers, numbers),
    )
    return st.one_of(
        st.builds(math, st.sampled_from("+-*/%"), numbers, numbers),
        st.builds(lambda value: ex.Negate(ty.INT, value), numbers),
        st.builds(lambda c, a, b: case((c, a), otherwise=b), conditions, numbers, numbers),
        st.builds(lambda a, b: at(ex.MakeArray(ty.array(ty.INT), (a, b)), lit(1)), numbers, numbers),
        st.builds(lambda a: call(abs, ty.INT, a), numbers),
        st.builds(lambda c, e, a: case((both(c, no(e)), a)), conditions, conditions, numbers),
    )


EXPRESSIONS = st.recursive(NUMBERS, deeper, max_leaves=12)
ENTRIES = st.lists(
    st.tuples(
        st.integers(0, 9),
        st.none() | st.tuples(st.text(max_size=2)),
        st.none() | st.builds(lambda i, j: row(A=i, C=j), INTS, INTS),
    ),
    max_size=8,
)


@settings(max_examples=150, deadline=None)
@given(st.lists(EXPRESSIONS, max_size=3), ENTRIES)
def test_a_batch_gives_what_its_rows_give(expressions: list[Expression], entries: list[Any]) -> None:
    by_row, by_batch = [], []
    one = evaluator(expressions, relation(), Context(report=by_row.append), "test")
    whole = projector(expressions, relation(), Context(report=by_batch.append), "test")
    assert whole(entries) == [None if entry[2] is None else one(*entry) for entry in entries]
    assert by_batch == by_row


@settings(max_examples=150, deadline=None)
@given(EXPRESSIONS, INTS, INTS)
def test_whole_numbers_stay_in_their_range(expression: Expression, i: int | None, j: int | None) -> None:
    result, _ = evaluate(expression, A=i, C=j)
    in_calls = any(isinstance(e, ex.Call) for e in ex.walk(expression))
    assert result is None or SMALL <= result <= BIG + in_calls
