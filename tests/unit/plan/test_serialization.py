"""Serialized plans refer to functions by name."""

from __future__ import annotations

import pytest

from headrace.plan.functions import SCALARS
from headrace.plan.serialization import deserialize_plan, serialize_plan
from tests.conformance import corpus_functions
from tests.spark.sample_plans import RECORD_MODE_PLANS, SAMPLE_PLANS, SamplePlan


def test_functions_declared_later_are_serialized() -> None:
    serialize_plan(SCALARS["UCASE"].overloads[0])
    with corpus_functions.installed():
        declared = SCALARS["TEST_UDF"].overloads[0]
        assert deserialize_plan(serialize_plan(declared)) is declared


@pytest.mark.parametrize("sample", [*SAMPLE_PLANS, *RECORD_MODE_PLANS], ids=lambda sample: sample.name)
def test_a_plan_is_the_same_after_its_way_to_a_worker(sample: SamplePlan) -> None:
    assert deserialize_plan(serialize_plan(sample.query)) == sample.query
