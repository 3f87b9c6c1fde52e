"""What a run of a query has written: a note that is committed with each batch, in the same transaction.

It survives the checkpoint. So a query whose checkpoint is gone, or is an older copy, is recognized before it writes its
results again, and the position up to which its output was written is known.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from headrace.contracts import Topic, WriterNote

_WRITER = "query."


@dataclass(frozen=True)
class WrittenOutput:
    """The last batch of one run of a query."""

    run: str
    batch: int
    query: str
    topic: str
    created_at: int
    """The time at which the topic was created: a topic of the same name may have followed."""
    position: Mapping[str, Any] | None
    """The position of the query's source after the batch."""
    program: str | None = None
    """The program that ran the query; None in notes of earlier versions."""
    has_state: bool = True
    """Whether the query has state, which its output does not contain."""


def output_note(query: str, topic: Topic, position: Mapping[str, Any] | None, program: str, *, has_state: bool) -> str:
    """The note of a batch."""
    facts = {"query": query, "topic": topic.name, "created_at": topic.created_at, "position": position}
    return json.dumps({**facts, "program": program, "has_state": has_state})


def parse_notes(notes: Iterable[WriterNote]) -> list[WrittenOutput]:
    """The notes of queries; those of other writers are left out."""
    return [
        WrittenOutput(one.writer.removeprefix(_WRITER), one.number, **json.loads(one.note))
        for one in notes
        if one.writer.startswith(_WRITER)
    ]
