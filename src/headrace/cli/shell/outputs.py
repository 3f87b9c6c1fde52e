"""Answers and rows on standard output: for people, as JSON, or as CSV.

JSON is one object per line. Values are exact: decimals keep their digits. But in `csv`, which people open, a text that
a spreadsheet would take for a formula gets a quote in front; `csv-exact` leaves it alone.
"""

from __future__ import annotations

import csv
import io
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from headrace.cli.formulas import defused
from headrace.cli.shell.arrivals import Arrivals
from headrace.cli.shell.grid import Grid, cell_text, harmless, stanza
from headrace.client.documents import json_text
from headrace.lang.ksql.keywords import RESERVED
from headrace.plan.answers.entities import listing_of
from headrace.plan.answers.text import inline, listing_text, table_cells

_FIRST = 200  # rows that settle the columns' widths
_PATIENCE = 1.0  # seconds until the headings are shown though there is no row
_SHORTLY = 0.25  # seconds behind the first row, for others


class Output(Protocol):
    def answer(self, entity: Mapping[str, Any]) -> None:
        """What became of a statement."""
        ...

    def rows(self, arrivals: Arrivals) -> int:
        """The rows of a query, as they come; their number."""
        ...

    def records(self, arrivals: Arrivals) -> int:
        """The same of PRINT."""
        ...


def write(lines: Iterable[str]) -> None:
    """All at once, and on their way."""
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


# -- for people -----------------------------------------------------------------------------------------------------


class Tables:
    def answer(self, entity: Mapping[str, Any]) -> None:
        write([*harmless(listing_text(listing_of(entity), RESERVED), "\n").split("\n"), ""])

    def rows(self, arrivals: Arrivals) -> int:
        first = arrivals.first(_FIRST, _PATIENCE, _SHORTLY)
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        grid = Grid(arrivals.names, arrivals.types, first, width=width, more=not arrivals.has_ended)
        write([*grid.head(), *(line for row in first for line in grid.row(row))])
        return len(first) + _counted(arrivals, lambda batch: (line for row in batch for line in grid.row(row)))

    def records(self, arrivals: Arrivals) -> int:
        """On a line each: a value may be long."""
        told = zip(("Key format", "Value format"), arrivals.formats, strict=False)
        write(f"{heading}: {form}" for heading, form in told)
        names = arrivals.names
        return _counted(arrivals, lambda batch: (inline(names, list(map(cell_text, row))) for row in batch))


class Stanzas(Tables):
    """A line for each value."""

    def rows(self, arrivals: Arrivals) -> int:
        numbered = iter(range(1, sys.maxsize))
        return _counted(
            arrivals, lambda batch: (line for row in batch for line in stanza(next(numbered), arrivals.names, row))
        )

    records = rows


def _counted(arrivals: Arrivals, shown: Callable[[list[Any]], Iterable[str]]) -> int:
    count = 0
    for batch in arrivals.batches():
        write(shown(batch))
        count += len(batch)
    return count


# -- for programs ---------------------------------------------------------------------------------------------------


class Json:
    def answer(self, entity: Mapping[str, Any]) -> None:
        write([json_text(entity)])

    def rows(self, arrivals: Arrivals) -> int:
        names = arrivals.names
        return _counted(arrivals, lambda batch: (json_text(dict(zip(names, row, strict=True))) for row in batch))

    records = rows


class Csv:
    """Nulls are empty; lists, maps and structs are JSON. Of an answer its tables, each with its headings."""

    def __init__(self, text: Callable[[str], str] = defused) -> None:
        self._text = text

    def answer(self, entity: Mapping[str, Any]) -> None:
        for headings, cells in table_cells(listing_of(entity), RESERVED):
            write(self._lines([headings, *cells]))

    def rows(self, arrivals: Arrivals) -> int:
        write(self._lines([arrivals.names]))
        return _counted(arrivals, self._lines)

    records = rows

    def _lines(self, rows: Iterable[Sequence[Any]]) -> Iterator[str]:
        written = io.StringIO()
        csv.writer(written, lineterminator="\n").writerows([self._cell(value) for value in row] for row in rows)
        yield written.getvalue().removesuffix("\n")

    def _cell(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._text(value)
        return value if value is None else json_text(value)


OUTPUTS: Mapping[str, Callable[[], Output]] = {"table": Tables, "json": Json, "csv": Csv, "csv-exact": lambda: Csv(str)}
