"""Plans on their way to workers: functions travel as their names."""

from __future__ import annotations

from headrace.plan.functions import SCALARS
from headrace.plan.serialization import deserialize_plan, serialize_plan
from tests.conformance import corpus_functions


def test_functions_that_are_declared_later_travel_too() -> None:
    serialize_plan(SCALARS["UCASE"].overloads[0])
    with corpus_functions.installed():
        declared = SCALARS["TEST_UDF"].overloads[0]
        assert deserialize_plan(serialize_plan(declared)) is declared
