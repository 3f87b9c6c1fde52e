"""Classes of work: what a server does for a request, and how much of each class it does at once.

Every route declares its class. Each class has threads of its own, so no class waits for another.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from headrace.settings.sections import ServerSettings


class WorkClass(StrEnum):
    HEALTH = "health"
    """Health, metrics, status, and what else is read from memory."""
    ADMINISTRATION = "administration"
    """Users, roles, groups, alerts, audit."""
    AUTHENTICATION = "authentication"
    """Verification of passwords and tokens."""
    STATEMENT = "statement"
    """What changes the catalog, a topic or a query."""
    INSERT = "insert"
    PULL = "pull"
    """What reads records or rows, and ends."""
    HEAVY_PULL = "heavy-pull"
    """Pull queries that wait for a pull worker."""
    PUSH = "push"
    """What goes on until the client disconnects."""
    CONSOLE = "console"


@dataclass(frozen=True)
class WorkLimits:
    """How much work of a class runs at once and may wait, and for how many seconds."""

    running: int
    queued: int = 256
    wait_seconds: float = 10.0

    @property
    def running_each(self) -> int:
        """How much of it one principal may run: the others always find some room."""
        return self.running - max(1, self.running // 4) if self.running > 1 else 1

    @property
    def queued_each(self) -> int:
        return max(1, self.queued // 2)


def work_limits(settings: ServerSettings, cores: int | None = None) -> Mapping[WorkClass, WorkLimits]:
    """The limits of each class. Pull queries compute, so they follow the cores; the rest mostly waits for the disk."""
    cores = cores or os.cpu_count() or 1
    pulls = settings.max_pulls_running or min(4 + cores, 32)
    running = {
        WorkClass.HEALTH: 4,
        WorkClass.ADMINISTRATION: 4,
        WorkClass.AUTHENTICATION: min(cores, 4),
        WorkClass.STATEMENT: settings.max_statements_running,
        WorkClass.INSERT: settings.max_inserts_running,
        WorkClass.PULL: pulls,
        WorkClass.HEAVY_PULL: pulls,
        WorkClass.PUSH: 8,
        WorkClass.CONSOLE: 8,
    }
    wait = settings.queue_timeout.total_seconds()
    return {work: WorkLimits(count, settings.max_queued, wait) for work, count in running.items()}
