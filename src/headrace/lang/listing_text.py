"""Renders metadata results as plain text like ksqlDB's shell, without colours and without trailing spaces."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterator, Sequence
from typing import Any

import pyarrow as pa

from headrace.lang.listing import Column, Fact, Listing, Table, TypeCell
from headrace.plan import types as t

_HEADING_WIDTH = 20
_LINE_BREAK = re.compile(r"\s*\n\s*")
_PLAIN = re.compile(r"[A-Z_][A-Z0-9_]*")


DrawTable = Callable[[Sequence[str], Sequence[Sequence[str]]], list[str]]
"""Renders headings and rows of one-line cells as lines."""


def listing_text(listing: Listing, reserved: Container[str] = (), draw: DrawTable | None = None) -> str:
    """Renders a listing; a name that is no plain upper-case word, or is `reserved`, is in backticks."""
    return "\n".join(_Text(reserved, draw or _grid).lines(listing))


def table_cells(listing: Listing, reserved: Container[str] = ()) -> Iterator[tuple[list[str], list[list[str]]]]:
    """Yields the headings and cells of each displayed table, including those of its parts."""
    text = _Text(reserved)
    yield from (text.cells(table) for table in _tables_with_headings(listing))
    for part in listing.parts:
        yield from table_cells(part, reserved)


def fact_texts(listing: Listing, reserved: Container[str] = ()) -> list[tuple[str, str]]:
    """Returns the heading and text of each displayed fact, including those of its parts."""
    text = _Text(reserved)
    own = [(fact.heading, text.cell(fact, fact.value)) for fact in listing.facts if fact.heading]
    return own + [pair for part in listing.parts for pair in fact_texts(part, reserved)]


def quote_identifier(name: str, reserved: Container[str] = ()) -> str:
    """Quotes a name for use in a statement."""
    return name if _PLAIN.fullmatch(name) and name not in reserved else t.identifier_text(name)


def inline_row(headings: Sequence[str], row: Sequence[Any]) -> str:
    """Renders a row on one line."""
    return ", ".join(f"{heading}: {cell}" for heading, cell in zip(headings, row, strict=True))


def shell_type_text(kind: pa.DataType, reserved: Container[str] = ()) -> str:
    """`VARCHAR(STRING)`, `ARRAY<INTEGER>`, ``STRUCT<ID INTEGER, `lastName` VARCHAR(STRING)>``."""
    if kind == t.STRING:
        return "VARCHAR(STRING)"
    if t.is_array(kind):
        return f"ARRAY<{shell_type_text(kind.value_type, reserved)}>"
    if t.is_map(kind):
        return f"MAP<{t.type_text(kind.key_type)}, {shell_type_text(kind.item_type, reserved)}>"
    if t.is_struct(kind):
        inner = (
            f"{quote_identifier(name, reserved)} {shell_type_text(part, reserved)}"
            for name, part in t.fields(kind).items()
        )
        return f"STRUCT<{', '.join(inner)}>"
    return t.type_text(kind)


class _Text:
    def __init__(self, reserved: Container[str], draw: DrawTable | None = None) -> None:
        self._reserved = reserved
        self._draw = draw or _grid

    def lines(self, listing: Listing) -> Iterator[str]:
        """Yields the sections, separated by an empty line."""
        for number, piece in enumerate(self._pieces(listing)):
            yield from ["", *piece] if number else piece

    def _pieces(self, listing: Listing) -> Iterator[list[str]]:
        tables = _tables_with_headings(listing)
        inline = any(table.inline for table in tables)
        facts = [self._fact(fact, 0 if inline else _HEADING_WIDTH) for fact in listing.facts if fact.heading]
        untitled = [line for table in tables if not table.title for line in self._table(table)]
        yield from filter(None, [[*facts, *untitled]])
        yield from (_titled(table.title, self._table(table)) for table in tables if table.title and table.rows)
        yield from (_titled(text.heading, str(text.value).splitlines()) for text in listing.texts if text.heading)
        yield from (list(self.lines(part)) for part in listing.parts)
        if listing.notes:
            yield list(listing.notes)

    def _fact(self, fact: Fact, width: int) -> str:
        heading = f"{fact.heading:<{width}} " if width else fact.heading
        return f"{heading}: {self.cell(fact, fact.value)}".rstrip()

    def _table(self, table: Table) -> list[str]:
        headings, cells = self.cells(table)
        if table.inline:
            return [inline_row(headings, row) for row in cells]
        return self._draw(headings, [[_LINE_BREAK.sub(" ", cell) for cell in row] for row in cells])

    def cells(self, table: Table) -> tuple[list[str], list[list[str]]]:
        """Returns the headings and the cells below them."""
        columns = [(place, column) for place, column in enumerate(table.columns) if column.heading]
        cells = [[self.cell(column, row[place]) for place, column in columns] for row in table.rows]
        return [column.heading for _, column in columns], cells

    def cell(self, column: Column | Fact, value: Any) -> str:
        if isinstance(value, tuple | list):
            return ", ".join(self.cell(column, item) for item in value)
        if isinstance(value, TypeCell):
            return f"{shell_type_text(value.type, self._reserved)}  {value.mark}".rstrip()
        if isinstance(value, bool):
            return str(value).lower()
        text = "" if value is None else str(value)
        return quote_identifier(text, self._reserved) if column.is_name and text else text


def _tables_with_headings(listing: Listing) -> list[Table]:
    return [table for table in listing.tables if any(column.heading for column in table.columns)]


def _titled(title: str, lines: Sequence[str]) -> list[str]:
    return [title, "-" * len(title), *lines]


def _grid(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    rule = "-" * (sum(widths) + 3 * len(widths) - 1)
    body = [rule, *(_row(row, widths) for row in rows), rule] if rows else [rule]
    return [_row(headings, widths), *body]


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    return f" {' | '.join(f'{cell:<{width}}' for cell, width in zip(cells, widths, strict=True))}".rstrip()
