"""Output of commands: results on standard output as tables or JSON, everything else on standard error."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer
from rich.console import Console
from rich.table import Table

from headrace.cli.io.control_characters import escape_controls, escape_json_controls
from headrace.settings import Size, duration_text, size_text

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn

_GAP = 2  # columns between two columns of a table
_UNBOUNDED = 10_000  # columns: in a pipe a table is as wide as its rows

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def stdout_console() -> Console:
    return Console(width=None if sys.stdout.isatty() else _UNBOUNDED, highlight=False, emoji=False)


def stderr_console() -> Console:
    return Console(stderr=True, highlight=False, emoji=False)


def note(text: str) -> None:
    """Print a message for the person at the terminal, on standard error."""
    stderr_console().print(escape_controls(text, "\n"), markup=False, soft_wrap=True, style="dim")


def print_json(value: Any) -> None:
    """Print one JSON document on one line."""
    text = orjson.dumps(value, default=_plain).decode()
    sys.stdout.write((escape_json_controls(text) if sys.stdout.isatty() else text) + "\n")


def print_rows(rows: Sequence[Mapping[str, Any]], *, as_json: bool, columns: Iterable[str], empty: str) -> None:
    """Print rows as a JSON array, or the given columns of them as a table."""
    if as_json:
        print_json([dict(row) for row in rows])
    elif not rows:
        note(empty)
    else:
        print_table(stdout_console(), rows, list(columns))


def print_table(console: Console, rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
    """Print rows as a table; one value per line if the terminal is too narrow for it without breaking words."""
    widths = _column_widths(rows, columns, console.width)
    if widths is not None:
        console.print(table(rows, columns, widths=widths))
        return
    for number, row in enumerate(rows):
        if number:
            console.print()
        console.print(details({name: row[name] for name in columns}))


def _column_widths(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], available: int) -> list[int] | None:
    """Widths at which headings and sentences wrap between words only; None if there is too little room."""
    texts = [[_heading(name), *(value_text(row[name]) for row in rows)] for name in columns]
    widths = [max(len(word) for text in column for word in text.split() or [""]) for column in texts]
    room = available - sum(widths) - _GAP * (len(columns) - 1)
    if room < 0:
        return None
    for number, column in enumerate(texts):
        more = min(room, max(map(len, column)) - widths[number])
        widths[number], room = widths[number] + more, room - more
    return widths


def table(
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[str],
    title: str | None = None,
    widths: Sequence[int | None] = (),
) -> Table:
    """Rows as a table; numbers are right-aligned."""
    grid = Table(
        title=title, title_justify="left", box=None, header_style="bold", padding=(0, _GAP, 0, 0), pad_edge=False
    )
    for name, width in zip_longest(columns, widths):
        is_number = all(isinstance(row[name], int | float) for row in rows)
        grid.add_column(_heading(name), justify="right" if is_number else "left", overflow="fold", width=width)
    for row in rows:
        grid.add_row(*(_cell(row[name]) for name in columns))
    return grid


def details(values: Mapping[str, Any]) -> Table:
    """Names and values, one pair per line."""
    grid = Table(box=None, show_header=False, pad_edge=False)
    grid.add_column(style="bold")
    grid.add_column(overflow="fold")
    for name, value in values.items():
        grid.add_row(_heading(name), _cell(value))
    return grid


def progress(*columns: ProgressColumn) -> Progress:
    """A progress bar on standard error, shown only on a terminal."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = stderr_console()
    default = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f}%"))
    return Progress(
        *(columns or (*default, TimeRemainingColumn())),
        console=console,
        disable=not console.is_terminal,
        transient=True,
    )


def value_text(value: Any) -> str:
    """Format a value for people."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, timedelta):
        return duration_text(value)
    if isinstance(value, Size):
        return size_text(value)
    return f"{value:,}" if isinstance(value, int) else escape_controls(str(value), "\n")


def time_text(ms: int) -> str:
    """Format a time as ISO text, in UTC."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _heading(name: str) -> str:
    return escape_controls(name.replace("_", " "))


def _cell(value: Any) -> str:
    return value_text(value).replace("[", r"\[")


def _plain(value: Any) -> Any:
    if isinstance(value, timedelta):
        return duration_text(value)
    if isinstance(value, int):  # a size
        return int(value)
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")
