"""Queues under random work, on the model log: many examples in little time (see tests/contract for the real logs)."""

from __future__ import annotations

from hypothesis import settings

from tests.queue_machine import QueueMachine
from tests.worlds import Memory, machine_in

TestQueueInMemory = machine_in(Memory(), QueueMachine, {}).TestCase
TestQueueInMemory.settings = settings(max_examples=30, stateful_step_count=40, deadline=None)
