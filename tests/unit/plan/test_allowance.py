"""What functions may create for one record; one that needs more is reported, the next one is not affected."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from headrace.plan import types as ty
from headrace.plan.allowance import MAX_RECORD_BYTES
from headrace.plan.codegen.compiler import evaluator, projector
from headrace.plan.expressions import Expression
from headrace.plan.functions.scalars.substrings import lpad
from headrace.plan.limits import MAX_TEXT_LENGTH
from headrace.plan.steps import Context, Problem
from tests.unit.plan.chain.expression_builders import call, col, lit, relation, row


def padded(length: int) -> Expression:
    return replace(call(lpad, ty.STRING, col("S"), lit(length), lit("x")), name="LPAD")


def evaluated(expressions: list[Expression]) -> tuple[tuple[Any, ...], list[Problem]]:
    problems: list[Problem] = []
    compute = evaluator(expressions, relation(), Context(report=problems.append), "test")
    return compute(1000, ("k",), row(S="a")), problems


def test_a_record_takes_as_much_as_a_few_of_the_largest_texts() -> None:
    values, problems = evaluated([padded(MAX_TEXT_LENGTH)] * 4)
    assert [len(value) for value in values] == [MAX_TEXT_LENGTH] * 4
    assert not problems


def test_what_exceeds_the_allowance_of_a_record_is_reported_and_null() -> None:
    values, problems = evaluated([padded(MAX_TEXT_LENGTH)] * 10)
    assert values[-1] is None
    assert sum(len(value) for value in values if value is not None) <= MAX_RECORD_BYTES
    assert {problem.code for problem in problems} == {"expression-failed"}
    assert all("result-too-long" in problem.reason and "LPAD" in problem.reason for problem in problems)


def test_each_record_has_an_allowance_of_its_own() -> None:
    problems: list[Problem] = []
    project = projector([padded(MAX_TEXT_LENGTH)] * 4, relation(), Context(report=problems.append), "test")
    values = project([(1000, ("k",), row(S="a"))] * 3)
    assert all(value is not None and len(value[3]) == MAX_TEXT_LENGTH for value in values)
    assert not problems


def test_a_single_result_keeps_its_limit() -> None:
    (value,), (problem,) = evaluated([padded(MAX_TEXT_LENGTH + 1)])
    assert value is None
    assert "result-too-long" in problem.reason
