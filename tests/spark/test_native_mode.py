"""Native mode: Spark's own streaming operators compared with the chain in memory, for every supported plan.

Input comes in pieces, with the query stopped and started again in between, and is cut into small batches. A stream is
compared record by record, a table by the last record of each key, dead letters by their codes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadMaxRows

from headrace.contracts import HEADERS_TYPE, Append, TopicSpec, dead_letter_topic
from headrace.engine.execution_mode import NATIVE, RECORD
from headrace.engine.io.embedded_source import open_view
from headrace.engine.log_adapter import log_adapter_for
from headrace.engine.native.compiler import compile_native_query
from headrace.engine.native.embedded_source import NativeReader
from headrace.engine.native.task_spec import NativeTaskSpec, native_task_spec
from headrace.engine.planning.native_support import choose_native
from headrace.engine.query import ensure_topic
from headrace.errors import SchemaMismatch
from headrace.log.embedded import EmbeddedLog
from headrace.plan.chain.records import RawRecord
from headrace.plan.nodes import Query
from headrace.schema import Schema
from headrace.settings import Settings
from tests import memory_and_spark
from tests.spark.conftest import drain
from tests.spark.native_runner import (
    SALES,
    SCHEMA,
    SETTINGS,
    Row,
    as_records,
    assert_same,
    halves,
    in_memory,
    in_order,
    last,
    natively,
    planned,
    raw_append,
    sales,
    typed_batch,
)
from tests.spark.sample_plans import SAMPLE_PLANS, clicks

pytestmark = pytest.mark.spark

TYPED = {
    "filter": "CREATE STREAM o AS SELECT * FROM sales WHERE amount > 2 AND item <> 'i1';",
    "select": "CREATE STREAM o AS SELECT shop, amount + 1 AS more, at->x AS x, tags, LEN(item) AS up FROM sales;",
    "rekey": "CREATE STREAM o AS SELECT * FROM sales PARTITION BY item;",
    "explode": "CREATE STREAM o AS SELECT shop, EXPLODE(tags) AS tag FROM sales;",
    "keyed": "CREATE TABLE o AS SELECT item, COUNT(*) AS n, COUNT(price) AS p, SUM(amount) AS s, MIN(amount) AS a,"
    " MAX(shop) AS b, LATEST_BY_OFFSET(price) AS l, EARLIEST_BY_OFFSET(tags) AS e FROM sales GROUP BY item;",
    "filtered": "CREATE TABLE o AS SELECT item, COUNT(*) AS n FROM sales WHERE amount > 0 GROUP BY item;",
    "two": "CREATE TABLE o AS SELECT shop, item, COUNT(*) AS n FROM sales GROUP BY shop, item;",
    "added": "CREATE TABLE o AS SELECT item, SUM(amount) AS s, MIN(shop) AS a, MAX(amount) AS b, COUNT(tags) AS t"
    " FROM sales WHERE amount <> 3 OR shop IS NULL GROUP BY item;",
    "partly": "CREATE STREAM o AS SELECT shop, item, price FROM sales WHERE amount > 2 AND LEN(item) = 2;",
    "tumbling": "CREATE TABLE o AS SELECT shop, COUNT(*) AS n, SUM(amount) AS s, WINDOWSTART AS w FROM sales"
    " WINDOW TUMBLING (SIZE 3 SECONDS, GRACE PERIOD 1 SECOND) GROUP BY shop;",
    "windows of some": "CREATE TABLE o AS SELECT item, COUNT(*) AS n, MAX(amount) AS m FROM sales"
    " WINDOW TUMBLING (SIZE 3 SECONDS, GRACE PERIOD 1 SECOND) WHERE amount > 2 GROUP BY item;",
    "hopping of some": "CREATE TABLE o AS SELECT item, COUNT(*) AS n FROM sales"
    " WINDOW HOPPING (SIZE 5 SECONDS, ADVANCE BY 2 SECONDS, GRACE PERIOD 2 SECONDS) WHERE amount > 2 GROUP BY item;",
    "hopping": "CREATE TABLE o AS SELECT item, COUNT(*) AS n, MAX(amount) AS m FROM sales"
    " WINDOW HOPPING (SIZE 5 SECONDS, ADVANCE BY 2 SECONDS, GRACE PERIOD 2 SECONDS) GROUP BY item;",
}


@pytest.mark.parametrize("name", TYPED)
def test_a_topic_with_a_schema_gives_the_results_of_memory(
    name: str, spark: SparkSession, log: EmbeddedLog, tmp_path: Path
) -> None:
    query, partitions = planned(SALES + TYPED[name]), 3 if name in ("tumbling", "keyed") else 1
    topic = log.create_topic("sales", TopicSpec(partitions=partitions, schema=Schema.parse(SCHEMA)))
    assert choose_native(query, {"sales": topic}).execution_mode == NATIVE
    rows = sales(7, 28)
    pieces = [[Append("sales", typed_batch(part)) for part in (p[:6], p[6:])] for p in halves(rows)]
    found = natively(spark, log, query, pieces, tmp_path / "q")
    assert_same(query, found, in_memory(query, in_order(log, rows, partitions)))
    assert sum(report.records for report in found.reports) == len(rows)


# -- raw topics -----------------------------------------------------------------------------------------------------

RAW = (
    *(sample for sample in SAMPLE_PLANS if sample.name in ("filter", "rekey", "explode", "count")),
    clicks("select", "CREATE STREAM o AS SELECT id, page, spent + 1 AS more, LEN(page) AS up FROM clicks;"),
)


@pytest.mark.parametrize("sample", RAW, ids=[sample.name for sample in RAW])
def test_a_raw_topic_gives_the_results_of_memory(
    sample: Any, spark: SparkSession, log: EmbeddedLog, tmp_path: Path
) -> None:
    topic = log.create_topic("clicks", TopicSpec())
    assert choose_native(sample.query, {"clicks": topic}).execution_mode == NATIVE
    pieces = [[raw_append(records)] for records in halves(sample.records)]
    found = natively(spark, log, sample.query, pieces, tmp_path / "q")
    assert_same(sample.query, found, in_memory(sample.query, sample.records))
    assert found.dead["bad-record"] == 1


def test_delimited_values_and_kafka_keys_are_read(spark: SparkSession, log: EmbeddedLog, tmp_path: Path) -> None:
    query = planned(
        "CREATE STREAM d (id BIGINT KEY, name STRING, n INT) WITH (kafka_topic='d', key_format='KAFKA',"
        " value_format='DELIMITED', partitions=1);"
        "CREATE TABLE o WITH (format='JSON') AS SELECT id, COUNT(*) AS c, SUM(n) AS s FROM d GROUP BY id;"
    )
    ids = [n.to_bytes(8) for n in (1, 2, 1, 1)]
    values = (b"a,2147483647", b"b,2", b"only one", b"c,2")
    records = [("d", RawRecord(key, value, at)) for at, (key, value) in enumerate(zip(ids, values, strict=True))]
    log.create_topic("d", TopicSpec())
    found = natively(spark, log, query, [[raw_append(records)]], tmp_path / "q")
    assert_same(query, found, in_memory(query, records))


def test_a_null_key_of_several_columns_gives_the_results_of_memory(
    spark: SparkSession, log: EmbeddedLog, tmp_path: Path
) -> None:
    query = planned(
        "CREATE STREAM t (a INT KEY, b STRING KEY, v INT) WITH (kafka_topic='t', format='JSON', partitions=1);"
        "CREATE STREAM o AS SELECT * FROM t WHERE v > 0;"
    )
    keys = (b'{"A": 1, "B": null}', None, b'{"A": null, "B": null}', b"[]")
    records = [("t", RawRecord(key, b'{"V": 1}', at)) for at, key in enumerate(keys)]
    log.create_topic("t", TopicSpec())
    found = natively(spark, log, query, [[raw_append(records)]], tmp_path / "q")
    assert_same(query, found, in_memory(query, records))


# -- lateness -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [1, 2])
def test_spark_drops_no_row_that_is_on_time_and_removes_expired_state(
    seed: int, spark: SparkSession, log: EmbeddedLog, tmp_path: Path
) -> None:
    query = planned(SALES + TYPED[("tumbling", "hopping")[seed % 2]])
    log.create_topic("sales", TopicSpec(schema=Schema.parse(SCHEMA)))
    rows, progress = sales(seed, 150, spread=1_500), list[dict]()
    for topic in ("O", dead_letter_topic("O")):
        ensure_topic(log, topic)
    for part in halves(rows):
        log.append([Append("sales", typed_batch(part))])
        flow = compile_native_query(
            spark, log, query, log_adapter_for(log, Settings.of(query_max_batch_rows=30)), tmp_path / "q", "run"
        )
        progress += drain(flow.rows, flow.write, tmp_path / "q" / "spark", flow.mode)
    wanted = in_memory(query, as_records(rows))
    assert last(memory_and_spark.written(log, "O")) == last(wanted.written)
    assert log.bounds(dead_letter_topic("O"))[0].end == wanted.dead.total()
    assert wanted.dead["late-record"] > 10
    operators = [batch["stateOperators"][0] for batch in progress]
    assert sum(operator["numRowsDroppedByWatermark"] for operator in operators) == 0
    assert sum(operator["numRowsRemoved"] for operator in operators) > 10


ROWS = st.lists(
    st.tuples(st.integers(0, 9_000), st.sampled_from(["i0", "i1", "i1", None]), st.sampled_from([True] * 9 + [False])),
    min_size=1,
    max_size=40,
)


@settings(max_examples=30, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(made=ROWS, name=st.sampled_from(["tumbling", "hopping"]), cut=st.integers(1, 40), partitions=st.integers(1, 3))
def test_the_reader_drops_exactly_the_late_rows(
    made: list[tuple[int, str | None, bool]], name: str, cut: int, partitions: int, tmp_path_factory: Any
) -> None:
    """Without Spark: however the log is cut, rows that come out count in the windows in which they count in memory."""
    query = planned(SALES + TYPED[name].replace("shop, COUNT", "item, COUNT").replace("BY shop", "BY item"))
    rows: list[Row] = [({**BLANK, "item": item, "shop": item} if there else None, at) for at, item, there in made]
    with EmbeddedLog(tmp_path_factory.mktemp("log"), Settings.of(storage_maintenance_interval=timedelta(0))) as log:
        spec = TopicSpec(partitions=partitions, schema=Schema.parse(SCHEMA))
        log.create_topic("sales", spec)
        for start in range(0, len(rows), 7):
            log.append([Append("sales", typed_batch(rows[start : start + 7]))])
        wanted = in_memory(query, in_order(log, rows, partitions))
        assert counted(log, query, cut) == {key: orjson.loads(v or b"")["N"] for key, v, _ in wanted.written}


BLANK = {"shop": "s", "amount": 1, "price": None, "tags": None, "at": None}


def counted(log: EmbeddedLog, query: Query, cut: int) -> dict[bytes, int]:
    """What the reader gives, put into windows by hand."""
    work, found = native_task_spec(query, ""), Counter[bytes]()
    assert work.hops is not None
    reader = NativeReader(
        {"folder": str(log.folder.resolve()), "topics": '["sales"]'}, [log.topic("sales")], None, work
    )
    reader.prepareForTriggerAvailableNow()
    start, end = reader.initialOffset(), None
    while start != end:
        start = end or start
        end = reader.latestOffset(start, ReadMaxRows(cut))
        for part in reader.partitions(start, end) if end != start else ():
            for row in (row for batch in reader.read(part) for row in batch.to_pylist()):
                if work.partial is not None:
                    found[key_of(row["g0"], row["time"] // work.hops.size * work.hops.size)] += row["p0"]
                elif row["valued"] and row[work.groups[0]] is not None:
                    found.update(windows_of(row, work))
    reader.view.close()
    open_view.cache_clear()
    return dict(found)


def windows_of(row: Mapping[str, Any], work: NativeTaskSpec) -> list[bytes]:
    """The keys of the windows of a row that were open."""
    hops, time = work.hops, row["time"]
    assert hops is not None
    starts = range(time // hops.advance * hops.advance, max(time - hops.size, -1), -hops.advance)
    closed = row.get("now", -(1 << 60)) - hops.grace
    return [key_of(row[work.groups[0]], start) for start in starts if start + hops.size > closed]


def key_of(group: str, start: int) -> bytes:
    return orjson.dumps(group) + start.to_bytes(8)


# -- exactly once, sinks, refusals ----------------------------------------------------------------------------------


def test_a_repeated_batch_changes_nothing(spark: SparkSession, log: EmbeddedLog, tmp_path: Path) -> None:
    query = planned(SALES + TYPED["tumbling"])
    log.create_topic("sales", TopicSpec(schema=Schema.parse(SCHEMA)))
    rows = sales(3, 40)
    pieces = [[Append("sales", typed_batch(part))] for part in halves(rows)]
    found = natively(
        spark, log, query, [*pieces, []], tmp_path / "q", Settings.of(query_max_batch_rows=15), forget=True
    )
    assert_same(query, found, in_memory(query, as_records(rows)))


def test_a_sink_with_a_schema_gets_columns(spark: SparkSession, log: EmbeddedLog, tmp_path: Path) -> None:
    query = planned(SALES + TYPED["tumbling"])
    log.create_topic("sales", TopicSpec(schema=Schema.parse(SCHEMA)))
    columns = "shop string key, windowstart bigint key, n bigint, s bigint, w bigint"
    log.create_topic("O", TopicSpec(schema=Schema.parse(columns)))
    rows = sales(5, 30)
    ensure_topic(log, dead_letter_topic("O"))
    log.append([Append("sales", typed_batch(rows))])
    flow = compile_native_query(spark, log, query, log_adapter_for(log, SETTINGS), tmp_path / "q", "run")
    drain(flow.rows, flow.write, tmp_path / "q" / "spark", flow.mode)
    found = {
        (row["shop"], row["windowstart"]): (row["n"], row["s"], row["w"], row["$timestamp"])
        for row in log.read("O", 0, 0, max_records=10_000).rows.to_pylist()
    }
    wanted = {}
    for key, value, time in in_memory(query, as_records(rows)).written:
        row = orjson.loads(value or b"")
        window = int.from_bytes((key or b"")[-8:])
        wanted[orjson.loads((key or b"")[:-8]), window] = (row["N"], row["S"], row["W"], time)
    assert found == wanted


def test_a_stream_between_typed_topics_gives_the_results_of_memory(
    spark: SparkSession, log: EmbeddedLog, tmp_path: Path
) -> None:
    query = planned(SALES + TYPED["filter"])
    spec = TopicSpec(schema=Schema.parse(SCHEMA))
    for topic in ("sales", "O"):
        log.create_topic(topic, spec)
    ensure_topic(log, dead_letter_topic("O"))
    rows = sales(5, 30)
    batch = typed_batch(rows)
    headers = pa.array([[{"name": "n", "value": bytes([i])}] for i in range(len(rows))], HEADERS_TYPE)
    log.append([Append("sales", batch.append_column("$headers", headers))])
    flow = compile_native_query(spark, log, query, log_adapter_for(log, Settings()), tmp_path / "q", "run")
    drain(flow.rows, flow.write, tmp_path / "q" / "spark", flow.mode)
    names = [*spec.schema.names, "$timestamp", "$headers"]
    given, found = (log.read(t, 0, 0, max_records=100).rows.select(names).to_pylist() for t in ("sales", "O"))
    fitting = [row for row in given if (row["amount"] or 0) > 2 and row["item"] not in ("i1", None)]
    assert found == fitting
    assert len(found) > 5


def test_declared_columns_must_match_the_topic(log: EmbeddedLog, spark: SparkSession, tmp_path: Path) -> None:
    query = planned(SALES + TYPED["filter"])
    log.create_topic("sales", TopicSpec(schema=Schema.parse("shop string key, ITEM int, amount bigint, price float")))
    for topic in ("O", dead_letter_topic("O")):
        ensure_topic(log, topic)
    with pytest.raises(SchemaMismatch) as error:
        compile_native_query(spark, log, query, log_adapter_for(log, SETTINGS), tmp_path / "q", "run")
    assert 'column "ITEM" is string, the topic has int' in error.value.what
    assert 'column "TAGS" does not exist in the topic' in error.value.what
    assert "PRICE" not in error.value.what


REFUSED = {
    "CREATE STREAM o AS SELECT shop, amount / 0 AS a FROM sales;": "may fail",
    "CREATE TABLE o AS SELECT UCASE(item) AS i, COUNT(*) AS n FROM sales GROUP BY UCASE(item);": "computes its groups",
    "CREATE TABLE o AS SELECT item, COLLECT_LIST(shop) AS l FROM sales GROUP BY item;": "COLLECT_LIST",
    "CREATE TABLE o AS SELECT item, SUM(price) AS l FROM sales GROUP BY item;": "SUM",
    "CREATE TABLE o AS SELECT item, COUNT(*) AS n FROM sales GROUP BY item HAVING COUNT(*) > 2;": "had fitted before",
    "CREATE TABLE o AS SELECT item, COUNT(*) AS n FROM sales WINDOW TUMBLING (SIZE 1 SECOND) WHERE LEN(item) > 2"
    " GROUP BY item;": "pass a filter",
    "CREATE TABLE o AS SELECT item, COUNT(*) AS n FROM sales WINDOW TUMBLING (SIZE 1 SECOND, RETENTION 2 DAYS)"
    " GROUP BY item EMIT FINAL;": "retention",
    "CREATE TABLE o AS SELECT item, COUNT(*) AS n FROM sales WINDOW SESSION (1 SECOND) GROUP BY item;": "session",
}


@pytest.mark.parametrize("statement", REFUSED)
def test_explain_says_why_a_plan_runs_in_record_mode(statement: str, log: EmbeddedLog) -> None:
    topic = log.create_topic("sales", TopicSpec(schema=Schema.parse(SCHEMA)))
    choice = choose_native(planned(SALES + statement), {"sales": topic})
    assert choice.execution_mode == RECORD
    assert REFUSED[statement] in str(choice)


def test_windows_over_a_raw_topic_run_in_record_mode(log: EmbeddedLog) -> None:
    topic = log.create_topic("sales", TopicSpec())
    assert choose_native(planned(SALES + TYPED["tumbling"]), {"sales": topic}).execution_mode == RECORD
