"""No function creates much more than it is given, unless its results are charged to the allowance."""

from __future__ import annotations

import pytest

from headrace.plan.functions import SCALARS
from headrace.plan.functions.declaration import Function, Overload
from tests.unit.plan.functions.growth import can_create, grows

_DECLARED = [
    pytest.param(function, overload, id=f"{function.name}{overload.signature}")
    for name, function in SCALARS.items()
    if name == function.name and function.area != "user"
    for overload in function.overloads
]
_GROWING = ("LPAD", "RPAD", "REPLACE", "GENERATE_SERIES", "SPLIT", "TRANSFORM", "REGEXP_REPLACE", "URL_ENCODE_PARAM")


@pytest.mark.parametrize(("function", "overload"), _DECLARED)
def test_a_function_whose_results_can_be_large_is_charged_for_them(function: Function, overload: Overload) -> None:
    if can_create(function, overload) and overload.never_grows:
        assert not grows(overload)


@pytest.mark.parametrize("name", _GROWING)
def test_calls_with_large_arguments_find_functions_that_grow(name: str) -> None:
    assert any(grows(overload) for overload in SCALARS[name].overloads)
    assert not any(overload.never_grows for overload in SCALARS[name].overloads)
