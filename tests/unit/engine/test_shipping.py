"""Plans on their way to workers: functions travel as their names."""

from __future__ import annotations

from headrace.engine.batch.shipping import packed, unpacked
from headrace.plan.functions import SCALARS
from tests.conformance import functions


def test_functions_that_are_declared_later_travel_too() -> None:
    packed(SCALARS["UCASE"].overloads[0])
    with functions.installed():
        declared = SCALARS["TEST_UDF"].overloads[0]
        assert unpacked(packed(declared)) is declared
