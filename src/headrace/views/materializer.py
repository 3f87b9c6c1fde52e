"""Materializes a view from its table's topic: read from its position, decode, apply together with the new position.

There is no other state, so the process may crash at any moment, and two processes may materialize the same view: what
one applies is refused to the other, which then continues from the new position.

Rows that were removed from the topic before the view read them may have been deletions. The view is then rebuilt.
"""

from __future__ import annotations

import json
import logging
import re
from pathlib import Path
from typing import Any

from headrace.contracts import Bounds, Log, Topic
from headrace.errors import OffsetOutOfRange
from headrace.plan.relations import Relation
from headrace.plan.sources import SourceInfo
from headrace.plan.steps import Event
from headrace.plan.types import type_text
from headrace.views.changelog import ChangelogDecoder
from headrace.views.contract import Position, View, ViewState
from headrace.views.sqlite import SqliteView

MAX_BATCH_RECORDS = 10_000
"""Records per transaction."""
MAX_BATCH_BYTES = 16 << 20
"""Approximate size of the records in memory at once."""
_FIRST = 100
"""Records per read while their size is not known yet."""

_logger = logging.getLogger(__name__)


def open_view(folder: Path, source: SourceInfo, topic: Topic) -> SqliteView:
    """Opens the view of a table in a data folder."""
    return SqliteView(view_path(folder, source), source.relation, origin_fingerprint(source, topic))


def view_path(folder: Path, source: SourceInfo) -> Path:
    """The view's file. Names may differ only in case or in characters that a file system does not distinguish."""
    name = re.sub(r"[^A-Z0-9_-]", lambda match: f"%{ord(match[0]):x}.", source.name)
    return folder / "views" / f"{name}.sqlite"


def origin_fingerprint(source: SourceInfo, topic: Topic) -> str:
    """Identifies what a view is built from. If it changes, the stored rows have another meaning."""
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


class ViewMaterializer:
    """Materializes one view. Not thread-safe."""

    def __init__(
        self,
        log: Log,
        source: SourceInfo,
        view: View,
        *,
        at_once: int = MAX_BATCH_RECORDS,
        bytes_at_once: int = MAX_BATCH_BYTES,
    ) -> None:
        self.name, self.view = source.name, view
        self._log, self._topic, self._indexes = log, source.topic, source.indexes
        self._most, self._most_bytes = at_once, bytes_at_once
        self._at_once = min(at_once, _FIRST)
        self._changes = ChangelogDecoder(source, log.topic(source.topic))
        self.state = ViewState()
        self._begun = False

    def step(self) -> bool:
        """Applies the next records; returns False if there are none."""
        if self.view.recover() or not self._begun:  # not in __init__: the view's database may be unreachable then
            self._take(None)
            self._begun = True
        bounds = self._log.bounds(self._topic)
        reason = _broken(self.state.position, bounds)
        if reason:
            return self._restart(reason)
        due = self._due(bounds)
        try:
            events, position, skipped = self._read(due)
        except OffsetOutOfRange:  # removed by retention since `bounds` was read: try again
            return True
        if all(self.state.position.get(partition, 0) == offset for partition, offset in position.items()):
            return False
        _make_durable(self._log, self._topic)
        self._take(self.view.apply(self.state, events, position, skipped=skipped))
        return True

    def _due(self, bounds: dict[int, Bounds]) -> dict[int, int]:
        """The offsets to read from. A partition whose first records were removed gets a position even if empty."""
        ahead = {partition: self.state.position.get(partition, bound.start) for partition, bound in bounds.items()}
        known = self.state.position
        return {p: at for p, at in ahead.items() if at < bounds[p].end or at != known.get(p, 0)}

    def _read(self, due: Position) -> tuple[list[Event], dict[int, int], int]:
        events, position, skipped, size = list[Event](), dict[int, int](), 0, 0
        for partition, offset in due.items():
            batch = self._log.read(self._topic, partition, offset, max_records=max(1, self._at_once // len(due)))
            changes, unusable = self._changes.of(batch)
            events += changes
            skipped += unusable
            size += batch.rows.nbytes
            position[partition] = batch.next_offset
        self._adjust_batch_size(len(events) + skipped, size)
        return events, position, skipped

    def _adjust_batch_size(self, records: int, size: int) -> None:
        """Adapts the number of records per read to their size."""
        if records:
            self._at_once = max(1, min(self._most, self._most_bytes * records // max(1, size)))

    def _restart(self, reason: str) -> bool:
        begun = self.view.restart(self.state, reason)
        if begun is not None:
            _logger.warning("view %s is rebuilt from topic %s: %s", self.name, self._topic, reason)
        self._take(begun)
        return True

    def _take(self, state: ViewState | None) -> None:
        """Sets the new state; None means that the view has another state, and may have been recreated."""
        if state is None:
            self._apply_indexes()
            state = self.view.state()
        self.state = state

    def _apply_indexes(self) -> None:
        known = self.view.indexes()
        for columns in known:
            if columns not in self._indexes:
                self.view.drop_index(columns)
        for columns in self._indexes:
            if columns not in known:
                self.view.create_index(columns)


def _broken(position: Position, bounds: dict[int, Bounds]) -> str:
    """Returns why reading cannot continue from a position; empty if it can."""
    for partition, offset in position.items():
        bound = bounds.get(partition, Bounds(0, 0))
        if offset < bound.start:
            return f"partition {partition}: records {offset} to {bound.start - 1} were removed before they were seen"
        if offset > bound.end:
            return f"partition {partition} ends at {bound.end}, before {offset}"
    return ""


def _make_durable(log: Log, topic: str) -> None:
    """Syncs the embedded log, which serves unsynced rows: a stored position must not be ahead of the disk."""
    head = getattr(log, "head", None)
    if head is not None:
        head([topic])
