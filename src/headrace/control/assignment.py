"""What a process that runs one query is told, and what it tells: the words between `apart` and `child`.

The parent sends a pickled `Assignment`, then `drain` or `stop`, each on a line. Everything else goes the other way, as
JSON objects on a line each:

    {"begun": true}                                   Spark has asked the source for the first time
    {"batch": 7, "reports": [...], "ms": 120,         a batch is in the log; `ms` is how long the one before it took,
     "read_at": 1770000000000}                        `read_at` when this one began
    {"drained": true}                                 the batch under way has ended, no other begins
    {"failed": {"code": ..., "what": ...}}            why it ended
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.engine.batch.shipping import Setup, no_setup, shipped
from headrace.engine.ground import Position
from headrace.errors import CODES, HeadraceError
from headrace.plan.nodes import Query
from headrace.settings import Settings

DRAIN, STOP = "drain", "stop"


@dataclass(frozen=True)
class Assignment:
    """One query to run; it is prepared already (see `engine.query.prepare`)."""

    program: str
    query: bytes
    """Packed as for Spark's workers."""
    settings: Settings
    folder: Path
    start: Position | None = None
    setup: Setup = no_setup
    """Runs first, to declare functions of the user's own."""

    @property
    def plan(self) -> Query:
        return shipped(self.query, self.setup)


def error_of(told: Mapping[str, Any]) -> HeadraceError:
    """An error as `as_dict` gave it."""
    return CODES[told["code"]](told["what"], where=told["where"], fix=told["fix"])
