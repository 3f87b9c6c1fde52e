"""Trials of apps and KSQL: rows in, rows out, with a manual clock."""

from __future__ import annotations

import datetime as dt

import pytest

import headrace as hr
from headrace.errors import BadRecord, BadTestCases

KSQL = """
CREATE STREAM clicks (user STRING KEY, page STRING, at TIMESTAMP) WITH (kafka_topic='clicks', format='json');
CREATE TABLE users (user STRING PRIMARY KEY, `homeCity` STRING) WITH (kafka_topic='users', format='json');
CREATE TABLE per_page AS SELECT page, COUNT(*) AS n FROM clicks
  WINDOW TUMBLING (SIZE 1 MINUTE, GRACE PERIOD 0 SECONDS) GROUP BY page EMIT FINAL;
CREATE TABLE cities AS SELECT `homeCity`, COUNT(*) AS n FROM users GROUP BY `homeCity`;
"""
NOON = dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC)


def test_a_script_runs_with_a_manual_clock() -> None:
    with hr.testing.run(KSQL, now=NOON) as trial:
        trial.send("clicks", [{"user": "ann", "page": "/"}, {"USER": "bob", "page": "/"}])
        assert trial.rows("per_page") == []
        trial.advance(seconds=60)
        start = trial.now - 60_000
        assert trial.rows("per_page") == [{"page": "/", "windowstart": start, "windowend": trial.now, "n": 2}]


def test_a_table_returns_its_current_rows() -> None:
    with hr.testing.run(KSQL) as trial:
        trial.send("users", [{"user": "ann", "homeCity": "Bern"}, {"user": "bob", "homeCity": "Bern"}])
        trial.send("users", [{"user": "ann", "homeCity": "Basel"}])
        assert trial.rows("cities") == [{"homeCity": "Bern", "n": 1}, {"homeCity": "Basel", "n": 1}]
        trial.delete("users", user="bob")
        assert trial.changes("cities")[-1] == ({"homeCity": "Bern"}, {"homeCity": "Bern", "n": 0})
        assert trial.changes("users")[-1] == ({"user": "bob"}, None)
        assert trial.rows("users") == [{"user": "ann", "homeCity": "Basel"}]


def test_values_are_python_objects() -> None:
    with hr.testing.run(KSQL) as trial:
        trial.send("clicks", [{"user": "ann", "at": NOON}], at=NOON)
        assert trial.rows("clicks") == [{"user": "ann", "page": None, "at": NOON}]
        assert trial.world.topics["clicks"][0].timestamp == NOON.timestamp() * 1000


def test_unknown_names_are_refused() -> None:
    with hr.testing.run(KSQL) as trial:
        with pytest.raises(BadRecord, match='no column "pgae"'):
            trial.send("clicks", [{"pgae": "/"}])
        with pytest.raises(BadTestCases, match='stream or table "clisk" does not exist'):
            trial.rows("clisk")


def test_keys_and_values_have_their_own_formats() -> None:
    app = hr.App()
    plain = app.stream("plain", "k STRING KEY, v BIGINT", key_format="kafka")
    assert plain.ksql.endswith("WITH (KAFKA_TOPIC = 'plain', VALUE_FORMAT = 'json', KEY_FORMAT = 'kafka');")
    with hr.testing.run(app) as trial:
        trial.send("plain", [{"k": "a", "v": 1}])
        assert [(entry.key, entry.value) for entry in trial.world.topics["plain"]] == [(b"a", b'{"V":1}')]


def test_properties_of_an_app_are_applied() -> None:
    app = hr.App("strict", {"ksql.fail.on.deserialization.error": "true"})
    assert app.text == "SET 'ksql.fail.on.deserialization.error' = 'true';"
    with hr.testing.run(app) as trial:
        assert trial.world.planner.properties == {"ksql.fail.on.deserialization.error": "true"}
