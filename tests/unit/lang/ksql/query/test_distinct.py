"""SELECT DISTINCT: its place in the plan, refused forms, and results."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import orjson
import pytest

from headrace.errors import StatementError
from headrace.lang.ksql.grammar.parser import parse_one
from headrace.lang.ksql.scripts.checker import check_script
from headrace.plan.chain.pipeline import Pipeline
from headrace.plan.chain.records import RawRecord
from headrace.plan.explain import expression_text
from headrace.plan.nodes import Distinct, Filter, Rekey, Select, Source, walk
from headrace.plan.relations import WindowKind
from headrace.plan.steps import Context, Problem
from headrace.testing.world import World
from tests.ksql_strategies import SOURCES, planned

HOUR = "WINDOW TUMBLING (SIZE 1 HOUR)"


def distinct(select: str) -> Distinct:
    (found,) = (node for node in walk(planned(f"CREATE STREAM O AS {select};").sink) if isinstance(node, Distinct))
    return found


def compared(select: str) -> list[tuple[str, str]]:
    return [(named.name, expression_text(named.expression)) for named in distinct(select).on]


def test_distinct_compares_all_selected_columns() -> None:
    node = distinct("SELECT DISTINCT ID, A + 1 AS N, B FROM S WHERE C > 1e0")
    assert [named.name for named in node.on] == ["ID", "N", "B"]
    assert isinstance(node.input, Select)
    assert isinstance(node.input.input, Filter)
    assert node.relation == node.input.relation
    assert node.window is None


def test_distinct_on_compares_its_expressions_before_the_projection() -> None:
    node = distinct("SELECT DISTINCT ON (B, A / 2) ID, C FROM S")
    assert [(named.name, expression_text(named.expression)) for named in node.on] == [
        ("B", "B"),
        ("(A / 2)", "(A / 2)"),
    ]
    assert isinstance(node.input, Source)


def test_distinct_takes_a_window() -> None:
    node = distinct("SELECT DISTINCT * FROM S WINDOW TUMBLING (SIZE 1 HOUR, GRACE PERIOD 5 MINUTES)")
    assert node.window is not None
    assert (node.window.kind, node.window.size) == (WindowKind.TUMBLING, timedelta(hours=1))
    assert node.window.grace == timedelta(minutes=5)
    assert node.relation.window is None


def test_distinct_compares_a_new_key() -> None:
    assert compared("SELECT DISTINCT ON (A, B) A, B FROM S PARTITION BY A") == [("A", "$key0"), ("B", "B")]
    assert isinstance(distinct("SELECT DISTINCT ON (A, B) A, B FROM S PARTITION BY A").input, Rekey)
    assert compared("SELECT DISTINCT A, B FROM S PARTITION BY A") == [("A", "A"), ("B", "B")]


def test_distinct_is_planned_over_a_join_and_in_a_subquery() -> None:
    assert compared("SELECT DISTINCT S.ID, T.W FROM S JOIN T ON S.ID = T.ID") == [("S_ID", "S_ID"), ("W", "W")]
    assert compared("SELECT DISTINCT ON (T.W) S.ID, T.W FROM S JOIN T ON S.ID = T.ID") == [("T.W", "T.W")]
    # A key that a subquery does not select is not seen, and not compared.
    assert compared("SELECT ID, A FROM (SELECT DISTINCT ID, A FROM S)") == [("ID", "ID"), ("A", "A")]


def test_windows_of_a_source_are_part_of_its_key() -> None:
    world = World()
    world.execute(
        "CREATE STREAM w (id INT KEY, a INT)"
        " WITH (kafka_topic='w', format='JSON', partitions=1, window_type='tumbling', window_size='10 seconds');"
        "CREATE STREAM o AS SELECT DISTINCT * FROM w;"
    )
    (running,) = world.running.values()
    (node,) = (node for node in walk(running.query.sink) if isinstance(node, Distinct))
    assert [named.name for named in node.on] == ["ID", "A", "WINDOWSTART", "WINDOWEND"]


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("CREATE TABLE O AS SELECT DISTINCT ID, V FROM T;", "bad-query"),
        ("CREATE TABLE O AS SELECT DISTINCT T.ID, U.V FROM T JOIN U ON T.ID = U.ID;", "bad-query"),
        ("CREATE TABLE O AS SELECT DISTINCT A, COUNT(*) AS N FROM S GROUP BY A;", "bad-grouping"),
        ("CREATE TABLE O AS SELECT DISTINCT COUNT(*) AS N FROM S;", "bad-grouping"),
        ("CREATE STREAM O AS SELECT DISTINCT ON (COUNT(*)) * FROM S;", "bad-grouping"),
        ("CREATE STREAM O AS SELECT DISTINCT ON (EXPLODE(L)) * FROM S;", "bad-grouping"),
        ("CREATE STREAM O AS SELECT DISTINCT * FROM S HAVING A > 1;", "bad-grouping"),
        ("CREATE STREAM O AS SELECT DISTINCT * FROM S WINDOW SESSION (1 HOUR);", "bad-window"),
        ("CREATE STREAM O AS SELECT DISTINCT * FROM S WINDOW SLIDING (SIZE 1 HOUR);", "bad-window"),
        ("CREATE STREAM O AS SELECT DISTINCT * FROM S WINDOW HOPPING (SIZE 1 HOUR, ADVANCE BY 1 HOUR);", "bad-window"),
        ("CREATE STREAM O AS SELECT DISTINCT * FROM S WINDOW TUMBLING (SIZE 0 SECONDS);", "bad-window"),
        ("CREATE STREAM O AS SELECT DISTINCT * FROM S WINDOW TUMBLING (SIZE 1 HOUR, PROCESSING TIME);", "bad-window"),
        ("CREATE STREAM O AS SELECT DISTINCT * FROM S WINDOW TUMBLING (SIZE 1 HOUR, RETENTION 1 DAY);", "bad-window"),
        (f"CREATE STREAM O AS SELECT DISTINCT * FROM S {HOUR} EMIT FINAL;", "bad-query"),
        (f"CREATE STREAM O AS SELECT DISTINCT * FROM S {HOUR} EMIT CHANGES EVERY 1 SECOND;", "bad-query"),
        (f"CREATE STREAM O AS SELECT * FROM S {HOUR};", "bad-window"),
        ("CREATE STREAM O AS SELECT DISTINCT ON (NOBODY) * FROM S;", "column-not-found"),
        (f"CREATE STREAM O AS SELECT DISTINCT ID, WINDOWSTART AS W, A FROM S {HOUR};", "column-not-found"),
        ("CREATE STREAM O AS SELECT DISTINCT ON () * FROM S;", "syntax-error"),
        ("CREATE STREAM O AS SELECT DISTINCT FROM S;", "syntax-error"),
    ],
)
def test_refusals_have_a_place_and_a_fix(statement: str, code: str) -> None:
    errors = check_script(SOURCES + statement).errors
    assert [error.code for error in errors] == [code]
    assert all(isinstance(error, StatementError) and error.span for error in errors)


def test_all_errors_are_reported_together() -> None:
    found = check_script(f"{SOURCES}CREATE STREAM O AS SELECT DISTINCT ON (NOBODY) NOTHING FROM S;").errors
    assert [error.code for error in found] == ["column-not-found", "column-not-found"]


def test_a_distinct_query_cannot_be_replaced() -> None:
    first = "CREATE STREAM O AS SELECT DISTINCT ID, A FROM S;"
    for other in ("SELECT DISTINCT ID, A, B FROM S", "SELECT ID, A FROM S"):
        found = check_script(f"{SOURCES}{first} CREATE OR REPLACE STREAM O AS {other};").errors
        assert [error.code for error in found] == ["bad-replacement"]


def test_distinct_is_still_a_comparison() -> None:
    parse_one("SELECT DISTINCT a IS DISTINCT FROM b, `DISTINCT` FROM s;")


# -- what comes out -------------------------------------------------------------------------------------------------


def ran(select: str, *records: tuple[Any, Any, int]) -> tuple[list[Any], list[Problem]]:
    problems: list[Problem] = []
    pipe = Pipeline(planned(f"CREATE STREAM O AS {select};"), Context(report=problems.append))
    raw = [RawRecord(orjson.dumps(key), value and orjson.dumps(value), time) for key, value, time in records]
    found = pipe.feed("s", raw)
    return [(orjson.loads(r.key or b"null"), orjson.loads(r.value or b"null"), r.time) for r in found], problems


def test_rows_pass_unchanged_with_their_key() -> None:
    found, problems = ran(
        "SELECT DISTINCT ON (A) ID, B FROM S",
        (1, {"A": 1, "B": "x"}, 10),
        (2, {"A": 1, "B": "y"}, 11),
        (3, {"A": None, "B": "z"}, 12),
        (4, {"B": "u"}, 13),
        (5, None, 14),
    )
    assert found == [(1, {"B": "x"}, 10), (3, {"B": "z"}, 12)]
    assert [(problem.code, problem.where, problem.time) for problem in problems] == [("null-value", "DISTINCT A", 14)]


def test_a_late_row_is_reported() -> None:
    found, problems = ran(
        "SELECT DISTINCT ON (ID) ID, A FROM S WINDOW TUMBLING (SIZE 10 MILLISECONDS, GRACE PERIOD 5 MILLISECONDS)",
        *((1, {"A": a}, time) for a, time in enumerate((3, 7, 14, 4, 15, 9))),
    )
    assert found == [(1, {"A": 0}, 3), (1, {"A": 2}, 14)]
    assert [(problem.code, problem.time) for problem in problems] == [("late-record", 9)]


def test_an_expression_that_fails_is_null_and_reported() -> None:
    found, problems = ran(
        "SELECT DISTINCT ON (1 / A) ID, A FROM S", (1, {"A": 0}, 1), (2, {"A": 0}, 2), (3, {"A": 1}, 3)
    )
    assert [key for key, _, _ in found] == [1, 3]
    assert {problem.code for problem in problems} == {"expression-failed"}
