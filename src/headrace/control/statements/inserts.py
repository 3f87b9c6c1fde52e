"""Inserts rows into a stream or table: JSON objects, one per line, many in one append."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.background_work import computing
from headrace.clock import Clock
from headrace.contracts import Append, Appended, Log
from headrace.control.serving.row_codec import encode_rows
from headrace.control.statements.bulk_inserts import bulk_decoder_for
from headrace.errors import BadRecord, HeadraceError, SourceNotFound, suggestion
from headrace.formats.json.format import JsonSerde
from headrace.plan import types as ty
from headrace.plan.catalog import Catalog
from headrace.plan.expressions import ROWTIME
from headrace.plan.sources import check_insertable, check_key
from headrace.plan.steps import Event
from headrace.schema import Field


class RowInserter:
    """Inserts into one source. Column names are case-insensitive, a missing column is null; ROWTIME may be given."""

    def __init__(self, log: Log, catalog: Catalog, name: str, clock: Clock) -> None:
        source = catalog.sources.get(name) or catalog.sources.get(name.strip("`").upper())
        if source is None:
            raise SourceNotFound(
                f"Source `{name}` does not exist.",
                fix=suggestion(name, catalog.sources, f"sources are: {', '.join(catalog.sources)}"),
            )
        self.source = check_insertable(source)
        self._log, self._clock = log, clock
        self._topic = log.topic(source.topic)
        self._width = len(source.relation.key)
        columns = (*source.relation.key, *source.payload, Field(ROWTIME, ty.BIGINT))
        self._serde = JsonSerde(columns)
        self._bulk = bulk_decoder_for(source, columns, self._topic)

    def insert(self, lines: Sequence[bytes]) -> dict[int, HeadraceError]:
        """Append the valid rows durably; returns the errors of the others by line number."""
        try:
            with computing():
                rows = None if self._bulk is None else self._bulk.rows(lines, self._clock.now())
            if rows is None:
                return self._one_by_one(lines)
            self._log.append([Append(self.source.topic, rows)])
        except HeadraceError as error:
            return dict.fromkeys(range(len(lines)), error)
        return {}

    def _one_by_one(self, lines: Sequence[bytes]) -> dict[int, HeadraceError]:
        events, failures = list[Event](), dict[int, HeadraceError]()
        with computing():
            for number, line in enumerate(lines):
                try:
                    events.append(self.event(line))
                except HeadraceError as error:
                    failures[number] = error
        try:
            if events:
                self.append(events)
        except HeadraceError as error:
            return {number: failures.get(number, error) for number in range(len(lines))}
        return failures

    def event(self, line: bytes) -> Event:
        """Decode a JSON object as a row."""
        row = self._serde.decode(line)
        if row is None:
            raise BadRecord("the row is null", fix="send one JSON object per line")
        *cells, time = row
        key, value = tuple(cells[: self._width]), tuple(cells[self._width :])
        check_key(self.source, key)
        return self._clock.now() if time is None else time, key, value

    def append(self, events: Sequence[Event]) -> Sequence[Appended]:
        """Append all rows or none; they are durable when it returns."""
        return self._log.append([Append(self.source.topic, encode_rows(self._topic, self.source, events))])
