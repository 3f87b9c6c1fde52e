"""A view is kept by following its table's topic: read from its position, decode, apply with the new position.

Nothing else is remembered, so whoever keeps it may die at any moment, and two who keep it at once do no harm: what one
applies is refused to the other, which then reads on from there.

Rows that were removed from the topic before the view saw them may have been deletions. So the view is then begun anew
from what the topic still has, and says so in its state; the same if the topic ends before the view's position.
"""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path
from typing import Any

from headrace.contracts import Bounds, Log, Topic
from headrace.errors import OffsetOutOfRange
from headrace.plan.catalog import SourceInfo
from headrace.plan.chain.contract import Event
from headrace.plan.nodes import Relation
from headrace.plan.types import type_text
from headrace.views.changes import Changes
from headrace.views.contract import Position, State, View
from headrace.views.sqlite import SqliteView

AT_ONCE = 10_000
"""Records in a transaction."""
BYTES_AT_ONCE = 16 << 20
"""About how many bytes of records are in memory at once."""
_FIRST = 100
"""Records that are taken while it is not known how large they are."""

_logger = logging.getLogger(__name__)


def open_view(folder: Path, source: SourceInfo, topic: Topic) -> SqliteView:
    """The view of a table in a data folder."""
    return SqliteView(view_path(folder, source), source.relation, origin(source, topic))


def view_path(folder: Path, source: SourceInfo) -> Path:
    """Its file. Names differ in cases and signs that a file system may not tell apart."""
    name = re.sub(r"[^A-Z0-9_-]", lambda found: f"%{ord(found[0]):x}.", source.name)
    return folder / "views" / f"{name}.sqlite"


def origin(source: SourceInfo, topic: Topic) -> str:
    """What a view is of. If it changes, the view's rows mean something else."""
    formats = [[form.name, [[name, str(value)] for name, value in form.options]] for form in _formats(source)]
    timestamp = source.timestamp and [source.timestamp.column, source.timestamp.format]
    facts = [source.name, topic.name, topic.created_at, _shape(source.relation), formats, timestamp]
    return json.dumps(facts)


def _formats(source: SourceInfo) -> tuple[Any, Any]:
    return source.key_format, source.value_format


def _shape(relation: Relation) -> list[Any]:
    fields = [[[field.name, type_text(field.type)] for field in part] for part in (relation.key, relation.value)]
    window = relation.window and [str(relation.window.kind), str(relation.window.size)]
    return [*fields, window]


class Keeper:
    """Keeps one view. For one thread."""

    def __init__(
        self,
        log: Log,
        source: SourceInfo,
        view: View,
        *,
        at_once: int = AT_ONCE,
        bytes_at_once: int = BYTES_AT_ONCE,
    ) -> None:
        self.name, self.view = source.name, view
        self._log, self._topic, self._indexes = log, source.topic, source.indexes
        self._most, self._most_bytes = at_once, bytes_at_once
        self._at_once = min(at_once, _FIRST)
        self._changes = Changes(source, log.topic(source.topic))
        self.state = State()
        self._begun = False

    def step(self) -> bool:
        """Take the next records, if there are any; False if not."""
        if not self._begun:  # not before: what it is kept in may be out of reach when this is made
            self._take(None)
            self._begun = True
        bounds = self._log.bounds(self._topic)
        reason = _broken(self.state.position, bounds)
        if reason:
            return self._restart(reason)
        due = self._due(bounds)
        try:
            events, position, skipped = self._read(due)
        except OffsetOutOfRange:  # removed while we looked: look again
            return True
        if all(self.state.position.get(partition, 0) == offset for partition, offset in position.items()):
            return False
        _make_durable(self._log, self._topic)
        self._take(self.view.apply(self.state, events, position, skipped=skipped))
        return True

    def _due(self, bounds: dict[int, Bounds]) -> dict[int, int]:
        """Where to read on. A partition whose first records were removed has a position, too, even if it is empty."""
        ahead = {partition: self.state.position.get(partition, bound.start) for partition, bound in bounds.items()}
        known = self.state.position
        return {p: at for p, at in ahead.items() if at < bounds[p].end or at != known.get(p, 0)}

    def _read(self, due: Position) -> tuple[list[Event], dict[int, int], int]:
        events, position, skipped, size = list[Event](), dict[int, int](), 0, 0
        for partition, offset in due.items():
            batch = self._log.read(self._topic, partition, offset, max_records=max(1, self._at_once // len(due)))
            found, unusable = self._changes.of(batch)
            events += found
            skipped += unusable
            size += batch.rows.nbytes
            position[partition] = batch.next_offset
        self._adapt(len(events) + skipped, size)
        return events, position, skipped

    def _adapt(self, records: int, size: int) -> None:
        """Large records are taken few at a time."""
        if records:
            self._at_once = max(1, min(self._most, self._most_bytes * records // max(1, size)))

    def _restart(self, reason: str) -> bool:
        begun = self.view.restart(self.state, reason)
        if begun is not None:
            _logger.warning("view %s is begun anew from topic %s: %s", self.name, self._topic, reason)
        self._take(begun)
        return True

    def _take(self, state: State | None) -> None:
        """The state that was made; None is that the view has another, and may even be another one."""
        if state is None:
            self._settle_indexes()
            state = self.view.state()
        self.state = state

    def _settle_indexes(self) -> None:
        known = self.view.indexes()
        for columns in known:
            if columns not in self._indexes:
                self.view.drop_index(columns)
        for columns in self._indexes:
            if columns not in known:
                self.view.create_index(columns)


def _broken(position: Position, bounds: dict[int, Bounds]) -> str:
    """Why nobody can read on from a position; empty if one can."""
    for partition, offset in position.items():
        bound = bounds.get(partition, Bounds(0, 0))
        if offset < bound.start:
            return f"partition {partition}: records {offset} to {bound.start - 1} were removed before they were seen"
        if offset > bound.end:
            return f"partition {partition} ends at {bound.end}, before {offset}"
    return ""


def _make_durable(log: Log, topic: str) -> None:
    """The embedded log shows rows before they are synced; who notes a position must not be ahead of its disk."""
    head = getattr(log, "head", None)
    if head is not None:
        head([topic])
