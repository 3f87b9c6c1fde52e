"""Queues under random work, on the model log: many examples in little time (see tests/contract for the real logs)."""

from __future__ import annotations

from hypothesis import settings

from tests.log_environments import MemoryEnvironment, machine_for
from tests.queue_state_machine import QueueMachine

TestQueueInMemory = machine_for(MemoryEnvironment(), QueueMachine, {}).TestCase
TestQueueInMemory.settings = settings(max_examples=30, stateful_step_count=40, deadline=None)
