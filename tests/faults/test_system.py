"""A short fault campaign of a whole server; `make faults-system` is the long one. Planted errors are found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.faults.engine.verify import DIFFERS
from tests.faults.log.verify import DAMAGE, DUPLICATE, LOST, Findings
from tests.faults.system import verify
from tests.faults.system.job import STREAMS, TABLES, Row, results, row
from tests.faults.system.load import Load
from tests.faults.system.scenario import run_scenario
from tests.faults.system.server import Server

pytestmark = pytest.mark.faults


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_topics_and_views_equal_those_of_an_undisturbed_run() -> None:
    result = run_scenario("embedded", 1, 3, print, iter(["server", "starting"]), verify=False)
    assert result.found.violations == []
    assert result.found.facts
    assert result.found.rows
    assert Counter(kill.role for kill in result.kills) == {"server": 1, "tree": 2}


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_killed_workers_and_a_killed_spark_are_replaced() -> None:
    turn = [*["worker"] * 6, "java"]
    result = run_scenario("workers", 2, 2 * len(turn), print, iter(2 * turn), verify=False)
    assert result.found.violations == []
    assert result.found.rows
    assert Counter(kill.role for kill in result.kills) == {"worker": 12, "java": 2}


# -- planted ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Rows 0 to 9 were acknowledged, 10 refused, and the outcome of 11 is unknown."""
    load = Load(Server(tmp_path, tmp_path, {}), 0, typed=True)
    load.acknowledged.update(range(10))
    load.refused.add(10)
    load.unknown.add(11)
    load.pushed.append([3, 4])
    return load


def rows(*numbers: int) -> list[Row]:
    return [row(0, n) for n in numbers]


@pytest.mark.parametrize(
    ("held", "kinds"),
    [
        (rows(*range(10)), []),
        (rows(*range(10), 11), []),
        (rows(*range(9)), [LOST]),
        (rows(*range(10), 9), [DUPLICATE]),
        (rows(*range(10), 11, 11), [DUPLICATE]),
        (rows(*range(11)), [DIFFERS]),
        (rows(*range(10), 12), [DIFFERS]),
        ([*rows(*range(9)), Row("k1", 9, "/", 0, 0)], [DAMAGE]),
    ],
    ids=["good", "unknown is there", "lost", "twice", "unknown twice", "refused", "from nowhere", "changed"],
)
def test_a_wrong_source_is_found(load: Load, held: list[Row], kinds: list[str]) -> None:
    verify.check_source(held, load, 0, found := Findings())
    assert [violation.kind for violation in found.violations] == kinds


def seen_twice(load: Load) -> None:
    load.pushed.append([5, 5])


def row_disappeared(load: Load) -> None:
    load.pushed.append([11])


def count_decreased(load: Load) -> None:
    load.receded.append("the count of k1 was 2, then 1")


@pytest.mark.parametrize("spoil", [seen_twice, row_disappeared, count_decreased])
def test_an_impossible_observation_is_found(load: Load, spoil: Callable[[Load], None]) -> None:
    spoil(load)
    verify.check_source(rows(*range(10)), load, 0, found := Findings())
    assert [violation.kind for violation in found.violations] == [DIFFERS]


def test_every_table_aggregates_many_rows() -> None:
    made = results(rows(*range(1000)))
    assert all(sum(cells[-2] for cells in made[table]) > 500 for table in TABLES)
    assert len(made["NAMED"]) == 1000 > len(made["BIG"]) > 500


def verdicts(**differing: dict[str, Any]) -> list[dict[str, Any]]:
    """Of all queries: equal, but for these."""
    equal = {"equal": True, "counts": {}, "view_differing": 0, "differences": []}
    return [{"query": sink, "sink": sink, **equal, **differing.get(sink, {})} for sink in (*STREAMS, *TABLES)]


@pytest.mark.parametrize(
    ("told", "kinds"),
    [
        (verdicts(), []),
        (verdicts()[1:], [DAMAGE]),
        (verdicts(SUMS={"equal": False, "counts": {"missing": 1}}), [DIFFERS]),
    ],
    ids=["equal", "not judged", "differs"],
)
def test_verdicts_of_verify_are_checked(told: list[dict[str, Any]], kinds: list[str]) -> None:
    verify.check_verdicts(told, found := Findings())
    assert [violation.kind for violation in found.violations] == kinds


@pytest.mark.parametrize(
    ("told", "kinds"),
    [
        (verdicts(BIG={"counts": {"more": 1}}, SUMS={"view_differing": 1}), []),
        (verdicts(BIG={"counts": {"more": 1}}), [DAMAGE]),
        (verdicts(SUMS={"view_differing": 1}), [DAMAGE]),
        (verdicts(BIG={"counts": {"more": 1}}, SUMS={"view_differing": 1}, PAGES={"view_differing": 1}), [DAMAGE]),
    ],
    ids=["both", "not the view", "not the topic", "and another"],
)
def test_verify_must_name_planted_damage(told: list[dict[str, Any]], kinds: list[str]) -> None:
    verify.check_planted(told, found := Findings())
    assert [violation.kind for violation in found.violations] == kinds
