"""One state machine for two logs: the embedded log and Kafka, each compared with a model (see `machine`).

`HEADRACE_HYPOTHESIS=heavy` runs many more examples.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from headrace.settings import Settings
from tests.contract.log_state_machine import LACKING, LogMachine
from tests.log_environments import EmbeddedEnvironment, KafkaEnvironment, LogEnvironment, machine_for

HEAVY = os.environ.get("HEADRACE_HYPOTHESIS") == "heavy"


def run(world: LogEnvironment, examples: int, steps: int, *phases: Phase) -> None:
    run_state_machine_as_test(
        machine_for(world, LogMachine, LACKING[type(world)]),
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
            derandomize=not HEAVY,
            print_blob=True,
            phases=phases or tuple(Phase),
        ),
    )


def test_the_embedded_log_agrees_with_its_model() -> None:
    run(EmbeddedEnvironment(), *((1500, 60) if HEAVY else (45, 25)))


@pytest.mark.kafka
def test_the_kafka_log_agrees_with_its_model(kafka_settings: Settings) -> None:
    # Each step takes a broker tens of milliseconds: what fails is shown as it was found, not made smaller.
    run(
        KafkaEnvironment(kafka_settings),
        *((100, 40) if HEAVY else (5, 25)),
        Phase.explicit,
        Phase.reuse,
        Phase.generate,
    )
