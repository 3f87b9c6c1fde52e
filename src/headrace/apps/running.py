"""An app at work on Spark, in this process: rows can be sent to it and looked at, as in a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Self

from headrace.apps.live import Live
from headrace.clock import SystemClock
from headrace.contracts import Append, Log
from headrace.control.program import Program
from headrace.control.rows import records_of, rows_for
from headrace.errors import BadRecord, SourceNotFound
from headrace.lang.python.app import App
from headrace.lang.python.expressions import folded
from headrace.lang.python.loading import main_code
from headrace.lang.python.rows import Change, change_of, event_of, moment
from headrace.log import open_log
from headrace.plan.catalog import SourceInfo
from headrace.plan.chain.hand import decoded
from headrace.plan.nodes import Kind
from headrace.settings import load

_LATEST = 10_000
"""Records of a partition that a live table begins with."""


def start(app: App, data: Path | str | None, settings: Mapping[str, Any]) -> Running:
    """Open the log and begin to run the app's queries."""
    given = load({**settings, **({} if data is None else {"data": Path(data)})})
    log = open_log(given)
    try:
        code = main_code()
        program = Program(log, given, name=app.name or code.name, setup=code)
        program.execute(app.text)
    except BaseException:
        log.close()
        raise
    return Running(log, program)


class Running:
    """An app at work. Close it, or use it with `with`: the batches under way then end."""

    def __init__(self, log: Log, program: Program) -> None:
        self.log = log
        self.program = program

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def wait(self, *, until_idle: bool = False) -> None:
        """Until a query fails, or all that is there is done."""
        self.program.wait(until_idle=until_idle)

    def close(self) -> None:
        self.program.close()
        self.log.close()

    def send(self, name: str, rows: Iterable[Mapping[str, Any]], *, at: int | datetime | None = None) -> None:
        """Rows into a stream or table, all or none; durable when it comes back."""
        source = self._source(name)
        time = SystemClock().now() if at is None else moment(at)
        events = [event_of(source, row, time) for row in rows]
        self.log.append([Append(source.topic, rows_for(self.log.topic(source.topic), source, events))])

    def live(self, name: str, limit: int = 20) -> Live:
        """Its latest rows, to be shown in a notebook."""
        source = self._source(name)
        starts = {at: max(bounds.start, bounds.end - _LATEST) for at, bounds in self.log.bounds(source.topic).items()}
        return Live(
            source.name, lambda: list(self._new(source, starts)), is_table=source.kind is Kind.TABLE, limit=limit
        )

    def _new(self, source: SourceInfo, starts: dict[int, int]) -> Iterator[Change]:
        """What has come since the last look, partition after partition."""
        topic = self.log.topic(source.topic)
        for partition, (first, end) in self.log.bounds(source.topic).items():
            starts[partition] = max(starts.get(partition, 0), first)  # what was before may have been removed since
            while starts[partition] < end:
                batch = self.log.read(source.topic, partition, starts[partition])
                for record in records_of(batch, topic, source):
                    with suppress(BadRecord):  # a query that reads it reports it
                        yield change_of(source, decoded(source, record))
                starts[partition] = batch.next_offset

    def _source(self, name: str) -> SourceInfo:
        found = self.program.catalog.sources.get(folded(name))
        if found is None:
            known = ", ".join(self.program.catalog.sources) or "none"
            raise SourceNotFound(f'there is no stream or table "{name}"', fix=f"there are: {known}")
        return found
