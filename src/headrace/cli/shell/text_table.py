"""Rows as a text table. Column widths are fixed once, by the types, the first rows and the terminal.

A value that is wider than its column wraps within the column. Control characters are shown as escapes, so a value
cannot move the cursor or draw over the terminal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from typing import Any

from rich.cells import cell_len, chop_cells

from headrace.cli.io.control_characters import escape_controls
from headrace.client.decimal_json import format_json

Row = Sequence[Any]
_NARROWEST = 6
_WIDTHS = {"BOOLEAN": 5, "INTEGER": 11, "BIGINT": 13, "DOUBLE": 12, "DECIMAL": 12, "DATE": 10, "TIME": 12}
_WIDTHS |= {"TIMESTAMP": 23, "STRING": 30, "VARCHAR": 30}
_OTHER_WIDTH = 40
_NUMBERS = ("INTEGER", "BIGINT", "DOUBLE", "DECIMAL")


def cell_text(value: Any) -> str:
    """Format a value for people, on one line."""
    if value is None:
        return "null"
    return escape_controls(value if isinstance(value, str) else format_json(value))


class TextTable:
    """`more` means that rows may follow the first ones; without a `width`, lines are not wrapped."""

    def __init__(
        self, names: Sequence[str], types: Sequence[str], first: Sequence[Row], *, width: int | None, more: bool
    ) -> None:
        self._names = [escape_controls(name) for name in names]
        kinds = [kind.partition("(")[0].partition("<")[0] for kind in types]
        self._is_number = [kind in _NUMBERS for kind in kinds]
        cells = [[cell_text(value) for value in row] for row in first]
        widths = [max(map(cell_len, column)) for column in zip(self._names, *cells, strict=True)]
        if more:
            widths = [max(w, _WIDTHS.get(kind, _OTHER_WIDTH)) for w, kind in zip(widths, kinds, strict=True)]
        self._widths = widths if width is None else fit_widths(widths, width - 3 * len(widths) + 1)
        self._folds = width is not None
        self.fits = width is None or sum(self._widths) + 3 * len(self._widths) - 1 <= width
        """Whether the lines are not wider than the terminal: each column needs a few characters."""

    def head(self) -> Iterator[str]:
        yield from self._lines(self._names)
        yield self.rule()

    def rule(self) -> str:
        return "-" * (sum(self._widths) + 3 * len(self._widths) - 1)

    def row(self, row: Row) -> Iterator[str]:
        return self._lines([cell_text(value) for value in row])

    def _lines(self, cells: Sequence[str]) -> Iterator[str]:
        folded = [
            chop_cells(cell, width) if self._folds and cell_len(cell) > width else [cell]
            for cell, width in zip(cells, self._widths, strict=True)
        ]
        for parts in zip_longest(*folded, fillvalue=""):
            padded = map(self._padded, parts, self._widths, self._is_number)
            yield f" {' | '.join(padded)}".rstrip()

    @staticmethod
    def _padded(cell: str, width: int, is_number: bool) -> str:
        space = " " * (width - cell_len(cell))
        return space + cell if is_number else cell + space


def fit_widths(widths: Sequence[int], total: int) -> list[int]:
    """Shrink the widths to the sum `room`, widest first; each retains a few characters."""
    least = [min(width, _NARROWEST) for width in widths]
    cap = max(widths, default=0)
    while cap > _NARROWEST and sum(min(width, cap) for width in widths) > total:
        cap -= 1
    return [max(low, min(width, cap)) for low, width in zip(least, widths, strict=True)]


def vertical_row(number: int, names: Sequence[str], row: Row) -> Iterator[str]:
    """One row, with one line per column."""
    width = max(map(cell_len, names), default=0)
    yield f"-[ row {number} ]{'-' * width}"
    for name, value in zip(names, row, strict=True):
        yield f"{escape_controls(name)}{' ' * (width - cell_len(name))} | {cell_text(value)}"


def listing_table(width: int) -> Callable[[Sequence[str], Sequence[Row]], list[str]]:
    """A function that draws the table of a listing in a terminal of that width, or its rows line by line."""

    def draw(headings: Sequence[str], rows: Sequence[Row]) -> list[str]:
        grid = TextTable(headings, ["STRING"] * len(headings), rows, width=width, more=False)
        if not grid.fits:
            return [line for number, row in enumerate(rows, 1) for line in vertical_row(number, headings, row)]
        body = [*(line for row in rows for line in grid.row(row)), grid.rule()] if rows else []
        return [*grid.head(), *body]

    return draw
