"""DESCRIBE, LIST, SHOW, EXPLAIN and PRINT become metadata queries; unknown names are refused."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.errors import StatementError
from headrace.lang.ksql.scripts.checker import CheckedScript, check_script
from headrace.plan.actions import MetadataKind, MetadataQuery

MADE = """
CREATE STREAM s (id INT KEY, v STRING) WITH (KAFKA_TOPIC='s', FORMAT='JSON');
CREATE TABLE counts AS SELECT v, COUNT(*) AS n FROM s GROUP BY v;
"""


def checked(statement: str) -> CheckedScript:
    return check_script(MADE + statement)


def question(statement: str) -> MetadataQuery:
    found = checked(statement)
    assert not found.errors
    action = found.planned[-1].action
    assert isinstance(action, MetadataQuery)
    return action


@pytest.mark.parametrize(
    ("statement", "about", "more"),
    [
        ("LIST STREAMS;", MetadataKind.STREAMS, {}),
        ("SHOW TABLES EXTENDED;", MetadataKind.TABLES, {"extended": True}),
        ("SHOW ALL TOPICS;", MetadataKind.TOPICS, {"all": True}),
        ("LIST QUERIES;", MetadataKind.QUERIES, {}),
        ("LIST TYPES;", MetadataKind.TYPES, {}),
        ("LIST FUNCTIONS;", MetadataKind.FUNCTIONS, {}),
        ("SHOW PROPERTIES;", MetadataKind.PROPERTIES, {}),
        ("SHOW VARIABLES;", MetadataKind.VARIABLES, {}),
        ("SHOW SINK CONNECTORS;", MetadataKind.CONNECTORS, {}),
        ("SHOW CONNECTOR PLUGINS;", MetadataKind.PLUGINS, {}),
        ("DESCRIBE s;", MetadataKind.SOURCE, {"name": "S", "described": True}),
        ("DESCRIBE EXTENDED s;", MetadataKind.SOURCE, {"name": "S", "described": True, "extended": True}),
        ("DESCRIBE STREAMS;", MetadataKind.STREAMS, {"described": True}),
        ("DESCRIBE FUNCTION len;", MetadataKind.FUNCTION, {"name": "LEN", "described": True}),
        (
            "PRINT 's' FROM BEGINNING INTERVAL 2 LIMIT 3;",
            MetadataKind.TOPIC,
            {"name": "s", "from_beginning": True, "interval": 2, "limit": 3},
        ),
    ],
)
def test_statements_become_metadata_queries(statement: str, about: MetadataKind, more: dict[str, Any]) -> None:
    asked = question(statement)
    assert asked == MetadataQuery(about, **more)
    assert asked.text == statement


@pytest.mark.parametrize(
    ("statement", "kind"),
    [
        ("CTAS_COUNTS_0", "PERSISTENT"),
        ("SELECT * FROM s EMIT CHANGES", "PUSH"),
        ("SELECT * FROM counts WHERE v = 'a'", "PULL"),
        ("CREATE STREAM t AS SELECT * FROM s", "PERSISTENT"),
        ("INSERT INTO s SELECT * FROM s", "PERSISTENT"),
    ],
)
def test_explain_contains_the_planned_query(statement: str, kind: str) -> None:
    asked = question(f"EXPLAIN {statement};")
    assert asked.query is not None
    assert (asked.about, asked.query_type) == (MetadataKind.QUERY, kind)


def test_explain_does_not_change_the_catalog() -> None:
    found = checked("EXPLAIN CREATE STREAM t AS SELECT * FROM s;")
    assert list(found.catalog.sources) == ["S", "COUNTS"]
    assert list(found.catalog.queries) == ["CTAS_COUNTS_0"]
    (asked,) = [planned.action for planned in found.planned if isinstance(planned.action, MetadataQuery)]
    assert asked.query
    assert asked.query.text == "CREATE STREAM t AS SELECT * FROM s;"


@pytest.mark.parametrize(
    ("statement", "code", "column", "fix"),
    [
        ("DESCRIBE nope;", "source-not-found", 10, "sources are: COUNTS, S"),
        ("DESCRIBE `s`;", "source-not-found", 10, "Did you mean S? Hint: try removing or adding quotes"),
        ("DESCRIBE FUNCTION lenn;", "unknown-function", 19, 'did you mean "LEN"?'),
        ("DESCRIBE CONNECTOR c;", "unsupported", 1, "write the data to a topic with another program"),
        ("EXPLAIN q;", "source-not-found", 9, "use SHOW QUERIES to view the full set of queries"),
        ("EXPLAIN DROP TABLE counts;", "bad-query", 9, "EXPLAIN a SELECT"),
        ("EXPLAIN SELECT w FROM s;", "column-not-found", 16, "columns are: ID, ROWOFFSET, ROWPARTITION, ROWTIME, V"),
        ("EXPLAIN ctas_count_0;", "source-not-found", 9, 'did you mean "CTAS_COUNTS_0"?'),
        ("SET 'auto.ofset.reset' = 'latest';", "bad-property", 5, 'did you mean "auto.offset.reset"?'),
        (
            "SET 'ssl.key.password' = 'x';",
            "bad-property",
            5,
            "remove the statement; SHOW PROPERTIES lists the properties",
        ),
        ("PRINT s LIMIT 0;", "bad-query", 1, "use a number of at least 1"),
    ],
)
def test_refusals_have_a_place_and_a_fix(statement: str, code: str, column: int, fix: str) -> None:
    (error,) = checked(statement).errors
    assert isinstance(error, StatementError)
    assert error.span
    assert (error.code, error.span.line, error.span.column) == (code, 4, column)
    assert error.fix == fix
