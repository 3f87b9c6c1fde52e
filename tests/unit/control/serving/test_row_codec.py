"""Rows that statements insert and print, in topics with a schema and in raw ones."""

from __future__ import annotations

from datetime import timedelta

import pytest

from headrace.clock import ManualClock
from headrace.contracts import TopicSpec
from headrace.control.program import Program
from headrace.errors import SchemaMismatch, Unsupported
from headrace.lang.listing import Listing
from headrace.log.embedded import EmbeddedLog
from headrace.schema import Schema
from headrace.settings import Settings

SCRIPT = """
CREATE STREAM clicks (id INT KEY, page STRING) WITH (kafka_topic='clicks', format='JSON');
CREATE STREAM copy AS SELECT * FROM clicks;
PAUSE CSAS_COPY_0;
CREATE TABLE users (id INT PRIMARY KEY, name STRING) WITH (kafka_topic='users', format='JSON');
INSERT INTO copy VALUES (1, '/');
INSERT INTO copy (id) VALUES (2);
INSERT INTO users (ROWTIME, id, name) VALUES (5, 7, 'ann');
DELETE FROM users WHERE id = 7;
PRINT 'COPY' FROM BEGINNING;
PRINT 'users' FROM BEGINNING;
ASSERT VALUES copy (id, page) VALUES (1, '/');
ASSERT VALUES copy (id, page) VALUES (2, NULL);
"""
USERS = TopicSpec(schema=Schema.parse("id int key, name string"))


def run(log: EmbeddedLog, sink: str, script: str = SCRIPT) -> list[Listing]:
    told: list[Listing] = []
    settings = Settings.of(storage_data=log.folder, storage_maintenance_interval=timedelta(0), query_sink_topics=sink)
    with Program(log, settings, name=sink, clock=ManualClock(), on_answer=told.append) as program:
        program.execute(script)
        assert program.interpreter.assertions == script.count("ASSERT VALUES")
    return told


def test_a_topic_with_a_schema_takes_and_prints_the_rows_of_a_raw_topic(log: EmbeddedLog) -> None:
    wanted = run(log, "raw")
    for name in ("COPY", "users"):
        assert log.topic(name).schema.is_raw
        log.delete_topic(name)
    log.create_topic("users", USERS)
    assert run(log, "typed") == wanted
    assert str(log.topic("COPY").schema) == "ID int key, PAGE string"
    assert log.read("users", 0, 0).rows.select(["id", "name", "$deleted"]).to_pylist() == [
        {"id": 7, "name": "ann", "$deleted": None},
        {"id": 7, "name": None, "$deleted": True},
    ]


def test_undeclared_columns_are_not_printed(log: EmbeddedLog) -> None:
    log.create_topic("users", USERS)
    run(log, "raw", "PRINT 'users';")
    run(log, "raw", SCRIPT.partition("PRINT")[0])
    with pytest.raises(Unsupported, match="has a schema"):
        run(log, "raw", "PRINT 'users';")


def test_a_row_with_columns_of_another_type_is_refused(log: EmbeddedLog) -> None:
    log.create_topic("users", TopicSpec(schema=Schema.parse("id int key, name int")))
    with pytest.raises(SchemaMismatch, match='column "NAME" is string, the topic has int'):
        run(log, "raw", SCRIPT.partition("DELETE")[0])
