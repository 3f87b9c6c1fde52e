"""Protocol between a parent process and its worker processes (`process` and `worker`).

The parent sends a pickled `WorkerConfig`, then pickled `WorkerCommand`s. The worker sends JSON objects, one per line,
each with the name of its query:

    {"query": "Q", "begun": true}                     Spark has called the source for the first time
    {"query": "Q", "batch": 7, "reports": [...],      a batch is in the log; `time` is the duration of the previous one
     "time": {...}, "read_at": 1770000000000}         in ms, total and by phase; `read_at` is when this one began
    {"query": "Q", "drained": true}                   the current batch is finished, no other starts
    {"query": "Q", "failed": {"code": ..., ...}}      the error that ended it
    {"query": "Q", "stopped": true}                   it has released its resources
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from headrace.engine.log_adapter import Position
from headrace.engine.spark.session import SparkSession
from headrace.plan.nodes import Query
from headrace.plan.serialization import Setup, load_plan, no_setup
from headrace.settings import Settings

WarmUp = Callable[[SparkSession, Settings, Callable[[], bool]], None]
"""Lets Spark do something before the first query comes, with the settings of the process, until the last is true."""


@dataclass(frozen=True)
class WorkerConfig:
    """Configuration of a worker process, common to its queries."""

    program: str
    settings: Settings
    single_query: bool = True
    """Whether the process runs only one query and ends with it."""


@dataclass(frozen=True)
class QueryAssignment:
    """One query to run; the parent has already prepared it (see `engine.query.prepare_query`)."""

    query: bytes
    """The serialized plan, as for Spark's Python workers."""
    folder: Path
    start: Position | None = None
    setup: Setup = no_setup
    """Runs first, to declare user-defined functions."""

    def plan(self) -> Query:
        return load_plan(self.query, self.setup)


class CommandType(Enum):
    WARM_UP = "warm-up"
    """Start Spark before the first query comes. Not about a query: its name is empty."""
    START = "start"
    DRAIN = "drain"
    """Finish the current batch, and start no other."""
    INTERRUPT = "interrupt"
    """End the current batch by force."""
    STOP = "stop"
    """Release the query's resources."""


@dataclass(frozen=True)
class WorkerCommand:
    type: CommandType
    query: str
    assignment: QueryAssignment | None = None
    """The query to start."""
    warm_up: WarmUp | None = None
    """What follows the start of Spark."""
