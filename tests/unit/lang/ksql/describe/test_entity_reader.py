"""A result read from JSON is displayed as it would be locally."""

from __future__ import annotations

import json

import pytest

from headrace.lang.contract import ProcessState, ProcessStatus
from headrace.lang.ksql.describe.entity_reader import read_entity
from headrace.lang.ksql.describe.processes import describe_processes
from headrace.lang.ksql.grammar.keywords import RESERVED
from headrace.lang.listing import Listing
from headrace.lang.listing_text import listing_text, table_cells
from headrace.testing import World
from tests.unit.testing.test_listings import MADE, asked

MORE = """
CREATE TYPE address AS STRUCT<`street` STRING, zip DECIMAL(4, 2), tags MAP<STRING, ARRAY<INT>>, at TIMESTAMP>;
CREATE STREAM people (id INT KEY, home address) WITH (KAFKA_TOPIC='people', FORMAT='JSON', PARTITIONS=1);
INSERT INTO people (id) VALUES (1);
CREATE NOTIFIER ops TYPE WEBHOOK WITH (url='https://example.com/', secret='${env:X}');
CREATE ALERT many ON people WHEN id > 3 FOR 1 HOUR NOTIFY ops;
DEFINE x = 'y';
"""


def through(listing: Listing) -> Listing:
    return read_entity(json.loads(json.dumps(listing.entity())))


@pytest.mark.parametrize(
    "statement",
    [
        "LIST STREAMS;",
        "LIST TABLES;",
        "DESCRIBE people;",
        "DESCRIBE people EXTENDED;",
        "DESCRIBE counts EXTENDED;",
        "DESCRIBE TABLES EXTENDED;",
        "LIST TOPICS;",
        "LIST TOPICS EXTENDED;",
        "LIST QUERIES;",
        "EXPLAIN SELECT id FROM clicks EMIT CHANGES;",
        "LIST FUNCTIONS;",
        "DESCRIBE FUNCTION substring;",
        "DESCRIBE FUNCTION concat;",
        "LIST TYPES;",
        "LIST PROPERTIES;",
        "SHOW VARIABLES;",
        "LIST ALERTS;",
        "DESCRIBE ALERT many;",
        "LIST NOTIFIERS;",
        "SHOW PROCESSES;",
        "SHOW CONNECTORS;",
        "SHOW CONNECTOR PLUGINS;",
        "PRINT people;",
        "DROP TABLE counts; LIST TABLES;",
    ],
)
def test_a_result_read_from_json_is_displayed_unchanged(statement: str) -> None:
    listing = asked(MORE, statement)
    assert listing_text(through(listing), RESERVED) == listing_text(listing, RESERVED)
    assert list(table_cells(through(listing))) == list(table_cells(listing))


def test_results_that_json_represents_partially() -> None:
    world = World()
    world.execute(MADE + "DESCRIBE clicks; EXPLAIN ctas_counts_0;")
    source, query = (listing_text(through(answer)) for answer in world.answers)
    assert "H      | BYTES  (header)" in source  # its name
    assert "PAGE  | VARCHAR(STRING)  (key)" in query  # whether it is a stream's or a table's


def test_the_status_of_a_statement_is_displayed() -> None:
    told = {"@type": "currentStatus", "statementText": "x", "commandStatus": {"message": "Stream created"}}
    assert listing_text(read_entity(told)) == "Stream created"
    assert listing_text(read_entity({**told, "warnings": [{"message": "but"}]})) == "Stream created\nbut"


def test_processes_are_displayed_with_shortened_statements() -> None:
    pull = ProcessStatus(
        7, "pull", "ann", ProcessState.RUNNING, "SELECT 1\n" * 20, 0, 2.25, 3, 400, 4711, 1.5, 50 << 20
    )
    push = ProcessStatus(8, "push", "bob", ProcessState.WAITING, "SELECT * FROM s EMIT CHANGES;", 0, 100.0, 0, 0)
    listing = describe_processes([pull, push])
    assert listing_text(listing) == listing_text(through(listing))
    assert listing_text(listing).splitlines()[:4] == [
        " ID | User | Kind | Status  | Seconds | CPU   | Memory | Statement",
        "-" * 118,
        f" 7  | ann  | PULL | RUNNING | 2.2     | 1.5 s | 50 MB  | {'SELECT 1 ' * 6}SEL...",
        " 8  | bob  | PUSH | WAITING | 100.0   |       |        | SELECT * FROM s EMIT CHANGES;",
    ]
    assert listing.entity()["processes"][0] == {
        "id": 7,
        "user": "ann",
        "kind": "PULL",
        "state": "RUNNING",
        "seconds": 2.25,
        "cpuSeconds": 1.5,
        "memory": 50 << 20,
        "rows": 3,
        "bytes": 400,
        "queryString": pull.text,
    }


def test_an_unknown_kind_of_result_is_displayed() -> None:
    assert listing_text(read_entity({"@type": "news", "statementText": "x", "a": 1, "b": ["c"], "warnings": []})) == (
        "a                    : 1\nb                    : c"
    )
