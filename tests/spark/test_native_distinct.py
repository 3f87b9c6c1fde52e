"""DISTINCT in native mode and in memory: the first of equal rows, in key order, in any batches."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from headrace.contracts import HEADERS_TYPE, Append, TopicSpec, dead_letter_topic
from headrace.engine.execution_mode import NATIVE, RECORD
from headrace.engine.log_adapter import log_adapter_for
from headrace.engine.native.compiler import compile_native_query
from headrace.engine.planning.mode import choose_execution
from headrace.engine.planning.native_support import choose_native
from headrace.engine.query import ensure_topic
from headrace.log.embedded import EmbeddedLog
from headrace.plan.nodes import Query
from headrace.schema import Schema
from headrace.settings import Settings
from tests import memory_and_spark
from tests.spark.conftest import drain
from tests.spark.native_runner import (
    SALES,
    SCHEMA,
    as_records,
    assert_same,
    halves,
    in_memory,
    in_order,
    natively,
    planned,
    raw_append,
    sales,
    typed_batch,
)
from tests.spark.sample_plans import clicks

pytestmark = pytest.mark.spark

WINDOW = "WINDOW TUMBLING (SIZE 3 SECONDS, GRACE PERIOD 1 SECOND)"
STATEMENTS = {
    "rows": "SELECT DISTINCT shop, item, amount > 2 AS much FROM sales WHERE LEN(item) = 2",
    "on": "SELECT DISTINCT ON (item, amount) * FROM sales",
    "inside": "SELECT item, EXPLODE(tags) AS tag FROM (SELECT DISTINCT ON (amount) shop, item, tags FROM sales)"
    " WHERE shop <> 'rome' PARTITION BY item",
    "windows": f"SELECT DISTINCT ON (item) shop, amount, price FROM sales {WINDOW} WHERE amount <> 3",
    "windows of a new key": f"SELECT DISTINCT item, shop, amount FROM sales {WINDOW} PARTITION BY item",
}
TYPED = TopicSpec(schema=Schema.parse(SCHEMA))


def query_of(select: str) -> Query:
    return planned(f"{SALES}CREATE STREAM o AS {select};")


@pytest.mark.parametrize("name", STATEMENTS)
def test_a_topic_with_a_schema_gives_the_results_of_memory(
    name: str, spark: SparkSession, log: EmbeddedLog, tmp_path: Path
) -> None:
    query = query_of(STATEMENTS[name])
    topic = log.create_topic("sales", TopicSpec(partitions=3, schema=Schema.parse(SCHEMA)))
    assert choose_native(query, {"sales": topic}).execution_mode == NATIVE
    rows = sales(11, 60)
    pieces = [[Append("sales", typed_batch(part)) for part in (p[:6], p[6:])] for p in halves(rows)]
    found = natively(spark, log, query, pieces, tmp_path / "q", Settings.of(query_max_batch_rows=17), forget=True)
    wanted = in_memory(query, in_order(log, rows, 3))
    assert_same(query, found, wanted)
    assert 3 < len(wanted.written) < 55


def test_a_raw_topic_gives_the_results_of_memory(spark: SparkSession, log: EmbeddedLog, tmp_path: Path) -> None:
    sample = clicks("raw", "CREATE STREAM o AS SELECT DISTINCT ON (page) id, spent FROM clicks;")
    assert choose_native(sample.query, {"clicks": log.create_topic("clicks", TopicSpec())}).execution_mode == NATIVE
    pieces = [[raw_append(part)] for part in halves(sample.records)]
    found = natively(spark, log, sample.query, pieces, tmp_path / "q")
    assert_same(sample.query, found, in_memory(sample.query, sample.records))
    assert (found.dead["bad-record"], found.dead["null-value"]) == (1, 1)


def test_spark_drops_no_row_that_is_on_time_and_removes_closed_windows(
    spark: SparkSession, log: EmbeddedLog, tmp_path: Path
) -> None:
    query, rows, progress = query_of(STATEMENTS["windows"]), sales(2, 150, spread=1_500), list[dict]()
    log.create_topic("sales", TYPED)
    for topic in ("O", dead_letter_topic("O")):
        ensure_topic(log, topic)
    for part in halves(rows):
        log.append([Append("sales", typed_batch(part))])
        flow = compile_native_query(
            spark, log, query, log_adapter_for(log, Settings.of(query_max_batch_rows=30)), tmp_path / "q", "run"
        )
        progress += drain(flow.rows, flow.write, tmp_path / "q" / "spark", flow.mode)
    wanted = in_memory(query, as_records(rows))
    assert memory_and_spark.by_key(memory_and_spark.written(log, "O")) == memory_and_spark.by_key(wanted.written)
    assert log.bounds(dead_letter_topic("O"))[0].end == wanted.dead.total()
    assert wanted.dead["late-record"] > 10
    operators = [batch["stateOperators"][0] for batch in progress]
    assert sum(operator["numRowsDroppedByWatermark"] for operator in operators) == 0
    assert sum(operator["numRowsRemoved"] for operator in operators) > 10


def test_rows_keep_their_headers_and_order(spark: SparkSession, log: EmbeddedLog, tmp_path: Path) -> None:
    query = query_of("SELECT DISTINCT ON (amount) * FROM sales")
    for topic in ("sales", "O"):
        log.create_topic(topic, TYPED)
    ensure_topic(log, dead_letter_topic("O"))
    rows = [({**dict.fromkeys(TYPED.schema.names), "shop": "oslo", "amount": n * 7 % 31}, n) for n in range(60)]
    headers = pa.array([[{"name": "n", "value": bytes([n])}] for n in range(60)], HEADERS_TYPE)
    log.append([Append("sales", typed_batch(rows).append_column("$headers", headers))])
    flow = compile_native_query(
        spark, log, query, log_adapter_for(log, Settings.of(query_max_batch_rows=25)), tmp_path / "q", "run"
    )
    drain(flow.rows, flow.write, tmp_path / "q" / "spark", flow.mode)
    names = [*TYPED.schema.names, "$timestamp", "$headers"]
    given, found = (log.read(t, 0, 0, max_records=100).rows.select(names).to_pylist() for t in ("sales", "O"))
    assert found == given[:31]


# -- what is left to the record way ---------------------------------------------------------------------------------

REFUSED = {
    "SELECT DISTINCT ON (price) * FROM sales": "other equals",
    "SELECT DISTINCT shop, EXPLODE(tags) AS tag FROM sales": "one place in the order",
    f"SELECT DISTINCT * FROM sales {WINDOW} WHERE LEN(item) = 2": "other equals",
    f"SELECT DISTINCT ON (item) * FROM sales {WINDOW} WHERE LEN(item) = 2": "pass a filter",
    "SELECT DISTINCT ON (1 / amount) * FROM sales": "DISTINCT computes what only Python can",
    "SELECT DISTINCT ON (item) shop, item FROM (SELECT DISTINCT ON (amount) * FROM sales)": "compared again",
}


@pytest.mark.parametrize("select", REFUSED)
def test_a_refused_plan_has_a_reason(select: str, log: EmbeddedLog) -> None:
    choice = choose_native(query_of(select), {"sales": log.create_topic("sales", TYPED)})
    assert choice.execution_mode == RECORD
    assert REFUSED[select] in str(choice)


def test_distinct_runs_in_record_mode_on_kafka_and_over_raw_windows(log: EmbeddedLog) -> None:
    topic = log.create_topic("sales", TopicSpec())
    on_kafka = choose_native(query_of(STATEMENTS["on"]), {"sales": topic}, kafka=True)
    assert on_kafka.reasons == ("DISTINCT asks for the order of arrival, which on Kafka no single column tells",)
    assert choose_native(query_of(STATEMENTS["windows"]), {"sales": topic}).execution_mode == RECORD


def test_native_mode_is_chosen_if_record_mode_would_need_one_key_group(log: EmbeddedLog) -> None:
    topics = {"sales": log.create_topic("sales", TYPED), "O": log.create_topic("O", TYPED)}

    def way(select: str, asked: str, begun: str | None = None) -> str:
        return choose_execution(
            query_of(select), topics, Settings.of(query_execution_mode=asked), embedded=True, started_in=begun
        ).execution_mode

    anywhere, by_key = STATEMENTS["on"], "SELECT DISTINCT ON (shop, item) * FROM sales"
    assert [way(anywhere, asked) for asked in ("auto", "record", "native")] == [NATIVE, RECORD, NATIVE]
    assert [way(by_key, asked) for asked in ("auto", "record", "native")] == [RECORD, RECORD, NATIVE]
    assert way(by_key, "auto", begun=NATIVE) == NATIVE
