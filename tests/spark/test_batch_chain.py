"""The chain inside Spark writes exactly what one chain in memory writes, in one key group or in several."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from headrace.plan.analysis.partitioning import key_group_assigner
from headrace.plan.serialization import deserialize_plan, serialize_plan
from tests.spark import chain_batch
from tests.spark.batch_runner import Results, SamplePlan, by_chain, records
from tests.spark.sample_plans import CLICKED, CLICKS, MIXED, SAMPLE_PLANS, USERS, clicks

pytestmark = pytest.mark.spark

CHAIN_ONLY = (
    clicks(
        "session", "CREATE TABLE o AS SELECT id, COUNT(*) AS n FROM clicks WINDOW SESSION (30 SECONDS) GROUP BY id;"
    ),
    clicks(
        "final",
        "CREATE TABLE o AS SELECT id, COUNT(*) AS n FROM clicks WINDOW TUMBLING (SIZE 1 SECOND, GRACE PERIOD 1 SECOND)"
        " GROUP BY id EMIT FINAL;",
    ),
    SamplePlan(
        "streams",
        CLICKS
        + "CREATE STREAM d AS SELECT * FROM clicks;"
        + "CREATE STREAM o AS SELECT c.id AS id, c.page, d.spent"
        + " FROM clicks c LEFT JOIN d WITHIN 1 MINUTE ON c.id = d.id;",
        [*CLICKED, *(("D", *rest) for _, *rest in CLICKED)],
    ),
    SamplePlan("table-count", USERS + "CREATE TABLE o AS SELECT name, COUNT(*) AS n FROM users GROUP BY name;", MIXED),
)
ALL = (*SAMPLE_PLANS, *CHAIN_ONLY)
IDS = [sample.name for sample in ALL]


@pytest.fixture(scope="module")
def one_key_group(spark: SparkSession) -> Results:
    return by_chain(spark, ALL)


@pytest.fixture(scope="module")
def three_key_groups(spark: SparkSession) -> Results:
    return by_chain(spark, ALL, key_groups=3)


@pytest.mark.parametrize("sample", ALL, ids=IDS)
def test_one_key_group_is_the_chain_in_memory(sample: SamplePlan, one_key_group: Results) -> None:
    assert one_key_group[sample.name] == sample.in_memory


@pytest.mark.parametrize("sample", ALL, ids=IDS)
def test_key_groups_side_by_side_are_the_chain_in_memory(sample: SamplePlan, three_key_groups: Results) -> None:
    assert three_key_groups[sample.name] == sample.in_memory


@pytest.mark.parametrize(
    ("name", "several"),
    [
        ("select", True),
        ("count", True),
        ("enrich", True),
        ("tables-FULL", True),
        ("distinct", True),
        ("distinct-on", False),
        ("distinct-windows", False),
        ("tumbling", False),
        ("session", False),
        ("final", False),
        ("streams", False),
        ("count-by-table", False),
        ("table-count", False),
    ],
)
def test_what_follows_more_than_one_key_is_one_key_group(name: str, several: bool) -> None:
    (sample,) = (sample for sample in ALL if sample.name == name)
    assert key_group_assigner(sample.query).are_several is several


@pytest.mark.parametrize("sample", ALL, ids=IDS)
def test_a_plan_arrives_as_it_was(sample: SamplePlan) -> None:
    assert deserialize_plan(serialize_plan(sample.query)) == sample.query


def test_records_in_order_and_problems_apart(spark: SparkSession) -> None:
    sample = clicks("plain", "CREATE STREAM o AS SELECT id, page FROM clicks WHERE page IS NOT NULL;")
    results = chain_batch.run_query(records(spark, [sample]), sample.query).cache()
    rows = chain_batch.written_records(results).collect()
    assert [(bytes(r.key) if r.key else None, bytes(r.value), r.time) for r in rows] == sample.in_memory
    assert {row.topic for row in rows} == {"O"}
    (problem,) = chain_batch.problems(results).collect()
    assert (problem.code, problem.where) == ("bad-record", "topic clicks, partition 0, offset 5")
