"""Protocol between a server and its pull workers.

Requests arrive on a worker's standard input, each a pickle. Frames of the result leave on its standard output: each has
a type, a length and a content, which is a pickle. BEGIN is first, then any number of ROWS, then END; FAILED may be next
at any time, and is then the last.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import Enum, auto

from headrace.contracts import Topic
from headrace.plan.serialization import Setup
from headrace.plan.sources import SourceInfo
from headrace.settings import Settings

HEADER = struct.Struct("!BI")
"""The type of a frame, and the length of its content."""


class FrameType(Enum):
    BEGIN = auto()
    """The state of the view, None for a stream."""
    ROWS = auto()
    """Some rows."""
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
