"""Results and rows on standard output: for people, as JSON, or as CSV.

JSON is one object per line. Values are exact: decimals retain all digits. The one exception is `csv`, which people open
in a spreadsheet: text that would be evaluated as a formula gets a leading quote. `csv-exact` leaves it unchanged.
"""

from __future__ import annotations

import csv
import io
import itertools
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from headrace.cli.io.control_characters import escape_controls, escape_json_controls
from headrace.cli.io.csv_injection import escape_formula
from headrace.cli.shell.row_buffer import RowBuffer
from headrace.cli.shell.text_table import Row, TextTable, cell_text, listing_table, vertical_row
from headrace.client.decimal_json import format_json
from headrace.lang.ksql.describe.entity_reader import read_entity
from headrace.lang.ksql.grammar.keywords import RESERVED
from headrace.lang.listing import Column, Listing, Table
from headrace.lang.listing_text import inline_row, listing_text, table_cells

_FIRST = 200  # rows that determine the column widths
_HEADINGS_AFTER = 1.0  # seconds until the headings are shown even without a row
_FURTHER_ROWS_AFTER = 0.25  # seconds to wait for more rows after the first one


class OutputFormat(Protocol):
    def answer(self, entity: Mapping[str, Any]) -> None:
        """Show the result of a statement."""
        ...

    def results(self, documents: Sequence[Mapping[str, Any]]) -> None:
        """Show the results of a script in another dialect than KSQL."""
        ...

    def rows(self, arrivals: RowBuffer) -> int:
        """Show the rows of a query as they arrive; returns their number."""
        ...

    def records(self, arrivals: RowBuffer) -> int:
        """Show the records of PRINT as they arrive; returns their number."""
        ...


def _results_listing(documents: Sequence[Mapping[str, Any]]) -> Listing:
    """One line per statement: its action, and the source and query that it created or changed."""
    columns = (Column("action", "Action"), Column("source", "Source", is_name=True), Column("query", "Query"))
    rows = tuple(tuple(one.get(column.name) or "" for column in columns) for one in documents)
    return Listing("results", tables=(Table("results", columns, rows),))


def terminal_width() -> int | None:
    """The number of columns; None if the output is no terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def write(lines: Iterable[str]) -> None:
    """Write all lines at once, and flush."""
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


# -- for people -----------------------------------------------------------------------------------------------------


class TableOutput:
    def answer(self, entity: Mapping[str, Any]) -> None:
        self._print(read_entity(entity))

    def results(self, documents: Sequence[Mapping[str, Any]]) -> None:
        self._print(_results_listing(documents))

    def _print(self, listing: Listing) -> None:
        width = terminal_width()
        text = listing_text(listing, RESERVED, listing_table(width) if width else None)
        write([*escape_controls(text, "\n").split("\n"), ""])

    def rows(self, arrivals: RowBuffer) -> int:
        first = arrivals.first(_FIRST, _HEADINGS_AFTER, _FURTHER_ROWS_AFTER)
        more = not arrivals.has_ended
        grid = TextTable(arrivals.names, arrivals.types, first, width=terminal_width(), more=more)
        if not grid.fits:
            return _vertical(arrivals, first)
        write([*grid.head(), *(line for row in first for line in grid.row(row))])
        return len(first) + _counted(arrivals, lambda batch: (line for row in batch for line in grid.row(row)))

    def records(self, arrivals: RowBuffer) -> int:
        """One record per line: a value may be long."""
        formats = zip(("Key format", "Value format"), arrivals.formats, strict=False)
        write(f"{heading}: {form}" for heading, form in formats)
        names = arrivals.names
        return _counted(arrivals, lambda batch: (inline_row(names, list(map(cell_text, row))) for row in batch))


class VerticalOutput(TableOutput):
    """Shows one value per line."""

    def rows(self, arrivals: RowBuffer) -> int:
        return _vertical(arrivals, [])

    records = rows


def _vertical(arrivals: RowBuffer, first: Sequence[Row]) -> int:
    """Write one value per line: of the first rows, then of those that follow."""
    numbers = itertools.count(1)

    def lines(rows: Iterable[Row]) -> Iterator[str]:
        return (line for row in rows for line in vertical_row(next(numbers), arrivals.names, row))

    write(lines(first))
    return len(first) + _counted(arrivals, lines)


def _counted(arrivals: RowBuffer, render: Callable[[list[Any]], Iterable[str]]) -> int:
    count = 0
    for batch in arrivals.batches():
        write(render(batch))
        count += len(batch)
    return count


# -- for programs ---------------------------------------------------------------------------------------------------


def _json(value: Any) -> str:
    text = format_json(value)
    return escape_json_controls(text) if sys.stdout.isatty() else text


class JsonOutput:
    def answer(self, entity: Mapping[str, Any]) -> None:
        write([_json(entity)])

    def results(self, documents: Sequence[Mapping[str, Any]]) -> None:
        write(map(_json, documents))

    def rows(self, arrivals: RowBuffer) -> int:
        names = arrivals.names
        return _counted(arrivals, lambda batch: (_json(dict(zip(names, row, strict=True))) for row in batch))

    records = rows


class CsvOutput:
    """Nulls are empty; arrays, maps and structs are JSON. Of a result, its tables are shown, each with its headings."""

    def __init__(self, text: Callable[[str], str] = escape_formula) -> None:
        self._text = text

    def answer(self, entity: Mapping[str, Any]) -> None:
        self._print(read_entity(entity))

    def results(self, documents: Sequence[Mapping[str, Any]]) -> None:
        self._print(_results_listing(documents))

    def _print(self, listing: Listing) -> None:
        for headings, cells in table_cells(listing, RESERVED):
            write(self._lines([headings, *cells]))

    def rows(self, arrivals: RowBuffer) -> int:
        write(self._lines([arrivals.names]))
        return _counted(arrivals, self._lines)

    records = rows

    def _lines(self, rows: Iterable[Sequence[Any]]) -> Iterator[str]:
        lines = io.StringIO()
        csv.writer(lines, lineterminator="\n").writerows([self._cell(value) for value in row] for row in rows)
        text = lines.getvalue().removesuffix("\n")
        yield escape_controls(text, "\n\t") if sys.stdout.isatty() else text

    def _cell(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._text(value)
        return value if value is None else format_json(value)


OUTPUTS: Mapping[str, Callable[[], OutputFormat]] = {
    "table": TableOutput,
    "json": JsonOutput,
    "csv": CsvOutput,
    "csv-exact": lambda: CsvOutput(str),
}
