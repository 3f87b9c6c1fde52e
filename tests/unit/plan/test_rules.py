"""Rules make plans cheaper and change nothing of what they say."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.plan.chain.pipeline import Pipeline
from headrace.plan.chain.records import RawRecord
from headrace.plan.explain import expression_text, tree
from headrace.plan.expressions import Literal
from headrace.plan.nodes import Filter, Node, Query, Rekey, Select, walk
from headrace.plan.rules import (
    RULES,
    Rule,
    drop_identity_selects,
    fold_constants,
    merge_selects,
    optimize,
    prune_columns,
    push_filters,
)
from headrace.plan.steps import Context, Problem
from tests.ksql_strategies import STATEMENTS, Example, conditions, examples, numbers, planned

# -- each rule does what it says ------------------------------------------------------------------------------------


def after(statement: str, *rules: Rule) -> Query:
    return optimize(planned(statement), rules)


def nodes(query: Query) -> list[str]:
    return [type(node).__name__ for node in walk(query.sink)]


def first(query: Query, kind: type[Any]) -> Any:
    return next(node for node in walk(query.sink) if isinstance(node, kind))


def names(node: Node) -> list[list[str]]:
    """The values' names of each Select, topmost first."""
    return [[named.name for named in below.values] for below in walk(node) if isinstance(below, Select)]


def test_constants_are_computed_once() -> None:
    query = after("CREATE STREAM O AS SELECT ID, A + (1 + 2) * 3 AS X FROM S WHERE B = UCASE('a');", fold_constants)
    assert expression_text(first(query, Select).values[0].expression) == "(A + 9)"
    assert expression_text(first(query, Filter).condition) == "(B = 'A')"


@pytest.mark.parametrize("constant", ["1 / 0", "RANDOM()", "CAST('x' AS INT)"])
def test_failing_and_non_deterministic_expressions_are_not_folded(constant: str) -> None:
    query = after(f"CREATE STREAM O AS SELECT ID, {constant} AS X FROM S;", fold_constants)
    assert not isinstance(first(query, Select).values[0].expression, Literal)


def test_constants_inside_a_lambda_are_not_folded() -> None:
    query = after("CREATE STREAM O AS SELECT ID, TRANSFORM(L, x => x + (1 + 2)) AS X FROM S;", fold_constants)
    assert expression_text(first(query, Select).values[0].expression) == "TRANSFORM(L, (X) => (X + (1 + 2)))"


NESTED = "CREATE STREAM O AS SELECT ID, {} AS P FROM (SELECT ID, {} AS Q, A, B FROM S) X {};"


def test_two_selects_are_merged() -> None:
    query = after(NESTED.format("Q + A", "A * 2", ""), merge_selects)
    assert nodes(query) == ["Sink", "Select", "Source"]
    assert expression_text(first(query, Select).values[0].expression) == "((A * 2) + A)"


@pytest.mark.parametrize(
    ("outer", "inner"),
    [("Q + Q", "A * 2"), ("Q", "A / ID"), ("A", "A / ID"), ("TRANSFORM(ARRAY[1], x => x + Q)", "A * 2")],
    ids=["twice", "may fail", "may fail unseen", "inside a lambda"],
)
def test_two_selects_are_not_merged_if_results_would_differ(outer: str, inner: str) -> None:
    assert nodes(after(NESTED.format(outer, inner, ""), merge_selects)).count("Select") == 2


def test_a_column_may_be_used_twice_and_inside_a_lambda() -> None:
    assert (
        nodes(after(NESTED.format("TRANSFORM(ARRAY[Q], x => x + Q)[1]", "A", ""), merge_selects)).count("Select") == 1
    )


def test_a_select_without_effect_is_dropped() -> None:
    assert nodes(after("CREATE STREAM O AS SELECT * FROM S;", drop_identity_selects)) == ["Sink", "Source"]
    assert nodes(after("CREATE STREAM O AS SELECT ID, B, A, C, L FROM S;", drop_identity_selects))[1] == "Select"
    assert nodes(after("CREATE STREAM O AS SELECT ID, A AS AA, B, C, L FROM S;", drop_identity_selects))[1] == "Select"


def test_a_filter_is_pushed_below_a_select() -> None:
    query = after(NESTED.format("Q", "A * 2", "WHERE Q > 3"), push_filters)
    assert nodes(query) == ["Sink", "Select", "Select", "Filter", "Source"]
    assert expression_text(first(query, Filter).condition) == "((A * 2) > 3)"


@pytest.mark.parametrize("inner", ["A / ID", "CAST(RANDOM() * 10 AS INT)"])
def test_a_filter_is_not_pushed_below_failing_or_non_deterministic_columns(inner: str) -> None:
    query = after(NESTED.format("Q", inner, "WHERE Q > 3"), push_filters)
    assert nodes(query) == ["Sink", "Select", "Filter", "Select", "Source"]


MOVED = "CREATE STREAM O AS SELECT Q, P FROM (SELECT {0} AS Q, A AS P, ID FROM S PARTITION BY {0}) X WHERE {1};"


def test_a_filter_is_pushed_below_a_rekey() -> None:
    query = after(MOVED.format("(A + 1)", "Q > 3 AND P < 2"), push_filters)
    assert nodes(query)[-3:] == ["Rekey", "Filter", "Source"]
    assert isinstance(first(query, Rekey).input, Filter)


def test_a_filter_is_not_pushed_below_a_key_that_may_fail() -> None:
    assert nodes(after(MOVED.format("(A / ID)", "P < 2"), push_filters))[-2:] == ["Rekey", "Source"]


def test_joins_carry_only_the_columns_that_are_read() -> None:
    query = after("CREATE STREAM O AS SELECT S.ID, S.B FROM S JOIN T ON S.ID = T.ID WHERE T.V > 1;", prune_columns)
    assert names(query.sink.input)[1:] == [["S.B"], ["T.V"]]


def test_a_column_that_may_fail_is_not_pruned() -> None:
    query = after(NESTED.format("A", "A / ID", ""), prune_columns)
    assert names(query.sink.input) == [["P"], ["Q", "A"]]


def test_explain_shows_the_optimized_plan() -> None:
    shown = tree(planned("CREATE STREAM O AS SELECT * FROM S WHERE A > 1 + 1;"))
    assert "condition: (A > 2)" in shown
    assert "select" not in shown


def test_rules_reach_a_fixed_point() -> None:
    query = optimize(planned(NESTED.format("Q + A", "A * 2", "WHERE Q > 1 + 1")))
    assert optimize(query) == query
    assert nodes(query) == ["Sink", "Select", "Filter", "Source"]


# -- and nothing else -----------------------------------------------------------------------------------------------

_INNER, _OUTER = ("A", "ID"), ("Q", "A")
_TIMED = st.sampled_from(
    [
        "CREATE TABLE O AS SELECT B, COUNT(*) AS N FROM S WINDOW SLIDING (SIZE 9 MILLISECONDS) GROUP BY B;",
        "CREATE TABLE O AS SELECT B, SUM(A) AS N FROM S WINDOW HOPPING (SIZE 3 MILLISECONDS, ADVANCE BY 8 MILLISECONDS)"
        " GROUP BY B EMIT CHANGES EVERY 5 MILLISECONDS;",
        "CREATE TABLE O AS SELECT B, SUM(A) AS N FROM (SELECT ID, A, B, C FROM S) X "
        "WINDOW TUMBLING (SIZE 9 MILLISECONDS) GROUP BY B "
        "EMIT EARLY AFTER 2 MILLISECONDS AND ON TIME AND LATE DISCARDING;",
        "CREATE TABLE O AS SELECT ID, V FROM T WHERE W = 'x' EMIT CHANGES AFTER 5 MILLISECONDS RETRACTING;",
        "CREATE STREAM O AS SELECT S.ID, S.B, T.W FROM S LEFT JOIN T FOR SYSTEM_TIME AS OF S.ROWTIME HISTORY 9 "
        "MILLISECONDS ON S.ID = T.ID WHERE T.V > 0 OR S.A > 0;",
    ]
)
statements = st.one_of(
    st.builds(
        "CREATE STREAM O AS SELECT ID, {} AS P, Q AS R FROM (SELECT ID, {} AS Q, A, B FROM S) X WHERE {};".format,
        numbers(_OUTER),
        numbers(_INNER),
        conditions(_OUTER),
    ),
    st.builds(
        "CREATE STREAM O AS SELECT Q, {1} AS P FROM (SELECT {0} AS Q, A, B, ID FROM S PARTITION BY {0}) X "
        "WHERE {2};".format,
        numbers(_INNER).map("({} + 0)".format),
        numbers(_OUTER).map("({} + 0)".format),
        conditions(_OUTER),
    ),
    st.builds(
        "CREATE TABLE O AS SELECT ID, {} AS P, W FROM (SELECT ID, {} AS Q, V AS A, W FROM T) X WHERE {};".format,
        numbers(_OUTER),
        numbers(("V", "ID")),
        conditions(_OUTER),
    ),
    _TIMED,
)


cases = examples(st.one_of(STATEMENTS, statements))


def result(query: Query, example: Example, rules: Sequence[Rule]) -> tuple[list[RawRecord], list[Any]]:
    problems: list[Problem] = []
    stores: dict[str, Any] = defaultdict(dict)
    pipe = Pipeline(query, Context(stores.__getitem__, problems.append), rules=rules)
    out = pipe.run(example.records) + pipe.tick(1 << 40)
    return out, [(p.code, p.where, p.time, p.key) for p in problems]


@pytest.mark.parametrize("rules", [*((rule,) for rule in RULES), RULES], ids=[*(r.__name__ for r in RULES), "all"])
@settings(suppress_health_check=[HealthCheck.too_slow])
@given(cases)
def test_rules_do_not_change_results(rules: tuple[Rule, ...], example: Example) -> None:
    query = example.query
    assert result(query, example, rules) == result(query, example, ()), example.text
