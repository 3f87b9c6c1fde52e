"""What a process that runs queries is told, and what it tells: the words between `apart` and `child`.

The parent sends a pickled `Post`, then pickled `Order`s. Everything else goes the other way, as JSON objects on a line
each, that name their query:

    {"query": "Q", "begun": true}                     Spark has asked the source for the first time
    {"query": "Q", "batch": 7, "reports": [...],      a batch is in the log; `ms` is how long the one before it took,
     "ms": 120, "read_at": 1770000000000}             `read_at` when this one began
    {"query": "Q", "drained": true}                   the batch under way has ended, no other begins
    {"query": "Q", "failed": {"code": ..., ...}}      why it ended
    {"query": "Q", "stopped": true}                   it has given back what it held
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from headrace.engine.batch.shipping import Setup, no_setup, shipped
from headrace.engine.ground import Position
from headrace.errors import CODES, HeadraceError
from headrace.plan.nodes import Query
from headrace.settings import Settings


@dataclass(frozen=True)
class Post:
    """Of all queries of a process."""

    program: str
    settings: Settings
    alone: bool = True
    """Whether there is one query, with which the process ends."""


@dataclass(frozen=True)
class Assignment:
    """One query to run; it is prepared already (see `engine.query.prepare`)."""

    query: bytes
    """Packed as for Spark's workers."""
    folder: Path
    start: Position | None = None
    setup: Setup = no_setup
    """Runs first, to declare functions of the user's own."""

    def plan(self) -> Query:
        return shipped(self.query, self.setup)


class Word(Enum):
    START = "start"
    DRAIN = "drain"
    STOP = "stop"


@dataclass(frozen=True)
class Order:
    word: Word
    query: str
    assignment: Assignment | None = None
    """What to start."""


def error_of(told: Mapping[str, Any]) -> HeadraceError:
    """An error as `as_dict` gave it."""
    return CODES[told["code"]](told["what"], where=told["where"], fix=told["fix"])
