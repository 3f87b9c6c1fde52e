"""A running app in this process, for interactive use: send rows to it and show its tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Self

from headrace.apps.live_rows import LiveRows
from headrace.clock import SystemClock
from headrace.contracts import Append, Log
from headrace.control.program import Program
from headrace.control.serving.row_codec import encode_rows, records_of_batch
from headrace.errors import BadRecord, SourceNotFound, suggestion
from headrace.lang.python.app import App
from headrace.lang.python.app_code import script_code
from headrace.lang.python.dict_rows import Change, event_to_change, row_to_event, time_ms
from headrace.lang.python.expressions import fold_name
from headrace.log import open_log
from headrace.plan.chain.row_codec import decode_row
from headrace.plan.relations import Kind
from headrace.plan.sources import SourceInfo
from headrace.settings import load_settings

_LATEST = 10_000
"""Records of each partition that a live table starts with."""


def start(app: App, data: Path | str | None, settings: Mapping[str, Any]) -> RunningApp:
    """Open the log and start the app's queries."""
    loaded = load_settings({**settings, **({} if data is None else {"storage_data": Path(data)})})
    log = open_log(loaded)
    try:
        code = script_code()
        program = Program(log, loaded, name=app.name or code.name, setup=code)
        program.execute(app.text)
    except BaseException:
        log.close()
        raise
    return RunningApp(log, program)


class RunningApp:
    """A running app. Close it, or use it with `with`: closing finishes the current batches."""

    def __init__(self, log: Log, program: Program) -> None:
        self.log = log
        self.program = program

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def wait(self, *, until_idle: bool = False) -> None:
        """Wait until a query fails or, with `until_idle`, all input is processed."""
        self.program.wait(until_idle=until_idle)

    def close(self) -> None:
        self.program.close()
        self.log.close()

    def send(self, name: str, rows: Iterable[Mapping[str, Any]], *, at: int | datetime | None = None) -> None:
        """Append rows to a stream or table, all or none; durable when it returns."""
        source = self._source(name)
        time = SystemClock().now() if at is None else time_ms(at)
        events = [row_to_event(source, row, time) for row in rows]
        self.log.append([Append(source.topic, encode_rows(self.log.topic(source.topic), source, events))])

    def live(self, name: str, limit: int = 20) -> LiveRows:
        """The latest rows of a stream or table, for a notebook."""
        source = self._source(name)
        starts = {at: max(bounds.start, bounds.end - _LATEST) for at, bounds in self.log.bounds(source.topic).items()}
        return LiveRows(
            source.name,
            lambda: list(self._new(source, starts)),
            is_table=source.kind is Kind.TABLE,
            limit=limit,
            notice=lambda: self._notice(source),
        )

    def _notice(self, source: SourceInfo) -> str:
        """Says that a query which writes the source has yet to finish its first batch; else empty."""
        for name, running in list(self.program.running.items()):
            if running.query.sink.name == source.name and not running.progress.batches and (lag := running.lag()):
                return f"query {name} is starting, {lag:,} records behind"
        return ""

    def _new(self, source: SourceInfo, starts: dict[int, int]) -> Iterator[Change]:
        """Changes since the last call, partition by partition."""
        topic = self.log.topic(source.topic)
        for partition, (first, end) in self.log.bounds(source.topic).items():
            starts[partition] = max(starts.get(partition, 0), first)  # earlier records may have been removed since
            while starts[partition] < end:
                batch = self.log.read(source.topic, partition, starts[partition])
                for record in records_of_batch(batch, topic, source):
                    with suppress(BadRecord):  # queries that read the record report it
                        yield event_to_change(source, decode_row(source, record))
                starts[partition] = batch.next_offset

    def _source(self, name: str) -> SourceInfo:
        source = self.program.catalog.sources.get(fold_name(name))
        if source is None:
            names = ", ".join(self.program.catalog.sources) or "none"
            raise SourceNotFound(
                f'stream or table "{name}" does not exist',
                fix=suggestion(fold_name(name), self.program.catalog.sources, f"there are: {names}"),
            )
        return source
