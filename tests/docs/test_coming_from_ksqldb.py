"""Every claim of `docs/guide/coming-from-ksqldb.md` is executed: what works runs in memory, what is refused is refused.

`CLAIMS` has one entry per row of the page's tables, by the text of the row's first cell, and one per item of the list
of what ksqlDB refuses too. A row without an entry fails, and so does an entry without a row. What a test in memory
cannot show (HTTP, the shell, a real log) names the test that does.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tools.function_pages import declared

from headrace.control.node import Node
from headrace.errors import HeadraceError, Unsupported
from headrace.lang.ksql.scripts.checker import check_script
from headrace.log.embedded import EmbeddedLog
from headrace.settings import Settings
from headrace.testing import World
from tests.docs.pages import ROOT, sections, table_rows
from tests.docs.test_ksql import outcome
from tests.unit.control.test_node import Nowhere

PAGE = ROOT / "docs" / "guide" / "coming-from-ksqldb.md"

SOURCES = """
CREATE STREAM clicks (id INT KEY, page STRING, amount BIGINT) WITH (KAFKA_TOPIC='clicks', FORMAT='JSON');
CREATE STREAM views (id INT KEY, page STRING) WITH (KAFKA_TOPIC='views', FORMAT='JSON');
CREATE TABLE users (id INT PRIMARY KEY, name STRING, boss INT) WITH (KAFKA_TOPIC='users', FORMAT='JSON');
CREATE TABLE cities (id INT PRIMARY KEY, city STRING) WITH (KAFKA_TOPIC='cities', FORMAT='JSON');
CREATE TABLE people AS SELECT * FROM users;
CREATE TABLE windowed AS SELECT id, COUNT(*) AS n FROM clicks WINDOW TUMBLING (SIZE 1 MINUTE) GROUP BY id;
"""


@dataclass(frozen=True)
class Works:
    """The statements run in memory over `SOURCES`, and show these lines, written as in the `text` blocks of a page."""

    statements: str
    shows: tuple[str, ...]
    properties: Mapping[str, Any] | None = None

    def check(self) -> None:
        world = _world(self.properties)
        lines = [_shortened(line) for line in outcome(world, textwrap.dedent(self.statements))]
        assert [line for line in lines if not line.startswith((" ", "PEOPLE ", "WINDOWED "))] == list(self.shows)


@dataclass(frozen=True)
class Planned:
    """The statements are accepted."""

    statements: str
    properties: Mapping[str, Any] | None = None

    def check(self) -> None:
        assert not errors(self.statements, self.properties)


@dataclass(frozen=True)
class Refused:
    """The statements are refused, with an error that contains the text."""

    statements: str
    why: str
    properties: Mapping[str, Any] | None = None

    def check(self) -> None:
        found = errors(self.statements, self.properties)
        assert found
        assert self.why in "\n".join(map(str, found))


@dataclass(frozen=True)
class TestedIn:
    """Another test or file shows it: the path, and a text that it contains."""

    __test__ = False
    path: str
    text: str

    def check(self) -> None:
        assert self.text in (ROOT / self.path).read_text()


def _shortened(line: str) -> str:
    """One space between columns; of a dead letter and of a refusal only the code."""
    return re.sub(r"^(dead letter|refused) ([\w-]+): .*", r"\1 \2", re.sub(r"  +", " ", line))


@dataclass(frozen=True)
class Emits:
    """Whether the query of a table emits every change, under properties."""

    every_change: bool
    properties: Mapping[str, Any]

    def check(self) -> None:
        queries = _world(self.properties).running.values()
        assert {running.query.every_change for running in queries} == {self.every_change}


Check = Works | Planned | Refused | TestedIn | Emits


def _world(properties: Mapping[str, Any] | None = None) -> World:
    world = World(properties)
    world.execute(SOURCES)
    return world


def errors(statements: str, properties: Mapping[str, Any] | None = None) -> list[HeadraceError]:
    world = _world(properties)
    return check_script(statements, catalog=world.catalog, properties=world.planner.properties).errors


def select(expressions: str) -> str:
    return f"CREATE STREAM result AS SELECT id, {expressions} FROM views; INSERT INTO views VALUES (1, '/');"


NO_SCANS = {"ksql.query.pull.table.scan.enabled": False}
BAD_RECORD = """
CREATE STREAM texts (page STRING) WITH (KAFKA_TOPIC='numbers', VALUE_FORMAT='KAFKA');
CREATE STREAM numbers (n INT) WITH (KAFKA_TOPIC='numbers', VALUE_FORMAT='JSON');
CREATE STREAM copy AS SELECT * FROM numbers;
INSERT INTO texts VALUES ('{');
"""
BAD_TIME = """
CREATE STREAM timed (at STRING)
  WITH (KAFKA_TOPIC='timed', VALUE_FORMAT='JSON', TIMESTAMP='at', TIMESTAMP_FORMAT='yyyy-MM-dd''T''HH:mm:ssX');
CREATE STREAM copy AS SELECT * FROM timed;
INSERT INTO timed VALUES ('never');
"""

CLAIMS: Mapping[str, tuple[Check, ...]] = {
    # -- what is the same
    "statements": (
        Planned("CREATE STREAM s (a INT, b INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON', KEY='a');"),
        Planned("CREATE STREAM s AS SELECT * FROM clicks; CREATE STREAM t AS SELECT * FROM clicks EMIT CHANGES;"),
        TestedIn("tests/conformance/test_corpora.py", "def test_"),
    ),
    "functions": (TestedIn("docs/guide/coming-from-ksqldb.md", f"| functions | all {len(declared())}, "),),
    "numbers": (
        Works(select("2147483647 + id AS n"), ('RESULT 1 {"N": -2147483648}',)),
        Works(select("CAST(1e10 AS STRING) AS d"), ('RESULT 1 {"D": "1.0E10"}',)),
        Works(select("CAST(1.10 AS DECIMAL(5, 2)) + CAST(1.10 AS DECIMAL(5, 2)) AS d"), ('RESULT 1 {"D": 2.20}',)),
    ),
    "results": (
        Works(
            """
            CREATE TABLE counts AS SELECT id, COUNT(*) AS n FROM views GROUP BY id;
            INSERT INTO views (ROWTIME, id, page) VALUES (5, 1, 'a');
            INSERT INTO views VALUES (1, 'b');
            """,
            ('COUNTS 1 {"N": 1} @5', 'COUNTS 1 {"N": 2} @5'),
        ),
    ),
    "topics": (TestedIn("tests/conformance/test_corpora.py", "def test_"),),
    "late rows": (
        Works(
            """
            CREATE TABLE hourly AS SELECT id, COUNT(*) AS n FROM views WINDOW TUMBLING (SIZE 1 HOUR) GROUP BY id;
            INSERT INTO views (ROWTIME, id) VALUES (86399999, 1);
            INSERT INTO views (ROWTIME, id) VALUES (0, 1);
            INSERT INTO views (ROWTIME, id) VALUES (86400000, 1);
            INSERT INTO views (ROWTIME, id) VALUES (0, 1);
            """,
            (
                'HOURLY 1 [82800000, 86400000] {"N": 1} @86399999',
                'HOURLY 1 [0, 3600000] {"N": 1}',
                'HOURLY 1 [86400000, 90000000] {"N": 1} @86400000',
                "dead letter late-record",
            ),
        ),
    ),
    "names": (
        Works(select("1 + 1"), ('RESULT 1 {"KSQL_COL_0": 2}',)),
        Works(
            "CREATE STREAM `lower` AS SELECT id, page AS `page` FROM views; INSERT INTO views VALUES (1, '/');",
            ('lower 1 {"page": "/"}',),
        ),
        Works("CREATE TABLE t AS SELECT id, COUNT(*) FROM views GROUP BY id; EXPLAIN CTAS_T_2;", ()),
    ),
    "REST API": (TestedIn("tests/unit/serve/ksql/test_app.py", "/clusterStatus"),),
    "messages": (Refused("CREATE STREAM s AS SELECT nope FROM clicks;", "SELECT column 'NOPE' cannot be resolved."),),
    # -- what is better
    "`EMIT FINAL` waits for the next record, possibly for ever": (
        Works(
            """
            CREATE TABLE final AS
              SELECT id, COUNT(*) AS n FROM views WINDOW TUMBLING (SIZE 1 MINUTE) GROUP BY id EMIT FINAL;
            INSERT INTO views (ROWTIME, id) VALUES (1000, 1);
            -- time: 60000
            """,
            ('FINAL 1 [0, 60000] {"N": 1} @1000',),
        ),
    ),
    "`EMIT FINAL` can lose a window whose store expired before the result was emitted": (
        TestedIn("tests/conformance/ledger.toml", "headrace emits every window"),
    ),
    "unmatched rows of outer joins wait for the next record": (
        Works(
            """
            CREATE STREAM pairs AS SELECT c.id AS id, c.page AS a, v.page AS b
              FROM clicks c LEFT JOIN views v WITHIN 10 SECONDS GRACE PERIOD 0 SECONDS ON c.id = v.id;
            INSERT INTO clicks (ROWTIME, id, page) VALUES (1000, 1, '/');
            -- time: 20000
            """,
            ('PAIRS 1 {"A": "/", "B": null} @1000',),
        ),
    ),
    "bad records are a line in a log": (
        Works(BAD_RECORD, ("dead letter bad-record",)),
        Works(
            """
            CREATE STREAM numbers (id INT KEY, n INT) WITH (KAFKA_TOPIC='views', FORMAT='JSON');
            CREATE STREAM copy AS SELECT id, 1 / n AS q FROM numbers;
            INSERT INTO numbers VALUES (1, 0);
            """,
            ('COPY 1 {"Q": null}', "dead letter expression-failed"),
        ),
    ),
    "late records are dropped": (
        Works(
            """
            CREATE TABLE t AS SELECT id, COUNT(*) AS n FROM views
              WINDOW TUMBLING (SIZE 1 SECOND, GRACE PERIOD 0 SECONDS) GROUP BY id;
            INSERT INTO views (ROWTIME, id) VALUES (5000, 1);
            INSERT INTO views (ROWTIME, id) VALUES (1000, 1);
            """,
            ('T 1 [5000, 6000] {"N": 1} @5000', "dead letter late-record"),
        ),
    ),
    "topics with different partition counts cannot be joined": (
        Planned(
            """
            CREATE STREAM four (id INT KEY, v INT) WITH (KAFKA_TOPIC='four', FORMAT='JSON', PARTITIONS=4);
            CREATE TABLE two (id INT PRIMARY KEY, w INT) WITH (KAFKA_TOPIC='two', FORMAT='JSON', PARTITIONS=2);
            CREATE STREAM joined AS SELECT four.id, v, w FROM four JOIN two ON four.id = two.id;
            """
        ),
    ),
    "a tombstone needs a producer or a workaround": (
        Works(
            """
            CREATE TABLE copy AS SELECT * FROM users;
            INSERT INTO users VALUES (1, 'ann', 2);
            DELETE FROM users WHERE id = 1;
            """,
            ('COPY 1 {"NAME": "ann", "BOSS": 2}', "COPY 1 null"),
        ),
    ),
    "no UNION": (
        Works(
            """
            CREATE STREAM both AS SELECT id, page FROM clicks UNION ALL SELECT id, page FROM views;
            INSERT INTO clicks (id, page) VALUES (1, 'a');
            INSERT INTO views VALUES (2, 'b');
            """,
            ('BOTH 1 {"PAGE": "a"}', 'BOTH 2 {"PAGE": "b"}'),
        ),
    ),
    "no subqueries": (
        Works(
            """
            CREATE STREAM s AS SELECT id, p FROM (SELECT id, UCASE(page) AS p FROM views) AS inner_query WHERE p = 'A';
            INSERT INTO views VALUES (1, 'a');
            """,
            ('S 1 {"P": "A"}',),
        ),
    ),
    "de-duplication only through a table": (
        Works(
            """
            CREATE STREAM s AS SELECT DISTINCT ON (id) id, page FROM views;
            INSERT INTO views VALUES (1, 'a');
            INSERT INTO views VALUES (1, 'b');
            """,
            ('S 1 {"PAGE": "a"}',),
        ),
        Planned("CREATE STREAM s AS SELECT DISTINCT ON (id) * FROM views WINDOW TUMBLING (SIZE 1 HOUR);"),
    ),
    "no top-N table": (
        Planned(
            "CREATE TABLE n AS SELECT id, COUNT(*) AS n FROM views GROUP BY id;"
            "CREATE TABLE top AS SELECT * FROM n ORDER BY n DESC LIMIT 3;"
        ),
    ),
    "pull queries without ORDER BY, GROUP BY and aggregates": (
        Planned("SELECT boss, COUNT(*) AS n FROM people GROUP BY boss;"),
        Planned("SELECT * FROM people ORDER BY name;"),
        Planned("SELECT COUNT(*) FROM people;"),
    ),
    "results per record or at the end of a window": (
        Planned("CREATE TABLE t AS SELECT id, COUNT(*) AS n FROM views GROUP BY id EMIT CHANGES EVERY 10 SECONDS;"),
        Planned("CREATE TABLE t AS SELECT id, COUNT(*) AS n FROM views GROUP BY id EMIT CHANGES AFTER 10 SECONDS;"),
        TestedIn("docs/concepts/triggers.md", "pane"),
    ),
    "tumbling, hopping and session windows": (
        Planned("CREATE TABLE t AS SELECT id, COUNT(*) AS n FROM views WINDOW SLIDING (SIZE 1 SECOND) GROUP BY id;"),
        Planned(
            "CREATE TABLE t AS SELECT id, COUNT(*) AS n FROM views"
            " WINDOW HOPPING (SIZE 1 SECOND, ADVANCE BY 10 SECONDS) GROUP BY id;"
        ),
        Planned(
            "CREATE TABLE t AS SELECT id, COUNT(*) AS n FROM views"
            " WINDOW TUMBLING (SIZE 1 SECOND, PROCESSING TIME) GROUP BY id;"
        ),
    ),
    "a stream-table join uses the current row of the table": (
        Planned(
            "CREATE STREAM s AS SELECT v.id, name"
            " FROM views v JOIN users FOR SYSTEM_TIME AS OF v.ROWTIME ON v.id = users.id;"
        ),
    ),
    "user-defined functions in Java": (TestedIn("docs/guide/python.md", "## Custom functions"),),
    "the first error of a script": (
        Refused(
            "CREATE STREAM a AS SELECT nope FROM clicks; CREATE STREAM b AS SELECT neither FROM clicks;", "NEITHER"
        ),
    ),
    "a broker, a server and a registry to try anything": (TestedIn("tests/package/test_wheel.py", "pip"),),
    "a test needs a JVM": (TestedIn("docs/guide/testing-queries.md", "$ headrace test orders.ksql cases.json"),),
    # -- what differs
    "a topic that does not exist": (Planned("CREATE STREAM s (a INT) WITH (KAFKA_TOPIC='s', FORMAT='JSON');"),),
    "the scale of a DECIMAL from `GREATEST`, `LEAST`": (
        Works(
            select("GREATEST(CAST(2.5 AS DECIMAL(3, 1)), CAST(1.25 AS DECIMAL(5, 2))) AS d"), ('RESULT 1 {"D": 2.50}',)
        ),
    ),
    "a filter on a table, for a key that never matched": (
        Works(
            "CREATE TABLE some AS SELECT * FROM users WHERE name = 'bob'; INSERT INTO users VALUES (1, 'ann', 2);",
            (),
        ),
    ),
    "DECIMAL": (
        Planned("CREATE STREAM s (a DECIMAL(76, 2)) WITH (KAFKA_TOPIC='s', FORMAT='JSON');"),
        Refused("CREATE STREAM s (a DECIMAL(77, 2)) WITH (KAFKA_TOPIC='s', FORMAT='JSON');", "bad-type"),
    ),
    "processing log": (TestedIn("docs/guide/ksql.md", "dead letter  expression-failed"),),
    "`auto.offset.reset` of persistent queries": (
        Works("INSERT INTO views VALUES (1, '/'); CREATE STREAM s AS SELECT * FROM views;", ()),
        TestedIn("docs/guide/running.md", "## Where a query begins to read"),
    ),
    "`RETENTION_MS`, `CLEANUP_POLICY`, `REPLICAS`, schema ids and names in WITH": (
        Planned(
            "CREATE STREAM s (a INT) WITH"
            " (KAFKA_TOPIC='s', FORMAT='JSON', PARTITIONS=1, REPLICAS=3, RETENTION_MS=1000, CLEANUP_POLICY='delete');"
        ),
    ),
    # -- what is refused
    "`CREATE SOURCE CONNECTOR`, `CREATE SINK CONNECTOR`, `DESCRIBE CONNECTOR`": (
        Refused("CREATE SOURCE CONNECTOR c WITH ('connector.class'='Jdbc');", "unsupported"),
        Refused("CREATE SINK CONNECTOR c WITH ('connector.class'='Jdbc');", "unsupported"),
        Refused("DESCRIBE CONNECTOR c;", "unsupported"),
    ),
    "CREATE without columns, to take them from the schema registry": (
        Refused("CREATE STREAM s WITH (KAFKA_TOPIC='s', VALUE_FORMAT='AVRO');", "does not define any columns"),
    ),
    "`ASSERT SCHEMA`": (Works("ASSERT SCHEMA SUBJECT 'orders-value';", ("refused unsupported",)),),
    "ASSERT statements sent to a server": (TestedIn("tests/docs/test_coming_from_ksqldb.py", "test_a_server_refuses"),),
    "UDFs in a jar": (Refused("CREATE STREAM s AS SELECT my_udf(page) FROM clicks;", "unknown-function"),),
    "`SPOOL`": (Refused("SPOOL 'out.txt';", "syntax-error"),),
    "other commands of ksqlDB's shell": (Refused("HISTORY;", "syntax-error"), Refused("VERSION;", "syntax-error")),
    "self joins": (
        Refused("CREATE STREAM s AS SELECT * FROM views a JOIN views b WITHIN 1 HOUR ON a.id = b.id;", "self joins"),
    ),
    "table-stream joins; RIGHT and FULL stream-table joins": (
        Refused("CREATE STREAM s AS SELECT * FROM users u JOIN views v ON u.id = v.id;", "table-stream joins"),
        Refused("CREATE STREAM s AS SELECT * FROM views v RIGHT JOIN users u ON v.id = u.id;", "right-outer join"),
        Refused("CREATE STREAM s AS SELECT * FROM views v FULL JOIN users u ON v.id = u.id;", "full-outer join"),
        Planned("CREATE TABLE t AS SELECT * FROM users u RIGHT JOIN cities c ON u.id = c.id;"),
        Planned("CREATE TABLE t AS SELECT ROWKEY, u.name FROM users u FULL JOIN cities c ON u.id = c.id;"),
        Planned("CREATE STREAM s AS SELECT * FROM views v RIGHT JOIN clicks c WITHIN 1 HOUR ON v.id = c.id;"),
        Planned(
            "CREATE STREAM s AS SELECT ROWKEY, v.page FROM views v FULL JOIN clicks c WITHIN 1 HOUR ON v.id = c.id;"
        ),
    ),
    "joins on several conditions": (
        Refused(
            "CREATE STREAM s AS SELECT * FROM views v JOIN users u ON v.id = u.id AND v.page = u.name;",
            "multiple conditions",
        ),
    ),
    "persistent queries over windowed tables": (
        Refused("CREATE TABLE t AS SELECT * FROM windowed;", "persistent queries on windowed tables"),
        Planned("SELECT * FROM windowed WHERE id = 1; SELECT * FROM windowed EMIT CHANGES;"),
        Planned(
            "CREATE STREAM s (id INT KEY, n BIGINT)"
            " WITH (KAFKA_TOPIC='WINDOWED', FORMAT='JSON', WINDOW_TYPE='TUMBLING', WINDOW_SIZE='1 MINUTE');"
        ),
    ),
    "pull queries with JOIN, WINDOW or PARTITION BY": (
        Refused("SELECT * FROM users u JOIN cities c ON u.id = c.id;", "don't support JOIN"),
        Refused("SELECT id, COUNT(*) FROM clicks WINDOW TUMBLING (SIZE 1 HOUR) GROUP BY id;", "don't support WINDOW"),
        Refused("SELECT * FROM clicks PARTITION BY page;", "don't support PARTITION BY"),
    ),
    # -- settings
    "`auto.offset.reset`": (TestedIn("docs/guide/running.md", "auto.offset.reset"),),
    "`ksql.persistence.default.format.key`": (
        Planned(
            "CREATE STREAM s (a ARRAY<INT> KEY) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');",
            {"ksql.persistence.default.format.key": "JSON"},
        ),
        Refused("CREATE STREAM s (a ARRAY<INT> KEY) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');", "KAFKA"),
    ),
    "`ksql.persistence.default.format.value`": (
        Planned("CREATE STREAM s (a INT) WITH (KAFKA_TOPIC='s');", {"ksql.persistence.default.format.value": "JSON"}),
        Refused("CREATE STREAM s (a INT) WITH (KAFKA_TOPIC='s');", "missing the 'VALUE_FORMAT'"),
    ),
    "`ksql.persistence.wrap.single.values`": (
        Works(select("page"), ('RESULT 1 {"PAGE": "/"}',)),
        Works(
            "CREATE STREAM bare AS SELECT id, page FROM views; INSERT INTO views VALUES (1, '/');",
            ('BARE 1 "/"',),
            {"ksql.persistence.wrap.single.values": False},
        ),
    ),
    "`ksql.output.topic.name.prefix`": (
        Works(
            "CREATE STREAM s AS SELECT * FROM views; ASSERT TOPIC 'pre-S';",
            (),
            {"ksql.output.topic.name.prefix": "pre-"},
        ),
    ),
    "`ksql.functions.collect_list.limit`, `ksql.functions.collect_set.limit`": tuple(
        Works(
            f"CREATE TABLE t AS SELECT 1 AS one, {name}(id) AS ids FROM views GROUP BY 1;"
            "INSERT INTO views (id) VALUES (1); INSERT INTO views (id) VALUES (2);",
            ('T 1 {"IDS": [1]}', 'T 1 {"IDS": [1]}'),
            {f"ksql.functions.{name}.limit": 1},
        )
        for name in ("collect_list", "collect_set")
    ),
    "`ksql.fail.on.deserialization.error`": (
        Works(BAD_RECORD, ("dead letter bad-record",)),
        Works(
            BAD_RECORD, ("refused query-failed", "dead letter bad-record"), {"ksql.fail.on.deserialization.error": True}
        ),
    ),
    "`ksql.timestamp.throw.on.invalid`": (
        Works(BAD_TIME, ("dead letter bad-time",)),
        Works(BAD_TIME, ("refused query-failed", "dead letter bad-time"), {"ksql.timestamp.throw.on.invalid": True}),
    ),
    "`ksql.new.query.planner.enabled`": (
        Refused("CREATE STREAM s AS SELECT page FROM clicks;", "Key missing from projection"),
        Planned("CREATE STREAM s AS SELECT page FROM clicks;", {"ksql.new.query.planner.enabled": True}),
    ),
    "`ksql.create.or.replace.enabled`": (
        Planned("CREATE OR REPLACE STREAM s AS SELECT * FROM clicks;"),
        Refused(
            "CREATE OR REPLACE STREAM s AS SELECT * FROM clicks;", "disabled", {"ksql.create.or.replace.enabled": False}
        ),
    ),
    "`cache.max.bytes.buffering`, `statestore.cache.max.bytes`": (
        *(
            Emits(every_change=True, properties={f"{prefix}{name}": "0"})
            for name in ("cache.max.bytes.buffering", "statestore.cache.max.bytes")
            for prefix in ("", "ksql.streams.")
        ),
        Emits(every_change=False, properties={}),
    ),
    "`ksql.pull.queries.enable`, `ksql.query.pull.stream.enabled`, `ksql.query.pull.table.scan.enabled`,"
    " `ksql.query.pull.limit.clause.enabled`": tuple(
        check
        for setting, statement in {
            "ksql.pull.queries.enable": "SELECT * FROM people WHERE id = 1;",
            "ksql.query.pull.stream.enabled": "SELECT * FROM clicks;",
            "ksql.query.pull.table.scan.enabled": "SELECT * FROM people;",
            "ksql.query.pull.limit.clause.enabled": "SELECT * FROM people LIMIT 1;",
        }.items()
        for check in (Planned(statement), Refused(statement, "bad-query", {setting: False}))
    ),
    "`ksql.query.pull.range.scan.enabled`": (
        Planned("SELECT * FROM people WHERE id > 1;", NO_SCANS),
        Refused(
            "SELECT * FROM people WHERE id > 1;", "bad-query", NO_SCANS | {"ksql.query.pull.range.scan.enabled": False}
        ),
    ),
}

CHECKS = [pytest.param(check, id=f"{claim}-{i}") for claim, checks in CLAIMS.items() for i, check in enumerate(checks)]


def claims() -> Iterator[str]:
    """The first cells of the tables, and the items of the list below "ksqlDB refuses the following too"."""
    for text in sections(PAGE).values():
        yield from (row[0] for row in table_rows(text))
    for item in re.findall(r"^- (.+)$", sections(PAGE)["What is refused"], re.M):
        yield item.split(" (")[0]


def test_every_claim_has_a_check_and_every_check_a_claim() -> None:
    assert sorted(claims()) == sorted(CLAIMS)


@pytest.mark.parametrize("check", CHECKS)
def test_a_claim_holds(check: Check) -> None:
    check.check()


def test_a_server_refuses_assert_statements(tmp_path: Path) -> None:
    settings = Settings.of(storage_data=tmp_path)
    with EmbeddedLog(tmp_path, settings) as log, closing(Node(log, settings, isolation=Nowhere())) as node:
        node.execute(SOURCES.splitlines()[1])
        with pytest.raises(Unsupported):
            node.execute("ASSERT VALUES clicks (id, page) VALUES (1, '/');")
