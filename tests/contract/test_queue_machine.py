"""Queues under random operations, on every log."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from headrace.settings import Settings
from tests.log_environments import EmbeddedEnvironment, KafkaEnvironment, LogEnvironment, machine_for
from tests.queue_state_machine import QueueMachine


def run(world: LogEnvironment, examples: int, steps: int, phases: tuple[Phase, ...] = tuple(Phase)) -> None:
    run_state_machine_as_test(
        machine_for(world, QueueMachine, {}),
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
            print_blob=True,
            phases=phases,
        ),
    )


def test_queues_on_the_embedded_log() -> None:
    run(EmbeddedEnvironment(), 8, 25)


@pytest.mark.kafka
def test_queues_on_kafka(kafka_settings: Settings) -> None:
    run(KafkaEnvironment(kafka_settings), 4, 15, (Phase.explicit, Phase.reuse, Phase.generate))
