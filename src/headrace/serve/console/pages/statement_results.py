"""Results of statements: messages, listings, and the rows of queries."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from headrace.control.statements.apply import StatementResult
from headrace.errors import HeadraceError
from headrace.lang.listing import Listing
from headrace.lang.listing_text import fact_texts, table_cells
from headrace.serve.console.widgets.layout import Column, Grid, cells, html_tag, html_text
from headrace.serve.console.widgets.number_format import plural

MAX_SHOWN_ROWS = 500
"""Maximum rows of a result that a page shows."""


class ResultGrid:
    """Rows of a result, newest at the top."""

    def __init__(self, columns: list[str], times: Collection[int] = ()) -> None:
        self._times = times
        self._held: list[dict[str, object]] = []
        self._count = 0
        self._summary = html_text("p", "Waiting for rows…").classes("hr-summary").props("role=status")
        numbered = [Column(f"c{i}", name) for i, name in enumerate(columns)]
        self._grid = Grid(Column("$", "#", right=True), *numbered, label="Rows", empty="")

    def add(self, rows: list[list[Any]]) -> None:
        for row in rows:
            self._count += 1
            self._held.insert(0, {"$": self._count} | cells(row, self._times))
        del self._held[MAX_SHOWN_ROWS:]
        self._grid.show(list(self._held))
        newest = f", newest {MAX_SHOWN_ROWS} shown" if self._count > MAX_SHOWN_ROWS else ""
        self._summary.set_text(f"{plural(self._count, 'row')} so far{newest}")

    def wait(self, reason: str) -> None:
        """Say why there are no rows yet."""
        if not self._count:
            self._summary.set_text(reason)

    def end(self, failure: HeadraceError | None = None, *, are_more: bool = False, starting: str = "") -> None:
        """Say how many rows there are; `starting` says which queries they still wait for."""
        summary = f"The first {plural(self._count, 'row')}" if are_more else plural(self._count, "row")
        if starting:
            summary = f"{starting}: the result is not complete yet, run it again later. {summary} so far"
        if failure is not None:
            summary += f"; {failure.what}" + (f": {failure.fix}" if failure.fix else "")
        self._summary.set_text(summary)


def show_result(outcome: StatementResult) -> None:
    first = outcome.text.strip().splitlines()[0]
    html_text("p", f"OK: {first}").classes("hr-done")
    if outcome.answer is not None:
        _show_listing(outcome.answer)


def _show_listing(answer: Listing) -> None:
    facts = fact_texts(answer)
    if facts:
        with html_tag("dl").classes("hr-facts"):
            for heading, text in facts:
                with html_tag("div").classes("hr-span" if len(text) > _LONG_TEXT else ""):
                    html_text("dt", heading)
                    html_text("dd", text)
    for headings, rows in table_cells(answer):
        grid = Grid(*(Column(f"c{i}", name, wraps=True) for i, name in enumerate(headings)), key="$")
        grid.show([{"$": number} | cells(row) for number, row in enumerate(rows)])
    for text in answer.texts:
        if text.heading:
            html_text("h2", text.heading)
            html_text("pre", str(text.value)).classes("hr-text")


_LONG_TEXT = 40  # characters from which a fact has a line of its own
