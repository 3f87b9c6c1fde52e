"""Results of LIST, DESCRIBE, EXPLAIN and PRINT in the in-memory world."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headrace.errors import UnknownProcess, UnknownTopic
from headrace.lang.ksql.grammar.keywords import RESERVED
from headrace.lang.ksql.properties import TOPIC_PREFIX
from headrace.lang.listing import Listing
from headrace.lang.listing_text import listing_text
from headrace.testing import World, run_cases, run_script

MADE = """
CREATE STREAM clicks (id INT KEY, `From` STRUCT<city STRING, `FROM` INT>, page STRING, h BYTES HEADER('x'))
  WITH (KAFKA_TOPIC='clicks', VALUE_FORMAT='JSON', PARTITIONS=3);
CREATE TABLE counts AS
  SELECT page, COUNT(*) AS n
  FROM clicks WINDOW TUMBLING (SIZE 1 MINUTE) GROUP BY page;
"""
COUNTING = (
    "CREATE TABLE counts AS SELECT page, COUNT(*) AS n FROM clicks WINDOW TUMBLING (SIZE 1 MINUTE) GROUP BY page;"
)


def asked(*statements: str) -> Listing:
    world = World()
    world.execute(MADE + "".join(statements))
    return world.answers[-1]


def lines(*statements: str) -> list[str]:
    return listing_text(asked(*statements), RESERVED).splitlines()


def rows(*statements: str) -> list[dict[str, Any]]:
    return asked(*statements).tables[0].documents()


@pytest.mark.parametrize("id", ["7", "'7'", "'no number'"])
def test_no_process_runs_in_memory(id: str) -> None:
    assert rows("SHOW PROCESSES;") == []
    with pytest.raises(UnknownProcess, match="SHOW PROCESSES lists"):
        asked(f"KILL {id};")


def test_the_words_of_processes_are_names_elsewhere() -> None:
    columns = rows(
        "CREATE STREAM kill (processes INT KEY, kill INT) WITH (KAFKA_TOPIC='k', FORMAT='JSON'); DESCRIBE kill;"
    )
    assert [one["name"] for one in columns] == ["PROCESSES", "KILL"]


def test_describe() -> None:
    assert lines("DESCRIBE clicks;") == [
        "Name                 : CLICKS",
        " Field  | Type",
        "-------------------------------------------------------",
        " ID     | INTEGER  (key)",
        " `From` | STRUCT<CITY VARCHAR(STRING), `FROM` INTEGER>",
        " PAGE   | VARCHAR(STRING)",
        " H      | BYTES  (header('x'))",
        "-------------------------------------------------------",
        "",
        "For runtime statistics and query details run: DESCRIBE <Stream,Table> EXTENDED;",
    ]


def test_describe_extended() -> None:
    told = lines("DESCRIBE counts EXTENDED;")
    assert told[:8] == [
        "Name                 : COUNTS",
        "Type                 : TABLE",
        "Window type          : TUMBLING",
        "Timestamp field      : Not set - using <ROWTIME>",
        "Key format           : KAFKA",
        "Value format         : JSON",
        "Kafka topic          : COUNTS (partitions: 1, replication: 1)",
        f"Statement            : {COUNTING}",
    ]
    assert " PAGE  | VARCHAR(STRING)  (primary key) (Window type: TUMBLING)" in told
    assert "Queries that write to this TABLE" in told
    assert "Queries that read from this TABLE" not in told


def test_a_description_has_the_json_of_ksqldb() -> None:
    entity = asked("DESCRIBE clicks;").entity()
    assert (entity["@type"], entity["statementText"]) == ("sourceDescription", "DESCRIBE clicks;")
    source = entity["sourceDescription"]
    wanted = {"name": "CLICKS", "type": "STREAM", "keyFormat": "KAFKA", "valueFormat": "JSON", "topic": "clicks"}
    assert {name: source[name] for name in wanted} == wanted
    assert (source["partitions"], source["extended"], source["windowType"]) == (3, False, None)
    assert [(f["name"], f["schema"]["type"], f["type"]) for f in source["fields"]] == [
        ("ID", "INTEGER", "KEY"),
        ("From", "STRUCT", None),
        ("PAGE", "STRING", None),
        ("H", "BYTES", "HEADER"),
    ]
    assert [query["id"] for query in source["readQueries"]] == ["CTAS_COUNTS_0"]


def test_list_sources() -> None:
    stream = {"name": "CLICKS", "topic": "clicks", "keyFormat": "KAFKA", "valueFormat": "JSON", "isWindowed": False}
    assert rows("LIST STREAMS;") == [{**stream, "type": "STREAM"}]
    assert [(row["name"], row["isWindowed"]) for row in rows("SHOW TABLES;")] == [("COUNTS", True)]
    assert lines("LIST STREAMS;")[0] == " Stream Name | Kafka Topic | Key Format | Value Format | Windowed"
    entity = asked("SHOW STREAMS EXTENDED;").entity()
    assert [part["name"] for part in entity["sourceDescriptions"]] == ["CLICKS"]


def test_list_topics() -> None:
    world = World()
    world.execute(MADE)
    world.topics.make("__schemas")
    world.execute("LIST TOPICS; LIST ALL TOPICS; LIST TOPICS EXTENDED;")
    few, every, extended = (answer.tables[0].documents() for answer in world.answers)
    assert few == [{"name": "COUNTS", "replicaInfo": [1]}, {"name": "clicks", "replicaInfo": [1, 1, 1]}]
    assert [row["name"] for row in every] == ["COUNTS", "__schemas", "clicks"]
    assert extended[0] == few[0] | {"consumerCount": 0, "consumerGroupCount": 0}


def test_list_queries() -> None:
    (row,) = rows("PAUSE ctas_counts_0; LIST QUERIES;")
    assert row == {
        "id": "CTAS_COUNTS_0",
        "queryType": "PERSISTENT",
        "sinks": ["COUNTS"],
        "sinkKafkaTopics": ["COUNTS"],
        "queryString": COUNTING,
        "state": "PAUSED",
        "statusCount": {"PAUSED": 1},
    }
    assert rows("TERMINATE ctas_counts_0; LIST QUERIES;") == []
    (part,) = asked("LIST QUERIES EXTENDED;").entity()["queryDescriptions"]
    assert (part["id"], part["state"]) == ("CTAS_COUNTS_0", "RUNNING")


def test_explain() -> None:
    entity = asked("EXPLAIN CTAS_COUNTS_0;").entity()["queryDescription"]
    assert (entity["sources"], entity["sinks"], entity["state"]) == (["CLICKS"], ["COUNTS"], "RUNNING")
    assert entity["executionPlan"].startswith("sink COUNTS -> table (PAGE string key, N bigint)")
    told = lines("EXPLAIN SELECT id, page FROM clicks EMIT CHANGES;")
    assert told[:3] == [
        "Query Type           : PUSH",
        "SQL                  : SELECT id, page FROM clicks EMIT CHANGES;",
        "Sources              : CLICKS",
    ]
    assert "Execution plan" in told


def test_types_variables_and_settings() -> None:
    assert lines("CREATE TYPE a AS STRUCT<`b` INT>; LIST TYPES;")[2] == " A         | STRUCT<`b` INTEGER>"
    assert rows("DEFINE x = 'y'; SHOW VARIABLES;") == [{"name": "x", "value": "y"}]
    values = {
        row["name"]: (row["level"], row["value"]) for row in rows(f"SET '{TOPIC_PREFIX}' = 'b'; LIST PROPERTIES;")
    }
    assert values[TOPIC_PREFIX] == ("SESSION", "b")
    assert values["ksql.persistence.wrap.single.values"] == ("", "true")


def test_functions() -> None:
    listed = {row["name"]: row["type"] for row in rows("LIST FUNCTIONS;")}
    assert (listed["LEN"], listed["COUNT"], listed["EXPLODE"]) == ("SCALAR", "AGGREGATE", "TABLE")
    entity = asked("DESCRIBE FUNCTION substring;").entity()
    assert (entity["name"], entity["type"]) == ("SUBSTRING", "SCALAR")
    assert [argument["name"] for argument in entity["functions"][1]["arguments"]] == ["text", "position", "length"]
    assert any(
        line.startswith(" SUBSTRING(text STRING, position INTEGER) ") for line in lines("DESCRIBE FUNCTION SUBSTRING;")
    )


@pytest.mark.parametrize("statement", ["SHOW CONNECTORS;", "SHOW SOURCE CONNECTORS;", "SHOW CONNECTOR PLUGINS;"])
def test_connector_listings_are_empty(statement: str) -> None:
    assert rows(statement) == []


def test_every_result_has_a_json_form() -> None:
    world = World()
    world.execute(
        MADE + "LIST FUNCTIONS; DESCRIBE STREAMS EXTENDED; SHOW PROPERTIES; EXPLAIN ctas_counts_0; PRINT COUNTS;"
    )
    assert all(json.dumps(answer.entity()) for answer in world.answers)


# -- PRINT ----------------------------------------------------------------------------------------------------------


def test_print_decodes_records_in_the_format_of_the_source() -> None:
    world = World()
    world.execute(MADE)
    world.produce("clicks", (7).to_bytes(4), b'{"PAGE":"/"}', timestamp=61_000)
    world.produce("clicks", b"odd", None, timestamp=62_000)
    world.execute("PRINT 'clicks' FROM BEGINNING; PRINT COUNTS;")
    clicks, counts = (listing_text(answer).splitlines() for answer in world.answers)
    assert clicks == [
        "Key format: KAFKA_INT",
        "Value format: JSON",
        'rowtime: 1970/01/01 00:01:01.000 Z, key: 7, value: {"PAGE":"/"}, partition: 0',
        "rowtime: 1970/01/01 00:01:02.000 Z, key: odd, value: <null>, partition: 0",
    ]
    assert counts == [
        "Key format: TUMBLING(KAFKA_STRING)",
        "Value format: JSON",
        'rowtime: 1970/01/01 00:01:01.000 Z, key: [/@60000/120000], value: {"N":1}, partition: 0',
    ]


@pytest.mark.parametrize(
    ("formats", "shown"),
    [
        ("FORMAT='JSON'", 'key: {"A":1,"B":"x"}, value: {"N":2.50}'),
        ("FORMAT='DELIMITED'", "key: 1,x, value: 2.50"),
        ("FORMAT='AVRO'", 'key: {"A":1,"B":"x"}, value: {"N":2.50}'),
        ("FORMAT='PROTOBUF'", 'key: {"A":1,"B":"x"}, value: {"N":2.50}'),
        ("FORMAT='JSON', WRAP_SINGLE_VALUE=FALSE", 'key: {"A":1,"B":"x"}, value: 2.50'),
    ],
)
def test_print_decodes_every_format(formats: str, shown: str) -> None:
    world = World()
    world.execute(f"CREATE STREAM s (a INT KEY, b STRING KEY, n DECIMAL(4, 2)) WITH (KAFKA_TOPIC='s', {formats});")
    world.execute("INSERT INTO s VALUES (1, 'x', 2.50); PRINT s;")
    assert shown in listing_text(world.answers[-1])


def test_print_of_an_unknown_topic_is_refused() -> None:
    with pytest.raises(UnknownTopic) as caught:
        World().execute(MADE + "PRINT 'nope';", "a.ksql")
    assert (caught.value.where, caught.value.fix) == ("a.ksql:7:1", "topics: COUNTS, clicks")


# -- reports --------------------------------------------------------------------------------------------------------


def test_reports_contain_the_results() -> None:
    report = run_script(MADE + "LIST TABLES;\nASSERT TOPIC clicks;")
    assert str(report).splitlines()[0] == "LIST TABLES;"
    assert str(report).splitlines()[-1] == "1 passed, 0 failed"
    failed = run_script(MADE + "LIST TABLES; ASSERT TOPIC nope;")
    assert (failed.failed, len(failed.answers)) == (1, 1)


def test_a_listing_in_a_script_with_cases_is_executed_once() -> None:
    report = run_cases(MADE + "LIST TABLES;", [{"name": "a"}, {"name": "b"}])
    assert (report.cases, report.failed, len(report.answers)) == (2, 0, 1)
