"""Lines of JSON become the same records whether they are decoded in bulk or one by one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.clock import ManualClock
from headrace.contracts import TopicSpec
from headrace.control.statements import bulk_inserts
from headrace.control.statements.inserts import RowInserter
from headrace.log.embedded import EmbeddedLog
from headrace.plan.catalog import Catalog
from tests.unit.views.pull_queries import planned

NOW = 1_000
SOURCES = {
    "stream": "STREAM s (id STRING KEY, a BIGINT, b DOUBLE, c STRING, d BOOLEAN) WITH (kafka_topic='t', format='JSON')",
    "table": "TABLE s (id INT PRIMARY KEY, c STRING) WITH (kafka_topic='t', key_format='KAFKA', value_format='JSON')",
    "bare": "STREAM s (b DOUBLE) WITH (kafka_topic='t', value_format='JSON', wrap_single_value=false)",
    "keys": "STREAM s (k1 INT KEY, k2 STRING KEY, a INT) WITH (kafka_topic='t', format='JSON')",
}
texts = st.text(st.characters(codec="utf-8"), max_size=5)
values = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**64), 2**64), st.integers(-9, 9), st.floats(), texts, st.just([1]),
    st.sampled_from(["1", "1.5", "true", ""]),
)  # fmt: skip
names = st.sampled_from(["ID", "id", "K1", "K2", "A", "B", "C", "c", "D", "ROWTIME", "other"])
documents = st.one_of(
    st.dictionaries(names, values, max_size=6).map(json.dumps), st.sampled_from(["null", "[]", "{", '{"A": 1}{}'])
)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedLog]:
    with EmbeddedLog(tmp_path_factory.mktemp("log")) as opened:
        opened.create_topic("t", TopicSpec())
        yield opened


def catalog_of(text: str) -> Catalog:
    catalog = Catalog()
    planned(text, catalog)
    return catalog


def inlet(log: EmbeddedLog, kind: str, *, together: bool) -> RowInserter:
    made = RowInserter(log, catalog_of(f"CREATE {SOURCES[kind]};"), "S", ManualClock(NOW))
    if not together:
        made._bulk = None
    return made


def taken(log: EmbeddedLog, into: RowInserter, lines: list[bytes]) -> tuple[dict[int, str], list[Any]]:
    """What was refused, and what is new in the topic."""
    before = log.bounds("t")[0].end
    refused = {number: str(error) for number, error in into.insert(lines).items()}
    rows = log.read("t", 0, before, max_records=10_000).rows if log.bounds("t")[0].end > before else None
    return refused, [] if rows is None else rows.select(["key", "value", "$timestamp"]).to_pylist()


@pytest.mark.parametrize("kind", SOURCES)
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(given_lines=st.lists(documents, min_size=1, max_size=6))
def test_bulk_and_single_inserts_append_the_same_records(
    log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch, kind: str, given_lines: list[str]
) -> None:
    monkeypatch.setattr(bulk_inserts, "MIN_BULK_LINES", 1)
    lines = [line.encode() for line in given_lines]
    assert taken(log, inlet(log, kind, together=True), lines) == taken(log, inlet(log, kind, together=False), lines)


@pytest.mark.parametrize("kind", SOURCES)
def test_plain_rows_are_decoded_in_bulk(log: EmbeddedLog, kind: str) -> None:
    into = inlet(log, kind, together=True)
    values = {"ID": 1 if kind == "table" else "x", "K1": 1, "K2": "y", "A": 5, "B": 0.5, "C": "c", "D": True}
    row = {column.name: values[column.name] for column in into.source.relation.columns}
    lines = [json.dumps(row).encode()] * bulk_inserts.MIN_BULK_LINES
    assert into._bulk is not None
    rows = into._bulk.rows(lines, NOW)
    assert rows is not None
    assert rows.num_rows == bulk_inserts.MIN_BULK_LINES


def test_types_that_need_conversion_are_decoded_one_by_one(log: EmbeddedLog) -> None:
    text = "CREATE STREAM s (id INT KEY, at TIMESTAMP) WITH (kafka_topic='t', format='JSON');"
    assert RowInserter(log, catalog_of(text), "S", ManualClock(NOW))._bulk is None
