"""Joins, grouping and projection: which nodes and columns a SELECT becomes, and which ones are refused."""

from __future__ import annotations

import pytest

from headrace.lang.contract import CheckedScript
from headrace.lang.registry import dialect_of
from headrace.plan import nodes
from headrace.plan.actions import CreateSource

SOURCES = """
CREATE STREAM clicks (id INT KEY, page STRING, user_id BIGINT, price DOUBLE)
    WITH (KAFKA_TOPIC='clicks', VALUE_FORMAT='JSON');
CREATE STREAM orders (id INT KEY, user_id BIGINT, amount DOUBLE) WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='JSON');
CREATE TABLE users (id BIGINT PRIMARY KEY, city STRING) WITH (KAFKA_TOPIC='users', VALUE_FORMAT='JSON');
CREATE TABLE cities (id BIGINT PRIMARY KEY, country STRING) WITH (KAFKA_TOPIC='cities', VALUE_FORMAT='JSON');
"""
Columns = list[str]


def checked(statement: str) -> CheckedScript:
    return dialect_of("ksql").check(SOURCES + statement)


@pytest.mark.parametrize(
    ("query", "below_the_sink", "key", "value"),
    [
        ("STREAM x AS SELECT * FROM clicks", ["Select", "Source"], ["ID"], ["PAGE", "USER_ID", "PRICE"]),
        ("STREAM x AS SELECT id, UCASE(page) FROM clicks", ["Select", "Source"], ["ID"], ["KSQL_COL_0"]),
        (
            "STREAM x AS SELECT id, EXPLODE(ARRAY[1, 2]) AS n FROM clicks",
            ["Select", "Explode", "Source"],
            ["ID"],
            ["N"],
        ),
        (
            "STREAM x AS SELECT id, page FROM clicks WHERE price > 1",
            ["Select", "Filter", "Source"],
            ["ID"],
            ["PAGE"],
        ),
        (
            "STREAM x AS SELECT c.*, city FROM clicks c LEFT JOIN users u ON c.user_id = u.id",
            ["Select", "StreamTableJoin", "Rekey", "Select", "Source", "Select", "Source"],
            ["C_USER_ID"],
            ["C_ID", "C_PAGE", "C_PRICE", "CITY"],
        ),
        (
            "STREAM x AS SELECT c.id, amount FROM clicks c JOIN orders o WITHIN 1 HOUR ON c.id = o.id",
            ["Select", "StreamJoin", "Select", "Source", "Select", "Source"],
            ["C_ID"],
            ["AMOUNT"],
        ),
        (
            "TABLE x AS SELECT u.id, country FROM users u JOIN cities c ON u.id = c.id",
            ["Select", "TableJoin", "Select", "Source", "Select", "Source"],
            ["U_ID"],
            ["COUNTRY"],
        ),
        (
            "TABLE x AS SELECT page, COUNT(*) AS n FROM clicks GROUP BY page",
            ["Select", "Aggregate", "Source"],
            ["PAGE"],
            ["N"],
        ),
        (
            "TABLE x AS SELECT page, COUNT(*) AS n FROM clicks GROUP BY page HAVING COUNT(*) > 1",
            ["Select", "Filter", "Aggregate", "Source"],
            ["PAGE"],
            ["N"],
        ),
    ],
)
def test_a_query_is_planned(query: str, below_the_sink: list[str], key: Columns, value: Columns) -> None:
    found = checked(f"CREATE {query};")
    assert found.errors == []
    action = found.planned[-1].action
    assert isinstance(action, CreateSource)
    assert action.query is not None
    assert [type(node).__name__ for node in nodes.walk(action.query.sink)][1:] == below_the_sink
    assert [field.name for field in action.source.relation.key] == key
    assert [field.name for field in action.source.relation.value] == value


@pytest.mark.parametrize(
    ("query", "code", "fix"),
    [
        # joins
        ("STREAM x AS SELECT c.id FROM clicks c JOIN orders o ON c.id = o.id", "bad-join", "add WITHIN 1 HOUR"),
        ("STREAM x AS SELECT c.id FROM clicks c JOIN users u WITHIN 1 HOUR ON c.user_id = u.id", "bad-join", "WITHIN"),
        ("STREAM x AS SELECT c.id FROM clicks c JOIN users u ON c.user_id > u.id", "bad-join", "left.column = right"),
        ("STREAM x AS SELECT c.id FROM clicks c JOIN users u ON c.page = u.id", "bad-join", "CAST one side"),
        ("STREAM x AS SELECT u.id FROM users u JOIN clicks c ON u.id = c.user_id", "bad-join", "stream on the left"),
        ("STREAM x AS SELECT id FROM clicks c JOIN users u ON c.user_id = u.id", "ambiguous-column", "write C.ID"),
        ("STREAM x AS SELECT city FROM clicks c JOIN users u ON c.user_id = u.id", "bad-key", "add C.USER_ID"),
        # grouping
        ("TABLE x AS SELECT page, id, COUNT(*) FROM clicks GROUP BY page", "bad-grouping", "group by it"),
        ("TABLE x AS SELECT page, COUNT(*) FROM clicks", "bad-grouping", "add GROUP BY"),
        ("TABLE x AS SELECT page FROM clicks GROUP BY page", "bad-grouping", "add COUNT(*)"),
        ("TABLE x AS SELECT COUNT(*) FROM clicks GROUP BY page", "bad-key", "add PAGE to SELECT"),
        (
            "TABLE x AS SELECT page, MAX(COUNT(*)) FROM clicks GROUP BY page",
            "bad-grouping",
            "use one aggregate function",
        ),
        ("TABLE x AS SELECT page FROM clicks GROUP BY COUNT(*)", "bad-grouping", "group by columns"),
        ("TABLE x AS SELECT id FROM clicks WHERE COUNT(*) > 1", "bad-grouping", "HAVING, after GROUP BY"),
        (
            "TABLE x AS SELECT page, COUNT(*) AS n FROM clicks GROUP BY page HAVING n > 5",
            "column-not-found",
            "HAVING cannot use an alias; write COUNT(*) in place of N",
        ),
        ("STREAM x AS SELECT page, COUNT(*) FROM clicks GROUP BY page", "wrong-kind", "write CREATE TABLE X AS SELECT"),
        # projection
        ("STREAM x AS SELECT page FROM clicks", "bad-key", "add ID to SELECT"),
        ("STREAM x AS SELECT id, id AS other FROM clicks", "bad-key", "AS_VALUE(CLICKS.ID)"),
        ("STREAM x AS SELECT id, page, page FROM clicks", "bad-name", "AS PAGE_2"),
        ("STREAM x AS SELECT id, clicks.pge FROM clicks", "column-not-found", 'did you mean "PAGE"?'),
        ("STREAM x AS SELECT id, UCAS(page) FROM clicks", "unknown-function", 'did you mean "UCASE"?'),
        ('STREAM x AS SELECT * FROM clicks WHERE page = "/home"', "column-not-found", "in single quotes: '/home'"),
        ("STREAM x AS SELECT * FROM click", "source-not-found", 'did you mean "CLICKS"?'),
    ],
)
def test_a_query_is_refused_with_a_fix(query: str, code: str, fix: str) -> None:
    error = checked(f"CREATE {query};").errors[0]
    assert error.code == code
    assert fix in (error.fix or "")
