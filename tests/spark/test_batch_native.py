"""Spark's own operators give the chain's answer: plans one by one, and statements made at random."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from headrace.engine.planning.sparksql_support import BatchMode, choose_batch_mode
from headrace.engine.sparksql import operators
from tests.spark.batch_runner import Results, SamplePlan, answer, natively, records
from tests.spark.sample_plans import SAMPLE_PLANS, clicks
from tests.spark.test_batch_chain import CHAIN_ONLY

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def results(spark: SparkSession) -> Results:
    return natively(spark, SAMPLE_PLANS)


@pytest.mark.parametrize("sample", SAMPLE_PLANS, ids=[sample.name for sample in SAMPLE_PLANS])
def test_native_is_the_chain(sample: SamplePlan, results: Results) -> None:
    assert choose_batch_mode(sample.query).mode is BatchMode.NATIVE
    assert answer(sample, results[sample.name]) == answer(sample, sample.in_memory)


@pytest.mark.parametrize("sample", CHAIN_ONLY, ids=[sample.name for sample in CHAIN_ONLY])
def test_what_is_left_to_the_chain_says_why(sample: SamplePlan) -> None:
    choice = choose_batch_mode(sample.query)
    assert choice.mode is BatchMode.CHAIN
    assert choice.reasons


def test_typed_rows_have_names_and_types_of_their_own(spark: SparkSession) -> None:
    sample = clicks("typed", "CREATE STREAM o AS SELECT id, page, tags, MAP('k' := spent) AS m, at FROM clicks;")
    rows = operators.run_typed(records(spark, [sample]), sample.query).orderBy("sequence").limit(1)
    assert dict(rows.dtypes)["M"] == "map<string,bigint>"
    (row,) = rows.collect()
    assert (row.ID, row.PAGE, row.TAGS, row.M["k"], row.AT.asDict()) == (
        1,
        "/a",
        ["x", None, "y"],
        9223372036854775807,
        {"X": 1, "Y": 0.5},
    )


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
    group = draw(st.sampled_from("kis"))
    numbers = [draw(expressions(draw(st.sampled_from(["INT", "BIGINT"])), 2)) for _ in range(3)]
    calls = f"COUNT(*) AS a, SUM({numbers[0]}) AS b1, MAX({numbers[1]}) AS c1, COLLECT_LIST({numbers[2]}) AS d1"
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
def test_random_statements_natively_and_by_the_chain(spark: SparkSession, made: list[SamplePlan]) -> None:
    results = natively(spark, made)
    found: dict[str, Any] = {sample.statements: answer(sample, results[sample.name]) for sample in made}
    assert found == {sample.statements: answer(sample, sample.in_memory) for sample in made}
