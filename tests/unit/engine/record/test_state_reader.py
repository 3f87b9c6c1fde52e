"""The state reader: keys in text form, checkpoints by name, and values as JSON."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given

from headrace.cli.commands.state import json_value
from headrace.engine.record.state_reader import find_checkpoint, key_candidates, key_matches
from headrace.errors import UnknownQuery
from tests.unit.engine.record.state_values import values


@pytest.mark.parametrize(
    ("text", "key", "found"),
    [
        ("/home", ("/home",), True),
        ("/home", "/home", True),
        ("/home", ("/homes",), False),
        ("7", (7,), True),
        ("7", ("7",), True),
        ("7", (Decimal(7), "x"), True),
        ("7", (70,), False),
        ('["a", 7]', ("a", 7), True),
        ('["a", 7]', (("a", 7), 0, 1000), True),
        ("/home", (("/home",), 0, 1000), True),
        ("", ("",), True),
        ("null", (None, 1), True),
    ],
)
def test_a_key_is_found_by_its_value(text: str, key: Any, found: bool) -> None:
    assert key_matches(key, key_candidates(text)) is found


@pytest.fixture
def checkpoints(tmp_path: Path) -> Path:
    for place in ("a/CTAS_O_1", "b/CTAS_O_1", "b/CTAS_O_11"):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "manifest.json").write_text("{}")
    return tmp_path


@pytest.mark.parametrize(("name", "place"), [("ctas_o_11", "b/CTAS_O_11"), ("a/CTAS_O_1", "a/CTAS_O_1")])
def test_a_checkpoint_is_found_by_the_name_of_its_query(checkpoints: Path, name: str, place: str) -> None:
    assert find_checkpoint(checkpoints, name).folder == checkpoints / place


@pytest.mark.parametrize(("name", "fix"), [("CTAS_O_1", "a/CTAS_O_1, b/CTAS_O_1"), ("O_1", "b/CTAS_O_11")])
def test_an_ambiguous_name_is_refused(checkpoints: Path, name: str, fix: str) -> None:
    with pytest.raises(UnknownQuery) as caught:
        find_checkpoint(checkpoints, name)
    assert fix in str(caught.value.fix)


def test_without_checkpoints_the_fix_is_to_run_the_query(tmp_path: Path) -> None:
    with pytest.raises(UnknownQuery, match="headrace run"):
        find_checkpoint(tmp_path / "checkpoints", "CTAS_O_1")


@given(values)
def test_every_value_has_a_json_form(value: Any) -> None:
    json.loads(orjson.dumps(json_value(value)))


def test_values_without_a_json_type_become_text() -> None:
    value = ("a", [1, Decimal("1.50")], b"\xff", 1 << 70, {("k",): None}, "\ud800")
    assert json_value(value) == ["a", [1, "1.50"], "\\xff", str(1 << 70), {"('k',)": None}, "\\ud800"]
