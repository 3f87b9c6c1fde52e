"""A dozen plans, one for each kind of node and join, with inputs that hold nulls, deletions and late records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from headrace.plan.chain.pipeline import Pipeline
from headrace.plan.chain.records import RawRecord
from headrace.plan.nodes import Query
from headrace.testing.world import World


@dataclass(frozen=True)
class SamplePlan:
    """Statements, of which the last is a query, and records: topic, key, value, time."""

    name: str
    statements: str
    inputs: Sequence[tuple[str, str | None, str | None, int]]

    @cached_property
    def query(self) -> Query:
        world = World(live=False)
        world.execute(self.statements)
        return list(world.running.values())[-1].query

    @cached_property
    def records(self) -> list[tuple[str, RawRecord]]:
        return [
            (topic, RawRecord(_bytes(key), _bytes(value), time, offset=offset))
            for offset, (topic, key, value, time) in enumerate(self.inputs)
        ]

    @property
    def in_memory(self) -> list[RawRecord]:
        """What the chain writes."""
        return Pipeline(self.query).run(self.records)


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


CLICKS = (
    "CREATE STREAM clicks (id INT KEY, page STRING, spent BIGINT, tags ARRAY<STRING>, at STRUCT<x INT, y DOUBLE>)"
    " WITH (kafka_topic='clicks', format='JSON', partitions=1);"
)
USERS = "CREATE TABLE users (id INT PRIMARY KEY, name STRING) WITH (kafka_topic='users', format='JSON', partitions=1);"
CITIES = (
    "CREATE TABLE cities (id INT PRIMARY KEY, city STRING) WITH (kafka_topic='cities', format='JSON', partitions=1);"
)

CLICKED = [
    (
        "clicks",
        "1",
        '{"PAGE": "/a", "SPENT": 9223372036854775807, "TAGS": ["x", null, "y"], "AT": {"X": 1, "Y": 0.5}}',
        10,
    ),
    ("clicks", "2", '{"PAGE": null, "SPENT": null, "TAGS": null, "AT": null}', 20),
    ("clicks", "1", '{"PAGE": "/b%", "SPENT": 7, "TAGS": [], "AT": {"X": 0, "Y": null}}', 5),
    ("clicks", None, '{"PAGE": "/c", "SPENT": -3, "TAGS": ["z"], "AT": {"X": -5, "Y": 1e300}}', 99_999_999),
    ("clicks", "3", None, 30),
    ("clicks", "2", "not json", 40),
    ("clicks", "2", '{"PAGE": "/a", "SPENT": 0, "TAGS": ["x", "x"], "AT": {"X": 7, "Y": -0.0}}', 50),
    ("clicks", "1", '{"PAGE": "/a", "SPENT": 5, "TAGS": ["q"], "AT": {"X": 2, "Y": 2.0}}', 200_000_000),
    ("clicks", "1", '{"PAGE": "/d", "SPENT": 8, "TAGS": ["late"], "AT": {"X": 2, "Y": 2.0}}', 60),
]
PEOPLE = [
    ("users", "1", '{"NAME": "ann"}', 0),
    ("cities", "1", '{"CITY": "rome"}', 15),
    ("users", "2", '{"NAME": "bob"}', 3),
    ("cities", "3", '{"CITY": "oslo"}', 4),
    ("users", "1", '{"NAME": null}', 25),
    ("users", "2", None, 26),
    ("users", "4", '{"NAME": "dan"}', 27),
    ("cities", "2", '{"CITY": "bonn"}', 28),
    ("users", "1", '{"NAME": "eve"}', 29),
]
MIXED = [record for pair in zip(PEOPLE, CLICKED, strict=True) for record in pair]


def clicks(name: str, statement: str) -> SamplePlan:
    return SamplePlan(name, CLICKS + statement, CLICKED)


SAMPLE_PLANS = (
    clicks(
        "select",
        "CREATE STREAM o AS SELECT id, page, spent + 1 AS more, spent / 0 AS none, -spent AS minus, tags[1] AS first,"
        " tags[-1] AS last, tags[0] AS no, at->x * 2147483647 AS x, at->y / 0e0 AS y, UCASE(page) AS up,"
        " STRUCT(a := page, b := spent / 0) AS s, ARRAY[page, 'q'] AS a, MAP('k' := page) AS m FROM clicks;",
    ),
    clicks("distinct", "CREATE STREAM o AS SELECT DISTINCT id, page, UCASE(page) AS up FROM clicks WHERE id < 3;"),
    clicks("distinct-on", "CREATE STREAM o AS SELECT DISTINCT ON (page) id, spent FROM clicks;"),
    clicks(
        "distinct-windows",
        "CREATE STREAM o AS SELECT DISTINCT ON (id) * FROM clicks"
        " WINDOW TUMBLING (SIZE 30 MILLISECONDS, GRACE PERIOD 10 SECONDS);",
    ),
    clicks(
        "case",
        "CREATE STREAM o AS SELECT id, CASE WHEN spent > 5 THEN 'much' WHEN page LIKE '/b!%' ESCAPE '!' THEN 'b' END"
        " AS c, page IN ('/a', '/c') AS i, page IS NULL AS n, spent IS DISTINCT FROM 7 AS d, NOT (spent > 0) AS p,"
        " CAST(spent AS STRING) AS t, CAST(spent AS INT) AS w FROM clicks;",
    ),
    clicks(
        "texts-that-try",
        "CREATE STREAM o AS SELECT id, '${env:HOME} ${system:user.name} ${spark.app.name}' AS `v0, 1 as x`,"
        r" 'it''s; -- \'' OR 1=1 /* \u0027 ` \" {0} %s \\' AS `a``b``; drop table t`,"
        " '\x00 \u2028 \U0001f600' AS `unicode`, page = '\\'' OR ''1''=''1' AS `is`,"
        r" CONCAT(page, '\n\', '''') AS `${env:HOME}` FROM clicks;",
    ),
    clicks(
        "like-in-parts",
        r"CREATE STREAM o AS SELECT id, page LIKE '%/%b%!%' ESCAPE '!' AS b, page LIKE '%\%_%' AS c,"
        " page LIKE '_%a%' AS d, page LIKE '%.%*%' AS e, page LIKE '%/%' AS f FROM clicks;",
    ),
    clicks("filter", "CREATE STREAM o AS SELECT * FROM clicks WHERE page <> '/a' AND (spent > 0 OR tags IS NOT NULL);"),
    clicks("rekey", "CREATE STREAM o AS SELECT * FROM clicks PARTITION BY page;"),
    clicks("rekey-many", "CREATE STREAM o AS SELECT * FROM clicks PARTITION BY id, UCASE(page);"),
    clicks("explode", "CREATE STREAM o AS SELECT id, EXPLODE(tags) AS tag, page FROM clicks;"),
    clicks(
        "count",
        "CREATE TABLE o AS SELECT page, COUNT(*) AS n, SUM(spent) AS s, MIN(spent) AS least, MAX(page) AS p,"
        " LATEST_BY_OFFSET(spent) AS l, EARLIEST_BY_OFFSET(tags) AS e FROM clicks GROUP BY page;",
    ),
    clicks(
        "fold", "CREATE TABLE o AS SELECT id, COLLECT_LIST(page) AS pages, AVG(spent) AS a FROM clicks GROUP BY id;"
    ),
    clicks(
        "having",
        "CREATE TABLE o AS SELECT id, COUNT(*) * 2 AS n FROM clicks GROUP BY id HAVING COUNT(*) > 2;",
    ),
    clicks(
        "tumbling",
        "CREATE TABLE o AS SELECT id, COUNT(*) AS n FROM clicks"
        " WINDOW TUMBLING (SIZE 10 SECONDS, GRACE PERIOD 5 SECONDS) GROUP BY id;",
    ),
    clicks(
        "hopping",
        "CREATE TABLE o AS SELECT page, COUNT(*) AS n, WINDOWSTART AS ws FROM clicks"
        " WINDOW HOPPING (SIZE 20 SECONDS, ADVANCE BY 5 SECONDS, GRACE PERIOD 1 DAY) GROUP BY page;",
    ),
    SamplePlan(
        "table", USERS + "CREATE TABLE o AS SELECT id, UCASE(name) AS n FROM users WHERE name IS NOT NULL;", PEOPLE
    ),
    SamplePlan(
        "enrich",
        CLICKS
        + USERS
        + "CREATE STREAM o AS SELECT c.id AS id, page, name FROM clicks c LEFT JOIN users u ON c.id = u.id;",
        MIXED,
    ),
    SamplePlan(
        "enrich-inner",
        CLICKS + USERS + "CREATE STREAM o AS SELECT c.id AS id, page, name FROM clicks c JOIN users u ON c.id = u.id;",
        MIXED,
    ),
    SamplePlan(
        "count-by-table",
        CLICKS
        + USERS
        + "CREATE TABLE o AS SELECT name, COUNT(*) AS n FROM clicks c JOIN users u ON c.id = u.id GROUP BY name;",
        MIXED,
    ),
    *(
        SamplePlan(
            f"tables-{kind}",
            USERS
            + CITIES
            + f"CREATE TABLE o AS SELECT {key} AS id, name, city FROM users u {kind} JOIN cities c ON u.id = c.id;",
            PEOPLE,
        )
        for kind, key in (("INNER", "u.id"), ("LEFT", "u.id"), ("FULL", "ROWKEY"))
    ),
)

RECORD_MODE_PLANS = (
    clicks(
        "session", "CREATE TABLE o AS SELECT id, COUNT(*) AS n FROM clicks WINDOW SESSION (30 SECONDS) GROUP BY id;"
    ),
    clicks(
        "final",
        "CREATE TABLE o AS SELECT id, COUNT(*) AS n FROM clicks WINDOW TUMBLING (SIZE 1 SECOND, GRACE PERIOD 1 SECOND)"
        " GROUP BY id EMIT FINAL;",
    ),
    SamplePlan(
        "streams",
        CLICKS
        + "CREATE STREAM d AS SELECT * FROM clicks;"
        + "CREATE STREAM o AS SELECT c.id AS id, c.page, d.spent"
        + " FROM clicks c LEFT JOIN d WITHIN 1 MINUTE ON c.id = d.id;",
        [*CLICKED, *(("D", *rest) for _, *rest in CLICKED)],
    ),
    SamplePlan("table-count", USERS + "CREATE TABLE o AS SELECT name, COUNT(*) AS n FROM users GROUP BY name;", MIXED),
)
"""Plans that Spark's own operators cannot run."""
