"""Statements not covered by the public cases: refused ones, and accepted ones with their results."""

from __future__ import annotations

import pytest

from headrace.errors import BadLiteral, HeadraceError, StatementError
from headrace.formats.java_numbers import double_text
from headrace.testing.json_payloads import read_json
from headrace.testing.world import World

SOURCES = """
CREATE STREAM s (k STRING KEY, a INT, b INT, t STRING, d DATE) WITH (kafka_topic='s', value_format='JSON');
CREATE STREAM w (k STRING KEY, a INT) WITH (kafka_topic='w', value_format='JSON', window_type='SESSION');
CREATE STREAM x (k STRING KEY, a INT, b INT, t STRING, d DATE) WITH (kafka_topic='x', value_format='JSON');
CREATE SOURCE STREAM ro (k STRING KEY, a INT) WITH (kafka_topic='ro', value_format='JSON');
CREATE SOURCE TABLE rt (k STRING PRIMARY KEY, a INT) WITH (kafka_topic='rt', value_format='JSON');
"""


def world(text: str) -> World:
    made = World()
    made.execute(SOURCES + text)
    return made


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("CREATE STREAM o AS SELECT k, NULL AS n FROM s;", "Can't infer a type of null"),
        ("CREATE STREAM o AS SELECT * FROM s WHERE NULL;", "Should evaluate to boolean"),
        ("CREATE STREAM o AS SELECT * FROM s WHERE t LIKE 'a' ESCAPE '!!';", "single character escape"),
        ("CREATE STREAM o AS SELECT * FROM s WHERE ROWTIME > 'soon';", "invalid input syntax for type TIMESTAMP"),
        ("CREATE STREAM o AS SELECT * FROM s WHERE ROWTIME > '2018' + '-01';", "Cannot compare"),
        ("CREATE STREAM o AS SELECT * FROM w PARTITION BY a;", "repartitioning of windowed sources"),
        ("INSERT INTO s (k, ROWOFFSET) VALUES ('a', 1);", "Inserting into column `ROWOFFSET` is not allowed"),
        ("DROP STREAM ro DELETE TOPIC;", "Cannot delete topic for read-only source: RO"),
        ("DROP TABLE rt DELETE TOPIC;", "Cannot delete topic for read-only source: RT"),
        (
            "CREATE STREAM other (a INT) WITH (kafka_topic='s', format='JSON'); DROP STREAM s DELETE TOPIC;",
            "Cannot delete topic s. Another stream or table has this topic.",
        ),
        (
            "CREATE STREAM o WITH (timestamp='t', timestamp_format='{bad') AS SELECT * FROM s;",
            "Invalid datetime format for config:TIMESTAMP_FORMAT",
        ),
        (
            "CREATE TABLE o AS SELECT k, COUNT(*) FROM s WINDOW SESSION (0 SECONDS) GROUP BY k;",
            "gap of a session window must be greater",
        ),
        (
            "CREATE TABLE o AS SELECT k, COUNT(*) FROM s"
            " WINDOW HOPPING (SIZE 1 SECOND, ADVANCE BY 0 SECONDS) GROUP BY k;",
            "ADVANCE BY must be greater",
        ),
    ],
)
def test_a_statement_is_refused(statement: str, said: str) -> None:
    with pytest.raises(StatementError, match=said) as caught:
        world(statement)
    assert caught.value.span is not None


def test_an_invalid_date_literal_fails_for_each_row() -> None:
    w = world("CREATE STREAM o AS SELECT k, d = 'soon' AS same, a FROM s;")
    w.produce("s", b"k", b'{"A": 1, "D": 2}')
    assert [read_json(entry.value or b"") for entry in w.topics["O"]] == [{"SAME": None, "A": 1}]
    assert len(w.problems) == 1


def test_a_full_join_is_joined_further_on_the_key_of_one_side() -> None:
    tables = "".join(
        f"CREATE TABLE t{n} (id INT PRIMARY KEY, v INT) WITH (kafka_topic='t{n}', value_format='JSON');"
        for n in (1, 2, 3)
    )
    w = world(
        tables + "CREATE TABLE o AS SELECT ROWKEY AS id, t1.v AS a, t2.v AS b, t3.v AS c FROM t1"
        " FULL OUTER JOIN t2 ON t1.id = t2.id FULL OUTER JOIN t3 ON t1.id = t3.id;"
    )
    for n in (2, 3, 1):
        w.produce(f"t{n}", (7).to_bytes(4), b'{"V": %d}' % n)
    rows = [read_json(entry.value or b"") for entry in w.topics["O"]]
    assert rows[0] == {"A": None, "B": 2, "C": None}
    assert rows[-1] == {"A": 1, "B": 2, "C": 3}


def test_the_timestamp_column_may_be_quoted() -> None:
    w = world("CREATE STREAM o WITH (timestamp='`At`') AS SELECT k, CAST(a AS BIGINT) AS `At` FROM s;")
    w.produce("s", b"k", b'{"A": 5}', timestamp=1)
    assert [entry.timestamp for entry in w.topics["O"]] == [5]


@pytest.mark.parametrize(("number", "text"), [(5e-324, "4.9E-324"), (2e-323, "2.0E-323"), (1e22, "1.0E22")])
def test_a_double_is_formatted_as_in_java(number: float, text: str) -> None:
    assert double_text(number) == text


COUNTED = "SELECT k, COUNT(a) AS n FROM s {} GROUP BY k;"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (COUNTED.format(""), COUNTED.format("WHERE a > 0")),
        (COUNTED.format("WHERE a > 0"), COUNTED.format("")),
        (COUNTED.format(""), "SELECT k, COUNT(a) AS n, AS_VALUE(k) AS copy FROM s GROUP BY k;"),
    ],
)
def test_replacing_may_change_stateless_steps(old: str, new: str) -> None:
    world(f"CREATE TABLE o AS {old} CREATE OR REPLACE TABLE o AS {new}")


@pytest.mark.parametrize(
    ("kind", "old", "new", "said"),
    [
        ("TABLE", COUNTED.format(""), COUNTED.format("WHERE b > 0"), "matching nonAggregateColumns"),
        (
            "TABLE",
            COUNTED.format(""),
            COUNTED.format("").replace("s ", "x "),
            "StreamSource must have matching topicName",
        ),
        (
            "TABLE",
            "SELECT k, MIN(a) AS n FROM s GROUP BY k;",
            "SELECT k, MAX(a) AS n FROM s GROUP BY k;",
            "aggregationF",
        ),
        ("STREAM", "SELECT * FROM s;", "SELECT * FROM x;", "StreamSource must have matching topicName"),
    ],
)
def test_replacing_may_not_change_stateful_steps(kind: str, old: str, new: str, said: str) -> None:
    with pytest.raises(HeadraceError, match=said):
        world(f"CREATE {kind} o AS {old} CREATE OR REPLACE {kind} o AS {new}")


def test_replacing_can_be_disabled() -> None:
    with pytest.raises(HeadraceError, match="disabled by config"):
        world("SET 'ksql.create.or.replace.enabled' = 'false'; CREATE OR REPLACE STREAM o AS SELECT * FROM s;")


def test_an_invalid_literal_has_a_position() -> None:
    with pytest.raises(BadLiteral) as caught:
        world("CREATE STREAM o AS SELECT * FROM s WHERE ROWTIME BETWEEN 'now' AND 'then';")
    assert caught.value.span is not None
