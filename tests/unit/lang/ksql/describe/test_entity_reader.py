"""A result read from JSON is displayed as it would be locally."""

from __future__ import annotations

import json

import pytest

from headrace.lang.ksql.describe.entity_reader import read_entity
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


def test_an_unknown_kind_of_result_is_displayed() -> None:
    assert listing_text(read_entity({"@type": "news", "statementText": "x", "a": 1, "b": ["c"], "warnings": []})) == (
        "a                    : 1\nb                    : c"
    )
