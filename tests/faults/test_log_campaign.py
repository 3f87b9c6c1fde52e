"""A short fault campaign of the log, part of every test run; `make faults-log` is the long one."""

from __future__ import annotations

import pytest

from headrace.log.kafka import jars
from headrace.settings import Settings
from tests.faults.log import campaign, kafka_scenario
from tests.faults.log.verify import Findings

pytestmark = pytest.mark.faults

SEED = 1


@pytest.mark.timeout(180)
def test_the_embedded_log_keeps_its_guarantees_across_kills() -> None:
    result = campaign.run("log", SEED, 25)
    assert not result.found.violations
    assert len(result.kills) >= 24
    assert result.inside
    assert result.found.facts


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_the_spark_sink_writes_exactly_once_across_kills() -> None:
    result = campaign.run("spark", SEED, 3)
    assert not result.found.violations
    assert {kill.moment for kill in result.kills if kill.role == "spark"} >= {"sink.committed", "sink.staged"}


@pytest.mark.kafka
def test_kafka_keeps_its_guarantees_when_a_leader_is_killed() -> None:
    jars.fetch(Settings())
    found = Findings()
    kills = kafka_scenario.play_round(f"{SEED}.short", 3, 3, lambda kill: None, found, kafka_scenario.FEW_WORKERS)
    assert not found.violations
    assert "leader of three" in {kill.moment for kill in kills}
    assert found.facts
