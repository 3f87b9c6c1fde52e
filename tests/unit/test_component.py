"""Components declare their options; invalid ones are refused with a hint."""

from __future__ import annotations

from datetime import timedelta

import pytest

from headrace.component import Component, Option, component, components, register
from headrace.errors import BadOption, UnknownComponent
from headrace.settings import Size

PUMP = Component(
    "test-kind",
    "pump",
    "Pumps.",
    lambda **options: options,
    (
        Option("power", int, "How strong."),
        Option("pause", timedelta, "How long between strokes.", timedelta(seconds=1)),
        Option("size", Size, "How large.", Size(5)),
        Option("name", str, "What it is called.", "pump"),
    ),
)


def test_options_are_parsed_with_defaults() -> None:
    assert PUMP.build({"power": "7", "pause": "5ms"}) == {
        "power": 7,
        "pause": timedelta(milliseconds=5),
        "size": 5,
        "name": "pump",
    }
    assert PUMP.build({"power": 7, "size": "1 KB", "name": "12"})["size"] == 1024


@pytest.mark.parametrize(
    ("options", "said", "fix"),
    [
        ({}, 'needs option "power"', "How strong."),
        ({"power": "strong"}, "'strong'", "How strong."),
        ({"power": 1, "pauze": "5s"}, '"pauze"', 'did you mean "pause"?'),
        ({"power": 1, "xyz": 1}, '"xyz"', "options are: name, pause, power, size"),
    ],
)
def test_invalid_options_are_refused(options: dict, said: str, fix: str) -> None:
    with pytest.raises(BadOption) as raised:
        PUMP.parse(options)
    assert said in raised.value.what
    assert raised.value.fix == fix


def test_components_are_found_by_kind_and_name() -> None:
    register(PUMP)
    assert component("test-kind", "pump") is PUMP
    assert components("test-kind") == [PUMP]
    assert PUMP in components()
    with pytest.raises(UnknownComponent) as raised:
        component("test-kind", "pmp")
    assert raised.value.fix == 'did you mean "pump"?'


def test_required_options_have_no_default() -> None:
    assert [o.required for o in PUMP.options] == [True, False, False, False]
