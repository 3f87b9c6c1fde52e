"""Spark's own operators give the results of the chain: single plans, and random statements."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from headrace.contracts import Topic, TopicSpec
from headrace.engine.execution_mode import RECORD
from headrace.engine.planning.native_support import choose_native
from headrace.engine.verify.position import OffsetRange
from headrace.log.embedded import EmbeddedLog
from headrace.plan.chain.records import RawRecord
from tests.spark.native_batch import BoundedQuery, comparable, runs_natively, written_natively
from tests.spark.native_runner import raw_append
from tests.spark.sample_plans import RECORD_MODE_PLANS, SAMPLE_PLANS, SamplePlan

pytestmark = pytest.mark.spark

NATIVE_PLANS = {"distinct-on", "case", "like-in-parts", "filter", "rekey", "explode", "count", "tumbling", "hopping"}
REPORTING_PLANS = {"select", "distinct", "texts-that-try", "rekey-many"}
"""Plans with the same results natively; record mode runs them, because they may have to report a record."""


def natively(spark: SparkSession, log: EmbeddedLog, samples: Sequence[SamplePlan]) -> dict[str, list[RawRecord]]:
    """What Spark's own operators write, by sample."""
    queries = {}
    for sample in samples:
        topics = {sample.query.sink.topic, *(topic for topic, _ in sample.records)}
        for topic in topics - {topic.name for topic in log.topics()}:
            log.create_topic(topic)
        after = log.head(topics)
        for _, run in groupby(sample.records, lambda record: record[0]):
            log.append([raw_append(list(run))])
        read = [OffsetRange(source.topic, 0, after, log.head(topics)) for source in sample.query.sources]
        queries[sample.name] = BoundedQuery(sample.query, [read])
    return written_natively(spark, log, queries)


def test_native_plans_give_the_results_of_the_chain(spark: SparkSession, log: EmbeddedLog) -> None:
    samples = [sample for sample in SAMPLE_PLANS if sample.name in NATIVE_PLANS | REPORTING_PLANS]
    results = natively(spark, log, samples)
    for sample in samples:
        written = comparable(sample.query, results[sample.name])
        assert written == comparable(sample.query, sample.in_memory), sample.name


def test_which_plans_run_natively(log: EmbeddedLog) -> None:
    for topic in ("clicks", "users", "cities", "O"):
        log.create_topic(topic)
    assert {sample.name for sample in SAMPLE_PLANS if runs_natively(log, sample.query)} == NATIVE_PLANS


@pytest.mark.parametrize("sample", RECORD_MODE_PLANS, ids=[sample.name for sample in RECORD_MODE_PLANS])
def test_plans_left_to_the_chain_have_a_reason(sample: SamplePlan) -> None:
    topics = {source.topic: Topic(source.topic, TopicSpec(), 0) for source in sample.query.sources}
    choice = choose_native(sample.query, topics)
    assert choice.execution_mode == RECORD
    assert choice.reasons


# -- statements made at random --------------------------------------------------------------------------------------

COLUMNS = {
    "INT": ("i", "j"),
    "BIGINT": ("b", "c"),
    "DOUBLE": ("d", "e"),
    "DECIMAL": ("m", "n"),
    "STRING": ("s", "t"),
    "BOOLEAN": ("p", "q"),
}
STREAM = (
    "CREATE STREAM r (k INT KEY, i INT, j INT, b BIGINT, c BIGINT, d DOUBLE, e DOUBLE,"
    " m DECIMAL(6, 2), n DECIMAL(9, 4), s STRING, t STRING, p BOOLEAN, q BOOLEAN)"
    " WITH (kafka_topic='r', format='JSON', partitions=1);"
)
NUMBERS = ("INT", "BIGINT", "DOUBLE", "DECIMAL")
INTS = st.sampled_from([0, 1, -1, 2, 3, 7, 2147483647, -2147483648]) | st.integers(-20, 20)
LONGS = INTS | st.sampled_from([9223372036854775807, -9223372036854775808]) | st.integers(-(1 << 63), (1 << 63) - 1)
DOUBLES = st.sampled_from([0.0, -0.0, 1.0, -1.5, 1e300, 1e-300]) | st.floats(-1e6, 1e6)
TEXTS = st.sampled_from(["", "a", "%", "a_b", "é", "𝄞", "\\", "'"]) | st.text("ab%_\\", max_size=4)
VALUES = {"INT": INTS, "BIGINT": LONGS, "DOUBLE": DOUBLES, "STRING": TEXTS, "BOOLEAN": st.booleans()}
VALUES["DECIMAL"] = st.integers(-999999, 999999).map(lambda cents: cents / 100)


def _literal(kind: str) -> st.SearchStrategy[str]:
    if kind == "STRING":
        return TEXTS.map(lambda text: "'" + text.replace("'", "''") + "'")
    if kind == "DECIMAL":
        return st.sampled_from(["1.5", "0.25", "10.0"])
    return {"DOUBLE": st.sampled_from(["0e0", "1e0", "-2.5e0"]), "BOOLEAN": st.sampled_from(["TRUE", "FALSE"])}.get(
        kind, st.integers(-9, 9).map(str)
    )


def expressions(kind: str, depth: int) -> st.SearchStrategy[str]:
    """Texts of expressions of a type."""
    leaf = st.sampled_from(COLUMNS[kind]) | _literal(kind)
    if depth == 0:
        return leaf
    same, condition = expressions(kind, depth - 1), conditions(depth - 1)
    choices = [leaf, st.builds("CASE WHEN {} THEN {} ELSE {} END".format, condition, same, same)]
    if kind in NUMBERS:
        operators = st.sampled_from("+-*" if kind == "DECIMAL" else "+-*/" if kind == "DOUBLE" else "+-*/%")
        choices += [st.builds("({} {} {})".format, same, operators, same)] if kind != "DECIMAL" or depth < 2 else []
        choices += [st.builds("(- {})".format, same)] if kind != "DECIMAL" else []
    if kind == "STRING":
        choices += [
            st.builds("UCASE({})".format, same),
            st.builds("CAST({} AS STRING)".format, expressions("BIGINT", 0)),
        ]
        choices += [st.builds("COALESCE({}, {})".format, same, same)]
    if kind == "INT":
        choices += [st.builds("CAST({} AS INT)".format, expressions("BIGINT", 0)), st.just("LEN(s)")]
    return st.one_of(choices)


def conditions(depth: int) -> st.SearchStrategy[str]:
    if depth == 0:
        return st.sampled_from(COLUMNS["BOOLEAN"])
    operators = st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM"])
    compared = st.sampled_from(("INT", "BIGINT", "DOUBLE", "STRING")).flatmap(
        lambda kind: st.builds(
            "({} {} {})".format, expressions(kind, depth - 1), operators, expressions(kind, depth - 1)
        )
    )
    inner = conditions(depth - 1)
    return st.one_of(
        compared,
        st.builds("({} {} {})".format, inner, st.sampled_from(["AND", "OR"]), inner),
        st.builds("(NOT {})".format, inner),
        st.builds("({} IS NULL)".format, expressions("BIGINT", depth - 1)),
        st.builds("(s LIKE {})".format, _literal("STRING")),
        st.builds("({} IN ({}, {}))".format, *[expressions("INT", depth - 1)] * 3),
    )


@st.composite
def rows(draw: st.DrawFn) -> list[tuple[str, str | None, str | None, int]]:
    def row() -> tuple[str, str | None, str | None, int]:
        values = {c.upper(): draw(st.none() | VALUES[kind]) for kind, names in COLUMNS.items() for c in names}
        payload = draw(st.sampled_from([True] * 9 + [False]))
        return (
            "r",
            draw(st.sampled_from(["1", "2", "3"])),
            orjson.dumps(values).decode() if payload else None,
            draw(TIMES),
        )

    return [row() for _ in range(12)]


TIMES = st.integers(0, 100_000)


@st.composite
def statements(draw: st.DrawFn) -> str:
    """Twelve columns at random, of rows at random; or a table of aggregates over groups at random."""
    where = f" WHERE {draw(conditions(2))}"
    if draw(st.booleans()):
        kinds = [draw(st.sampled_from(tuple(COLUMNS))) for _ in range(12)]
        made = ", ".join(f"{draw(expressions(kind, 3))} AS x{i}" for i, kind in enumerate(kinds))
        return f"CREATE STREAM o AS SELECT k, {made} FROM r{where};"
    window = draw(st.sampled_from(["", " WINDOW TUMBLING (SIZE 20 SECONDS, GRACE PERIOD 10 SECONDS)"]))
    where = "" if window else where  # only rows that pass it would advance the time
    group = draw(st.sampled_from("kis"))
    numbers = [draw(expressions(draw(st.sampled_from(["INT", "BIGINT"])), 2)) for _ in range(3)]
    calls = f"COUNT(*) AS a, SUM({numbers[0]}) AS b1, MAX({numbers[1]}) AS c1, LATEST_BY_OFFSET({numbers[2]}) AS d1"
    return f"CREATE TABLE o AS SELECT {group}, {calls} FROM r{window}{where} GROUP BY {group};"


@st.composite
def samples(draw: st.DrawFn) -> list[SamplePlan]:
    return [SamplePlan(f"random-{i}", STREAM + draw(statements()), draw(rows())) for i in range(6)]


@settings(
    max_examples=2,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(made=samples())
def test_random_statements_give_the_results_of_the_chain(
    spark: SparkSession, log: EmbeddedLog, made: list[SamplePlan]
) -> None:
    results = natively(spark, log, made)
    found: dict[str, Any] = {sample.statements: comparable(sample.query, results[sample.name]) for sample in made}
    assert found == {sample.statements: comparable(sample.query, sample.in_memory) for sample in made}
