"""Expressions, types and schemas as ksqlDB writes them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from headrace.lang.ksql.formatter import expression_text, identifier_text, schema_text, type_text
from headrace.lang.ksql.grammar.parser import parse_expression
from headrace.plan import types as t
from headrace.plan.relations import Kind, Relation
from headrace.schema import Field

EXPRESSIONS = {
    "f1 * sum(f2)": "(F1 * SUM(F2))",
    "substring(region,7,1)": "SUBSTRING(REGION, 7, 1)",
    "s.a = 'it''s'": "(S.A = 'it''s')",
    "not a and b or -x > 1": "(((NOT A) AND B) OR (-X > 1))",
    "- -a": "- -A",
    "x not between 1 and 2.50": "(NOT (X BETWEEN 1 AND 2.50))",
    "x in (1, null)": "(X IN (1, null))",
    "x like 'a' escape '!'": "(X LIKE 'a' ESCAPE '!')",
    "x is not null": "(X IS NOT NULL)",
    "case when true then 1 else 2 end": "(CASE WHEN true THEN 1 ELSE 2 END)",
    "case x when 1 then 2 end": "(CASE X WHEN 1 THEN 2 END)",
    "cast(a as map<varchar, struct<x int>>)": "CAST(A AS MAP<STRING, STRUCT<`X` INTEGER>>)",
    "cast(a as decimal(4,2))": "CAST(A AS DECIMAL(4, 2))",
    "array[1,2][1]->f": "ARRAY[1, 2][1]->F",
    "map('a' := 1)": "MAP('a':=1)",
    "struct(a := 1, b := 2)": "STRUCT(A:=1, B:=2)",
    "reduce(a, 0, (s, x) => s + x)": "REDUCE(A, 0, (S, X) => (S + X))",
    "1.5e3": "1.5E3",
    "1e-7": "1E-7",
    "count(*)": "COUNT(*)",
    "timestampadd(hour, 1, a)": "TIMESTAMPADD(HOURS, 1, A)",
    "date '2026-01-31'": "DATE '2026-01-31'",
    "a at time zone 'UTC'": "A AT TIME ZONE 'UTC'",
}


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_expression(text: str) -> None:
    assert expression_text(parse_expression(text)) == EXPRESSIONS[text]


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_formatted_expressions_are_parsed_to_the_same_text(text: str) -> None:
    tree = parse_expression(text)
    again = parse_expression(expression_text(tree))
    assert expression_text(again) == expression_text(tree)


TYPES = {
    "INTEGER": t.INT,
    "BIGINT": t.BIGINT,
    "STRING": t.STRING,
    "BYTES": t.BYTES,
    "TIMESTAMP": t.TIMESTAMP,
    "DECIMAL(4, 2)": t.decimal(4, 2),
    "ARRAY<STRING>": t.array(t.STRING),
    "MAP<STRING, INTEGER>": t.map_of(t.STRING, t.INT),
    "STRUCT<`A` INTEGER, `b` ARRAY<DOUBLE>>": t.struct([("A", t.INT), ("b", t.array(t.DOUBLE))]),
}


@pytest.mark.parametrize("text", TYPES)
def test_type(text: str) -> None:
    kind: pa.DataType = TYPES[text]
    assert type_text(kind) == text


def test_schema() -> None:
    key, value = (Field("ID", t.STRING),), (Field("V", t.INT),)
    assert schema_text(Relation(Kind.STREAM, key, value)) == "`ID` STRING KEY, `V` INTEGER"
    assert schema_text(Relation(Kind.TABLE, key, value)) == "`ID` STRING PRIMARY KEY, `V` INTEGER"


def test_identifier() -> None:
    assert identifier_text("a`b") == "`a``b`"
