"""Statements beside those of the public cases: what ksqlDB refuses, and numbers that widen on their way into a sink."""

from __future__ import annotations

import pytest

from headrace.errors import HeadraceError
from headrace.lang.ksql.statements.planner import Planner
from headrace.plan import types as t
from headrace.plan.actions import Action, StartQuery
from headrace.plan.catalog import Catalog
from tests.ksql_parsing import parse

SOURCE = (
    "CREATE STREAM s (k STRING KEY, a INT, b DECIMAL(4,1), l ARRAY<INT>, y BYTES)"
    " WITH (kafka_topic='s', value_format='JSON');"
)


def planned(text: str) -> list[Action]:
    planner = Planner(Catalog())
    return [planner.plan(statement, own) for statement, own in parse(SOURCE + text).statements]


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("CREATE TABLE t AS SELECT k, EXPLODE(l), COUNT(*) FROM s GROUP BY k;", "cannot be used with aggregations"),
        ("CREATE TABLE t AS SELECT k, EARLIEST_BY_OFFSET(a, 0) FROM s GROUP BY k;", "earliestN must be 1 or greater"),
        ("CREATE TABLE t AS SELECT k, LATEST_BY_OFFSET(a, -1) FROM s GROUP BY k;", "latestN must be 1 or greater"),
        ("CREATE TABLE t AS SELECT k, TOPK(a, NULL) FROM s GROUP BY k;", "must be a literal"),
        (
            "SET 'ksql.functions.collect_list.limit' = 'x';"
            "CREATE TABLE t AS SELECT k, COLLECT_LIST(a) FROM s GROUP BY k;",
            "must be an integer",
        ),
        ("INSERT INTO s (k, y) VALUES ('a', '*');", "is not a valid BYTES"),
        ("CREATE STREAM t WITH (kafka_topic='t', value_format='JSON');", "does not define any columns"),
    ],
)
def test_a_statement_is_refused(statement: str, said: str) -> None:
    with pytest.raises(HeadraceError, match=said):
        planned(statement)


SINK = (
    "CREATE STREAM o (k {} KEY, x {}) WITH (kafka_topic='o', value_format='JSON');"
    "INSERT INTO o SELECT k, {} AS x FROM s;"
)


@pytest.mark.parametrize(
    ("column", "kind"), [("a", "BIGINT"), ("a", "DOUBLE"), ("b", "DECIMAL(5, 2)"), ("b", "DOUBLE")]
)
def test_a_number_widens_into_the_sink(column: str, kind: str) -> None:
    *_, insert = planned(SINK.format("STRING", kind, column))
    assert isinstance(insert, StartQuery)
    wanted = {"BIGINT": t.BIGINT, "DOUBLE": t.DOUBLE, "DECIMAL(5, 2)": t.decimal(5, 2)}[kind]
    assert [f.type for f in insert.query.sink.relation.value] == [wanted]
    assert [f.type for f in insert.query.sink.input.relation.value] == [wanted]


@pytest.mark.parametrize(
    ("key", "column", "kind"),
    [("STRING", "b", "INT"), ("STRING", "b", "DECIMAL(4, 2)"), ("STRING", "a", "STRING"), ("INT", "a", "INT")],
)
def test_a_result_incompatible_with_its_sink_is_refused(key: str, column: str, kind: str) -> None:
    with pytest.raises(HeadraceError, match="Incompatible schema between results and sink"):
        planned(SINK.format(key, kind, column))
