"""A short fault campaign of the engine; `make faults-engine` is the long one. A wrong output is found."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

import pytest

from headrace.plan.chain.records import RawRecord
from tests.faults.engine import job, verify
from tests.faults.engine.driver_process import BETWEEN
from tests.faults.engine.scenario import KillPlan, run_scenario
from tests.faults.engine.verify import DIFFERS, Output
from tests.faults.log.verify import DUPLICATE, LOST, Findings

pytestmark = pytest.mark.faults


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_outputs_equal_those_of_an_undisturbed_run() -> None:
    chosen = iter([KillPlan("point", "sink.committed:2"), KillPlan("point", "operator.saved:2")])
    result = run_scenario("embedded", 1, 2, lambda kill: None, chosen, batch=False)
    assert result.found.violations == []
    assert result.found.rows
    assert [(kill.role, kill.moment) for kill in result.kills[:2]] == [
        ("driver", "sink.committed"),
        ("worker", "operator.saved"),
    ]
    assert result.kills[0].operation == BETWEEN


# -- planted ----------------------------------------------------------------------------------------------------------


def change(rows: list[Output], at: int) -> None:
    key, value, time = rows[at]
    rows[at] = (key, (value or b"") + b" ", time)


def move(rows: list[Output], at: int) -> None:
    """Behind the next other record of its key."""
    row = rows.pop(at)
    other = next(i for i in range(at, len(rows)) if rows[i][0] == row[0] and rows[i] != row)
    rows.insert(other + 1, row)


PLANTS: dict[str, tuple[Callable[[list[Output], int], None], str]] = {
    "lost": (lambda rows, at: rows.remove(rows[at]), LOST),
    "written twice": (lambda rows, at: rows.insert(at, rows[at]), DUPLICATE),
    "changed": (change, DIFFERS),
    "out of order": (move, DIFFERS),
}


def outputs() -> dict[str, list[Output]]:
    """What the job writes from what is fed, but for the query that reads another one's results."""
    fed = [(topic, RawRecord(key, value, time)) for topic, key, value, time in islice(job.records(0), 300)]
    made = {query.sink.topic: verify.undisturbed(query, fed)[0] for query in verify.queries()}
    return {topic: rows for topic, rows in made.items() if topic != "SUMS"}


def test_every_query_of_the_job_writes() -> None:
    assert all(len(rows) > 10 for rows in outputs().values())


@pytest.mark.parametrize("plant", PLANTS)
@pytest.mark.parametrize("topic", ["BIG", "CLOSED", "WHO", "PEOPLE", "BOUGHT"])
def test_a_single_wrong_record_is_found(topic: str, plant: str) -> None:
    if (topic, plant) == ("CLOSED", "out of order"):
        topic = "WHO"  # a window's key has one result only
    wanted = outputs()[topic]
    got, found = list(wanted), Findings()
    spoil, kind = PLANTS[plant]
    spoil(got, 5)
    verify.compare(topic, wanted, got, found)
    assert [violation.kind for violation in found.violations] == [kind]
