"""Progress of a running program: a live table, a periodic line, or JSON objects.

Results of statements go to standard output, and so does JSON. Everything else goes to standard error.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Protocol

import typer
from rich.cells import cell_len
from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from headrace.cli.io import output
from headrace.cli.io.control_characters import escape_controls
from headrace.lang.listing_text import listing_text
from headrace.lang.registry import dialect_of

if TYPE_CHECKING:
    from headrace.control.queries.metrics import QueryMetrics
    from headrace.lang.listing import Listing

Statuses = Sequence["QueryMetrics"]


class ProgressDisplay(Protocol):
    every: float
    """Seconds between two updates."""

    def busy(self, what: str) -> AbstractContextManager[object]:
        """Show what the program is waiting for, during the block."""
        ...

    def answer(self, listing: Listing) -> None: ...
    def showing(self) -> AbstractContextManager[Callable[[Statuses], None]]:
        """Give a function that shows statuses, during the block."""
        ...

    def note(self, text: str) -> None: ...
    def end(self, summary: Mapping[str, Any], statuses: Statuses) -> None: ...


def make_display(*, plain: bool, as_json: bool) -> ProgressDisplay:
    if as_json:
        return JsonProgress()
    return LineProgress() if plain or not sys.stderr.isatty() else LiveProgress()


# -- for programs ---------------------------------------------------------------------------------------------------


class JsonProgress:
    """Prints `{"answer": ...}`, then `{"queries": [...]}` repeatedly, and at the end an object with `"ended"`."""

    every = 2.0

    def busy(self, what: str) -> AbstractContextManager[object]:
        del what
        return nullcontext()

    def answer(self, listing: Listing) -> None:
        self._print({"answer": listing.entity()})

    @contextmanager
    def showing(self) -> Iterator[Callable[[Statuses], None]]:
        yield lambda statuses: self._print({"queries": [asdict(status) for status in statuses]})

    def note(self, text: str) -> None:
        """Does nothing: notes are for people."""

    def end(self, summary: Mapping[str, Any], statuses: Statuses) -> None:
        self._print({**summary, "queries": [asdict(status) for status in statuses]})

    def _print(self, document: Mapping[str, Any]) -> None:
        output.print_json({"at": output.time_text(int(time.time() * 1000)), **document})
        sys.stdout.flush()


# -- for people -----------------------------------------------------------------------------------------------------


class LineProgress:
    """Prints a line for each query every few seconds."""

    every = 5.0

    def busy(self, what: str) -> AbstractContextManager[object]:
        self.note(f"{what} ...")
        return nullcontext()

    def answer(self, listing: Listing) -> None:
        text = f"{listing.statement}\n\n{listing_text(listing, dialect_of().reserved)}\n"
        typer.echo(escape_controls(text, "\n\t"))

    @contextmanager
    def showing(self) -> Iterator[Callable[[Statuses], None]]:
        def show(statuses: Statuses) -> None:
            for status in statuses:
                self.note(status_line(status))

        yield show

    def note(self, text: str) -> None:
        output.note(text)

    def end(self, summary: Mapping[str, Any], statuses: Statuses) -> None:
        for status in statuses:
            self.note(status_line(status))
        self.note(summary_text(summary, statuses))


class LiveProgress(LineProgress):
    """A live table. It writes to a duplicate of the terminal's descriptor, as Spark takes stderr during startup."""

    every = 1.0

    def __init__(self) -> None:
        terminal = os.fdopen(os.dup(sys.stderr.fileno()), "w")
        self._console = Console(file=terminal, highlight=False, emoji=False)

    def busy(self, what: str) -> AbstractContextManager[object]:
        return self._console.status(f"{what} ...")

    @contextmanager
    def showing(self) -> Iterator[Callable[[Statuses], None]]:
        with Live(console=self._console, auto_refresh=False, transient=True) as live:
            yield lambda statuses: live.update(status_table(statuses, self._console.width), refresh=True)

    def note(self, text: str) -> None:
        self._console.print(text, markup=False, soft_wrap=True, style="dim")

    def end(self, summary: Mapping[str, Any], statuses: Statuses) -> None:
        if statuses:
            self._console.print(status_table(statuses, self._console.width))
        self.note(summary_text(summary, statuses))


COLUMNS: Mapping[str, Callable[[QueryMetrics], Any]] = {
    "query": lambda s: s.query if s.state == "running" else f"{s.query} ({s.state})",
    "mode": lambda s: s.execution_mode,
    "records/s": lambda s: f"{s.rate:,.0f}",
    "lag": lambda s: f"{s.lag:,}",
    "read": lambda s: f"{s.records:,}",
    "written": lambda s: f"{s.written:,}",
    "batch": lambda s: f"{s.batch_time['total']:,} ms" if s.batch_time else "-",
    "state": lambda s: f"{s.state_rows:,}",
    "event time": lambda s: "-" if s.event_time is None else output.time_text(s.event_time),
    "late": lambda s: f"{s.late:,}",
    "dead letters": lambda s: dead_letter_text(s.dead_letters) or "-",
}
"""Columns of the table of queries."""
_LEFT = ("query", "mode", "event time", "dead letters")


_OPTIONAL = ("late", "written", "state", "event time", "batch", "mode", "read", "dead letters")
"""Columns that a narrow terminal does not show; the first of them goes first."""


def fitting_columns(statuses: Statuses, width: int) -> dict[str, list[str]]:
    """The columns that fit into the width, each with its cells."""
    cells_by_column = {name: [str(show(status)) for status in statuses] for name, show in COLUMNS.items()}
    removable = list(_OPTIONAL)
    while removable and sum(max(map(cell_len, (name, *cells))) + 1 for name, cells in cells_by_column.items()) > width:
        del cells_by_column[removable.pop(0)]
    return cells_by_column


def status_table(statuses: Statuses, width: int = 1_000) -> Table:
    columns = fitting_columns(statuses, width)
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in columns:
        table.add_column(name, justify="left" if name in _LEFT else "right", overflow="fold")
    for cells in zip(*columns.values(), strict=True):
        table.add_row(*map(Text, cells))
    catching_up = [status for status in statuses if status.catch_up is not None]
    if not catching_up:
        return table
    grid = Table.grid(padding=(0, 2))
    grid.add_row(table)
    bars = Table.grid(padding=(0, 2))
    for status in catching_up:
        bars.add_row(
            Text(status.query), ProgressBar(total=1.0, completed=status.catch_up or 0, width=30), _catch_up_text(status)
        )
    grid.add_row(bars)
    return grid


def status_line(status: QueryMetrics) -> str:
    """`CTAS_T_0, record mode: 1,200 records/s, lag 0, 8,000 read, 12 written, ...`."""
    parts = [
        f"{status.rate:,.0f} records/s",
        f"lag {status.lag:,}{f' ({_catch_up_text(status)})' if status.catch_up is not None else ''}",
        f"{status.records:,} read",
        f"{status.written:,} written",
        f"state {status.state_rows:,}",
    ]
    if status.batch_time:
        parts.append(f"batch {status.batch_time['total']:,} ms")
    if status.event_time is not None:
        parts.append(f"event time {output.time_text(status.event_time)}")
    if status.dead_letters:
        parts.append(f"dead letters {dead_letter_text(status.dead_letters)}")
    state = "" if status.state == "running" else f" ({status.state})"
    return f"{status.query}{state}, {status.execution_mode} mode: {', '.join(parts)}"


def dead_letter_text(dead: Mapping[str, int]) -> str:
    """`3 (2 late-record, 1 bad-record)`."""
    if not dead:
        return ""
    return f"{sum(dead.values()):,} ({', '.join(f'{count:,} {code}' for code, count in sorted(dead.items()))})"


def _catch_up_text(status: QueryMetrics) -> str:
    time_left = "" if status.seconds_left is None else f", {duration_text(status.seconds_left)} left"
    return f"{100 * (status.catch_up or 0):.0f} %{time_left}"


def duration_text(seconds: float) -> str:
    """`1 h 05 min`, `3 min 20 s`, `12 s`."""
    seconds = round(seconds)
    if seconds >= 3600:
        return f"{seconds // 3600} h {seconds % 3600 // 60:02} min"
    return f"{seconds // 60} min {seconds % 60:02} s" if seconds >= 60 else f"{seconds} s"


def summary_text(summary: Mapping[str, Any], statuses: Statuses) -> str:
    """The final message."""
    read, written = sum(s.records for s in statuses), sum(s.written for s in statuses)
    parts = [f"{summary['ended']}; {len(statuses)} {'query' if len(statuses) == 1 else 'queries'}"]
    if statuses:
        parts.append(f"{read:,} records read, {written:,} written")
    dead: dict[str, int] = {}
    for status in statuses:
        for code, count in status.dead_letters.items():
            dead[code] = dead.get(code, 0) + count
    if dead:
        parts.append(f"dead letters {dead_letter_text(dead)}")
    if summary["inserted"] or summary["repeated"]:
        repeated = f", {summary['repeated']:,} already inserted" if summary["repeated"] else ""
        rows = "row" if summary["inserted"] == 1 else "rows"
        parts.append(f"{summary['inserted']:,} {rows} inserted{repeated}")
    if summary["asserts"]:
        parts.append(f"{summary['asserts']:,} asserts held")
    if summary["orphaned_checkpoints"]:
        names = ", ".join(f"{summary['program']}/{query}" for query in summary["orphaned_checkpoints"])
        parts.append(f"no longer in the script, but kept until `headrace state remove`: {names}")
    return "; ".join(parts)
