"""Queues under random work, on every log."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from headrace.settings import Settings
from tests.queue_machine import QueueMachine
from tests.worlds import Embedded, Kafka, World, machine_in


def run(world: World, examples: int, steps: int, phases: tuple[Phase, ...] = tuple(Phase)) -> None:
    run_state_machine_as_test(
        machine_in(world, QueueMachine, {}),
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
    run(Embedded(), 8, 25)


@pytest.mark.kafka
def test_queues_on_kafka(kafka_settings: Settings) -> None:
    run(Kafka(kafka_settings), 4, 15, (Phase.explicit, Phase.reuse, Phase.generate))
