"""Pipelines built in Python have the plan of the equivalent KSQL."""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace import F, col
from headrace.lang.executor import ScriptExecutor
from headrace.lang.ksql import ast
from headrace.lang.ksql.grammar.parser import parse_expression, parse_one
from headrace.lang.ksql.statement_formatter import duration_sql, expression_sql
from headrace.lang.python.expressions import Expr
from headrace.lang.python.relations import Relation
from headrace.lang.registry import dialect_of
from headrace.plan.catalog import Catalog
from headrace.plan.nodes import Query

SOURCES = """
CREATE STREAM clicks (user STRING KEY, page STRING, amount BIGINT, price DOUBLE, tags ARRAY<STRING>)
  WITH (kafka_topic='clicks', format='json');
CREATE STREAM views (user STRING KEY, seen BIGINT) WITH (kafka_topic='views', format='json');
CREATE TABLE users (user STRING PRIMARY KEY, city STRING) WITH (kafka_topic='users', format='json');
CREATE TABLE codes (code STRING PRIMARY KEY, title STRING) WITH (kafka_topic='codes', format='json');
"""


def sources() -> tuple[hr.App, hr.NamedRelation, hr.NamedRelation, hr.NamedRelation, hr.NamedRelation]:
    app = hr.App()
    columns = "user STRING KEY, page STRING, amount BIGINT, price DOUBLE, tags ARRAY<STRING>"
    return (
        app,
        app.stream("clicks", columns),
        app.stream("views", "user STRING KEY, seen BIGINT"),
        app.table("users", "user STRING PRIMARY KEY, city STRING"),
        app.table("codes", "code STRING PRIMARY KEY, title STRING"),
    )


def planned(text: str) -> dict[str, Query]:
    catalog = Catalog()
    ScriptExecutor(dialect_of(), dialect_of().planner(catalog), lambda action, text: None).run(SOURCES + text)
    return catalog.queries


clicks, views, users, codes = sources()[1:]
ONE_MINUTE = hr.tumbling(minutes=1)
CASES = {
    "where": (
        clicks.where(col.amount > 10, col.page != "/").filter(~col.page.like("/a%")),
        "STREAM x AS SELECT * FROM clicks WHERE amount > 10 AND page <> '/' AND NOT (page LIKE '/a%')",
    ),
    "select": (
        clicks.select("user", col.page.alias("p"), twice=col.amount * 2, half=col.price / 2.0),
        "STREAM x AS SELECT user, page AS p, amount * 2 AS twice, price / 2E0 AS half FROM clicks",
    ),
    "with columns": (
        clicks.with_columns(big=hr.when(col.amount > 9, "yes").otherwise("no")),
        "STREAM x AS SELECT *, CASE WHEN amount > 9 THEN 'yes' ELSE 'no' END AS big FROM clicks",
    ),
    "where behind select": (
        clicks.select("user", n=col.amount + 1).where(col.n > 3),
        "STREAM x AS SELECT * FROM (SELECT user, amount + 1 AS n FROM clicks) AS clicks WHERE n > 3",
    ),
    "functions and lambdas": (
        clicks.select("user", a=F.ucase(col.page), b=F.filter(col.tags, lambda t: t != "x"), c=col.tags[1]),
        "STREAM x AS SELECT user, UCASE(page) AS a, FILTER(tags, (t) => t <> 'x') AS b, tags[1] AS c FROM clicks",
    ),
    "nulls, lists, bounds, casts": (
        clicks.where((col.page == None) | col.amount.is_in([1, 2]) | col.price.between(1, 2)).select(  # noqa: E711
            "user", n=col.amount.cast("STRING"), m=-col.amount, z=hr.lit(None).cast("INT")
        ),
        "STREAM x AS SELECT user, CAST(amount AS STRING) AS n, -amount AS m, CAST(NULL AS INT) AS z FROM clicks "
        "WHERE page IS NULL OR amount IN (1, 2) OR price BETWEEN 1 AND 2",
    ),
    "decimals and times": (
        clicks.select("user", d=hr.lit(Decimal("1.50")), w=hr.lit(Decimal("15E1")), t=hr.lit(date(2026, 1, 31))),
        "STREAM x AS SELECT user, 1.50 AS d, CAST(150 AS DECIMAL(3, 0)) AS w, DATE '2026-01-31' AS t FROM clicks",
    ),
    "key by": (
        clicks.key_by("page"),
        "STREAM x AS SELECT * FROM clicks PARTITION BY page",
    ),
    "aggregate": (
        clicks.group_by("page").having(hr.count() > 2).agg(n=hr.count(), m=hr.max("amount"), l=hr.last("user")),
        "TABLE x AS SELECT page, COUNT(*) AS n, MAX(amount) AS m, LATEST_BY_OFFSET(user) AS l FROM clicks "
        "GROUP BY page HAVING COUNT(*) > 2",
    ),
    "windows": (
        clicks.group_by("page").window(hr.hopping(hr.minutes(5), every=hr.minutes(1), grace=hr.seconds(9))).count(),
        "TABLE x AS SELECT page, COUNT(*) AS n FROM clicks "
        "WINDOW HOPPING (SIZE 5 MINUTES, ADVANCE BY 1 MINUTE, GRACE PERIOD 9 SECONDS) GROUP BY page",
    ),
    "final": (
        clicks.group_by("page").window(hr.session(minutes=30)).emit_final().agg(n=hr.count()),
        "TABLE x AS SELECT page, COUNT(*) AS n FROM clicks WINDOW SESSION (30 MINUTES) GROUP BY page EMIT FINAL",
    ),
    "stream with table": (
        clicks.join(users, on="user", how="left").select(clicks["user"], "page", "city"),
        "STREAM x AS SELECT clicks.user, page, city FROM clicks LEFT JOIN users ON clicks.user = users.user",
    ),
    "stream with stream": (
        clicks.join(views, on=("user", "user"), within=hr.minutes(1), grace=hr.seconds(5)).select(
            clicks["user"], "amount", "seen"
        ),
        "STREAM x AS SELECT clicks.user, amount, seen FROM clicks INNER JOIN views "
        "WITHIN 1 MINUTE GRACE PERIOD 5 SECONDS ON clicks.user = views.user",
    ),
    "alias": (
        clicks.alias("c").join(users.alias("u"), on=col("c.user") == col("u.user")).select(col("c.user"), "city"),
        "STREAM x AS SELECT c.user, city FROM clicks c JOIN users u ON c.user = u.user",
    ),
    "distinct": (
        clicks.distinct("user", "page", window=ONE_MINUTE),
        "STREAM x AS SELECT DISTINCT ON (user, page) * FROM clicks WINDOW TUMBLING (SIZE 1 MINUTE)",
    ),
    "top": (
        clicks.group_by("page").count().top(3, by="n"),
        "TABLE x AS SELECT * FROM (SELECT page, COUNT(*) AS n FROM clicks GROUP BY page) AS clicks "
        "ORDER BY n DESC LIMIT 3",
    ),
    "union": (
        clicks.select("user", n="amount").union(views.select("user", n="seen")),
        "STREAM x AS SELECT user, amount AS n FROM clicks UNION ALL SELECT user, seen AS n FROM views",
    ),
    "union of unions": (
        clicks.select("user", n="amount").union(
            views.select("user", n="seen").union(views.select("user", n=col.seen * 2))
        ),
        "STREAM x AS SELECT user, amount AS n FROM clicks UNION ALL SELECT * FROM (SELECT user, seen AS n FROM views "
        "UNION ALL SELECT user, seen * 2 AS n FROM views) AS views",
    ),
    "three": (
        clicks.join(users, on="user")
        .join(views, on=clicks["user"] == views["user"], within=hr.minutes(1), grace=hr.minutes(0))
        .select(clicks["user"], "city", "seen"),
        "STREAM x AS SELECT clicks.user, city, seen FROM clicks JOIN users ON clicks.user = users.user "
        "JOIN views WITHIN 1 MINUTE GRACE PERIOD 0 SECONDS ON clicks.user = views.user",
    ),
    "three by a column": (
        clicks.join(users, on="user").join(codes, on=("page", "code")).select(clicks["page"], "city", "title"),
        "STREAM x AS SELECT clicks.page, city, title FROM clicks JOIN users ON clicks.user = users.user "
        "JOIN codes ON page = codes.code",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_pipeline_has_the_plan_of_its_ksql(name: str) -> None:
    made, text = CASES[name]
    kind = text.split()[0]
    app = sources()[0]
    store(Relation(app, made.query), kind)
    assert app.catalog.queries == planned(f"CREATE {text};")
    assert planned(app.text.split("\n", 4)[4]) == app.catalog.queries  # and its text says the same


def store(made: Relation, kind: str) -> None:
    made.to_stream("x") if kind == "STREAM" else made.to_table("x")


# -- random ones ----------------------------------------------------------------------------------------------------

CONDITIONS = [
    (col.amount > 3, "amount > 3"),
    (col.page == "it's", "page = 'it''s'"),
    ((col.amount < 9) | col.page.is_null(), "(amount < 9 OR page IS NULL)"),
    (~col.user.like("a%"), "NOT (user LIKE 'a%')"),
]
VALUES = [
    (col.amount * 2 + 1, "amount * 2 + 1"),
    (F.ucase(col.page), "UCASE(page)"),
    (hr.when(col.price > 1.5, 1).otherwise(0), "CASE WHEN price > 1.5E0 THEN 1 ELSE 0 END"),
    (col.price - 1, "price - 1"),
]
AGGREGATES = [
    (hr.count(), "COUNT(*)"),
    (hr.sum("amount"), "SUM(amount)"),
    (hr.max(col.price * 2), "MAX(price * 2)"),
    (hr.collect_set("page"), "COLLECT_SET(page)"),
]
WINDOWS = [
    (None, ""),
    (hr.tumbling(hours=1), "WINDOW TUMBLING (SIZE 1 HOUR)"),
    (hr.session(minutes=5, grace=hr.seconds(1)), "WINDOW SESSION (5 MINUTES, GRACE PERIOD 1 SECOND)"),
]
KEYS = [("user",), ("page",), ("page", "amount")]
Parts = list[tuple[Expr, str]]


def some(parts: Parts, least: int = 0) -> st.SearchStrategy[Parts]:
    return st.lists(st.sampled_from(range(len(parts))), min_size=least, max_size=3).map(
        lambda at: [parts[i] for i in at]
    )


def where_text(conditions: Parts) -> str:
    return f" WHERE {' AND '.join(text for _, text in conditions)}" if conditions else ""


@given(some(CONDITIONS), some(VALUES))
def test_random_selections_have_the_plan_of_their_ksql(conditions: Parts, values: Parts) -> None:
    app, clicks, *_ = sources()
    named = {f"v{at}": value for at, (value, _) in enumerate(values)}
    clicks.where(*(condition for condition, _ in conditions)).select("user", "page", **named).to_stream("x")
    items = "".join(f", {text} AS v{at}" for at, (_, text) in enumerate(values))
    assert app.catalog.queries == planned(
        f"CREATE STREAM x AS SELECT user, page{items} FROM clicks{where_text(conditions)};"
    )


@given(some(CONDITIONS), some(AGGREGATES, 1), st.sampled_from(WINDOWS), st.sampled_from(KEYS))
def test_random_groupings_have_the_plan_of_their_ksql(
    conditions: Parts, aggregates: Parts, window: tuple[ast.WindowClause | None, str], keys: tuple[str, ...]
) -> None:
    app, clicks, *_ = sources()
    grouped = clicks.where(*(condition for condition, _ in conditions)).group_by(*keys)
    named = {f"v{at}": value for at, (value, _) in enumerate(aggregates)}
    grouped = grouped if window[0] is None else grouped.window(window[0])
    grouped.agg(**named).to_table("x", key_format="json")
    items = ", ".join(f"{text} AS v{at}" for at, (_, text) in enumerate(aggregates))
    by = ", ".join(keys)
    assert app.catalog.queries == planned(
        f"CREATE TABLE x WITH (key_format='json') AS SELECT {by}, {items} FROM clicks {window[1]}"
        f"{where_text(conditions)} GROUP BY {by};"
    )


# -- text that reads back -------------------------------------------------------------------------------------------

NAMES = st.sampled_from(["A", "b", "SELECT", "two words", "tick`ed", "A.B"])
LEAVES = st.one_of(
    NAMES.map(ast.Name),
    st.builds(ast.Name, NAMES, NAMES),
    st.integers(-(1 << 63), (1 << 63) - 1).map(ast.IntegerLiteral),
    st.floats(allow_nan=False, allow_infinity=False).filter(lambda f: f != 0 or str(f) == "0.0").map(ast.DoubleLiteral),
    st.decimals(-10, 10, places=3).filter(lambda d: d != 0).map(ast.DecimalLiteral),
    st.text(st.characters(codec="utf-8", exclude_characters="${}\r"), max_size=5).map(ast.StringLiteral),
    st.booleans().map(ast.BooleanLiteral),
)


def larger(inner: st.SearchStrategy[ast.Expr]) -> st.SearchStrategy[ast.Expr]:
    several = st.lists(inner, min_size=1, max_size=2).map(tuple)
    plain = inner.filter(lambda e: not isinstance(e, ast.IntegerLiteral | ast.DecimalLiteral | ast.DoubleLiteral))
    return st.one_of(
        st.builds(ast.Arithmetic, st.sampled_from("+-*/%"), inner, inner),
        st.builds(ast.Comparison, st.sampled_from(["=", "<>", "<="]), inner, inner),
        st.builds(ast.Logical, st.sampled_from(["AND", "OR"]), inner, inner),
        st.builds(ast.Not, inner),
        st.builds(ast.IsNull, inner, st.booleans()),
        st.builds(ast.Between, inner, inner, inner),
        st.builds(ast.InList, inner, several),
        st.builds(ast.Call, st.just("F"), several),
        st.builds(ast.Unary, st.just("-"), plain),
        st.builds(ast.ArrayMaker, several),
        st.builds(lambda name, value: ast.StructMaker(((name, value),)), NAMES, inner),
        st.builds(lambda name, value: ast.Call("F", (ast.Lambda((name,), value),)), NAMES, inner),
        st.builds(lambda when, then: ast.Case(None, ((when, then),), then), inner, inner),
    )


@given(st.recursive(LEAVES, larger, max_leaves=8))
def test_a_formatted_expression_is_parsed_back(node: ast.Expr) -> None:
    assert parse_expression(expression_sql(node)) == node


@given(st.integers(0, 10**12).map(lambda ms: timedelta(milliseconds=ms)))
def test_a_formatted_duration_is_parsed_back(span: timedelta) -> None:
    text = f"CREATE TABLE x AS SELECT a FROM b WINDOW SESSION ({duration_sql(span)}) GROUP BY a;"
    statement = parse_one(text)
    assert isinstance(statement, ast.CreateAs)
    assert statement.query.window is not None
    assert statement.query.window.size == span
