"""An app or a KSQL script tried out in memory: lists in, lists out, and a clock that stands still until it is moved.

    >>> import headrace as hr
    >>> app = hr.App()
    >>> clicks = app.stream("clicks", "user STRING KEY, page STRING")
    >>> table = clicks.group_by("page").count().to_table("per_page")
    >>> with hr.testing.run(app) as trial:
    ...     trial.send("clicks", [{"user": "ann", "page": "/"}, {"user": "bob", "page": "/"}])
    ...     trial.rows("per_page")
    [{'page': '/', 'n': 2}]

Everything runs as it would on Spark with `changes = "record"`: the same plan, by the same steps, record by record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from headrace.clock import millis
from headrace.errors import BadCases
from headrace.lang.python.app import App
from headrace.lang.python.expressions import folded
from headrace.lang.python.rows import Change, Row, change_of, deletion_of, event_of, moment
from headrace.plan.catalog import SourceInfo
from headrace.plan.chain.contract import Event, Problem
from headrace.plan.chain.hand import decoded, encoded
from headrace.plan.nodes import Kind
from headrace.testing.running import raw
from headrace.testing.world import World


class Trial:
    """A world in memory. Names are those of streams and tables, in any case."""

    def __init__(self, world: World) -> None:
        self.world = world

    @property
    def now(self) -> int:
        """The clock, in ms since 1970."""
        return self.world.now

    @property
    def problems(self) -> list[Problem]:
        """Records and values that could not be used; on Spark they are in the dead letters."""
        return self.world.problems

    def execute(self, ksql: str) -> None:
        """Further statements."""
        self.world.execute(ksql)

    def send(self, name: str, rows: Iterable[Mapping[str, Any]], *, at: int | datetime | None = None) -> None:
        """Rows into a stream or table, at the clock's time or `at` another. Columns that are left out are null."""
        source = self._source(name)
        time = self.now if at is None else moment(at)
        for row in rows:
            self._produce(source, event_of(source, row, time))

    def delete(self, name: str, **key: Any) -> None:
        """A row of a table goes: `delete("users", user="ann")`."""
        source = self._source(name)
        self._produce(source, deletion_of(source, key, self.now))

    def advance(self, by: timedelta | None = None, **units: float) -> None:
        """Time passes: `advance(minutes=5)`. Windows close and timers fire as they would without a record."""
        self.world.now += millis(by or timedelta(**units))
        self.world.tick(self.world.now)

    def rows(self, name: str) -> list[Row]:
        """All rows of a stream; of a table the last of each key."""
        changes = self.changes(name)
        if self._source(name).kind is Kind.STREAM:
            return [row for _, row in changes if row is not None]
        last = {repr(key): row for key, row in changes}
        return [row for row in last.values() if row is not None]

    def changes(self, name: str) -> list[Change]:
        """Every record in its order: the key, and the whole row, or None where a table's row was deleted."""
        source = self._source(name)
        return [change_of(source, decoded(source, raw(entry))) for entry in self.world.topics[source.topic]]

    def _produce(self, source: SourceInfo, event: Event) -> None:
        record = encoded(source, *event)
        self.world.produce(source.topic, record.key, record.value, record.time)

    def _source(self, name: str) -> SourceInfo:
        found = self.world.catalog.sources.get(folded(name))
        if found is None:
            known = ", ".join(self.world.catalog.sources) or "none"
            raise BadCases(f'there is no stream or table "{name}"', fix=f"there are: {known}")
        return found


@contextmanager
def run(app: App | str, *, now: int | datetime = 0) -> Iterator[Trial]:
    """Try an app, or the text of a KSQL script. `now` is what the clock shows first."""
    world = World(now=moment(now))
    world.execute(app.text if isinstance(app, App) else app)
    yield Trial(world)
