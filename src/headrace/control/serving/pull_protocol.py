"""Protocol between a server and its pull workers.

Requests arrive on a worker's standard input, each a pickle. Frames of the result leave on its standard output: each a
pickle of its type and content, after its length. BEGIN is first, then any number of ROWS, then END; FAILED may be
next at any time, and is then the last.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import Enum, auto

from headrace.contracts import Topic
from headrace.plan.serialization import Setup
from headrace.plan.sources import SourceInfo
from headrace.settings import Settings

LENGTH = struct.Struct("!I")
"""Precedes each frame."""


class FrameType(Enum):
    BEGIN = auto()
    """The state of the view, None for a stream."""
    ROWS = auto()
    """A batch of rows."""
    FAILED = auto()
    """The error that ended the query, as a document."""
    END = auto()


@dataclass(frozen=True)
class PullRequest:
    """A pull query: its serialized select, and the table that it reads, None for a stream."""

    select: bytes
    setup: Setup
    table: tuple[SourceInfo, Topic] | None
    settings: Settings
