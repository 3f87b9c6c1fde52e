"""Test harness for an app or a KSQL script in memory: lists in, lists out, and a manual clock.

    >>> import headrace as hr
    >>> app = hr.App()
    >>> clicks = app.stream("clicks", "user STRING KEY, page STRING")
    >>> table = clicks.group_by("page").count().to_table("per_page")
    >>> with hr.testing.run(app) as trial:
    ...     trial.send("clicks", [{"user": "ann", "page": "/"}, {"user": "bob", "page": "/"}])
    ...     trial.rows("per_page")
    [{'page': '/', 'n': 2}]

Everything runs as on Spark with `query.emit = "per-record"`: the same plan and the same steps, record by record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from headrace.clock import millis
from headrace.errors import BadTestCases
from headrace.lang.python.app import App
from headrace.lang.python.dict_rows import Change, Row, event_to_change, key_to_deletion, row_to_event, time_ms
from headrace.lang.python.expressions import fold_name
from headrace.plan.chain.row_codec import decode_row, encode_row
from headrace.plan.relations import Kind
from headrace.plan.sources import SourceInfo
from headrace.plan.steps import Event, Problem
from headrace.testing.memory_query import raw_record
from headrace.testing.world import World


class Harness:
    """A world in memory. Names are those of streams and tables, case-insensitive."""

    def __init__(self, world: World) -> None:
        self.world = world

    @property
    def now(self) -> int:
        """The clock, in ms since 1970."""
        return self.world.time

    @property
    def problems(self) -> list[Problem]:
        """Records and values that could not be processed; on Spark they go to the dead-letter topic."""
        return self.world.problems

    def execute(self, ksql: str) -> None:
        """Execute further statements."""
        self.world.execute(ksql)

    def send(self, name: str, rows: Iterable[Mapping[str, Any]], *, at: int | datetime | None = None) -> None:
        """Append rows to a stream or table, with the clock's time or the time `at`. Missing columns are null."""
        source = self._source(name)
        time = self.now if at is None else time_ms(at)
        for row in rows:
            self._produce(source, row_to_event(source, row, time))

    def delete(self, name: str, **key: Any) -> None:
        """Delete a row of a table: `delete("users", user="ann")`."""
        source = self._source(name)
        self._produce(source, key_to_deletion(source, key, self.now))

    def advance(self, by: timedelta | None = None, **units: float) -> None:
        """Advance the clock: `advance(minutes=5)`. Windows close and timers fire as they would without a record."""
        self.world.time += millis(by or timedelta(**units))
        self.world.tick(self.world.time)

    def rows(self, name: str) -> list[Row]:
        """All rows of a stream; for a table the last row of each key."""
        changes = self.changes(name)
        if self._source(name).kind is Kind.STREAM:
            return [row for _, row in changes if row is not None]
        last = {repr(key): row for key, row in changes}
        return [row for row in last.values() if row is not None]

    def changes(self, name: str) -> list[Change]:
        """All records in order: the key, and the whole row, or None if a table's row was deleted."""
        source = self._source(name)
        return [
            event_to_change(source, decode_row(source, raw_record(entry))) for entry in self.world.topics[source.topic]
        ]

    def _produce(self, source: SourceInfo, event: Event) -> None:
        record = encode_row(source, *event)
        self.world.produce(source.topic, record.key, record.value, record.time)

    def _source(self, name: str) -> SourceInfo:
        source = self.world.catalog.sources.get(fold_name(name))
        if source is None:
            names = ", ".join(self.world.catalog.sources) or "none"
            raise BadTestCases(f'stream or table "{name}" does not exist', fix=f"there are: {names}")
        return source


@contextmanager
def run(app: App | str, *, now: int | datetime = 0) -> Iterator[Harness]:
    """Test an app, or the text of a KSQL script. `now` is the initial time of the clock."""
    world = World(now=time_ms(now))
    world.execute(app.text if isinstance(app, App) else app)
    yield Harness(world)
