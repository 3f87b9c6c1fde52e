"""The views pages: a grid over a view, with a condition, an order and a search over all columns."""

from __future__ import annotations

from typing import Any

from nicegui import ui

from headrace.serve.api.resources.views import ViewDescription, ViewRequest, get_view
from headrace.serve.console.page_context import PageContext
from headrace.serve.console.pages.dashboards import ChartBuilder
from headrace.serve.console.poller import ServerSnapshot
from headrace.serve.console.query_states import starting_queries, starting_text
from headrace.serve.console.view_queries import GridRequest, ViewRows
from headrace.serve.console.widgets.layout import (
    Column,
    Facts,
    Grid,
    auto_refresh,
    cells,
    html_tag,
    html_text,
    integer_cell,
    notify_errors,
    page_link,
)
from headrace.serve.console.widgets.number_format import plural

MAX_SHOWN_ROWS = 1_000
"""Maximum rows that a grid shows."""


async def views(context: PageContext) -> None:
    grid = Grid(
        Column("name", "View"),
        Column("topic", "Topic"),
        Column("lag", "Lag", right=True),
        Column("state", "State", wraps=True),
        label="Views",
        empty="No views yet. Each table has one: create a table on the Statements page.",
    )

    def show(moment: ServerSnapshot) -> None:
        grid.show([_row(one, moment) for one in moment.views])

    await auto_refresh(context, show)


def _row(view: dict[str, Any], moment: ServerSnapshot) -> dict[str, object]:
    own = {"name": view["name"], "topic": view["topic"], "lag": integer_cell(view["lag"])}
    return {**own, "state": _state(view, moment), "link": page_link("views", view["name"])}


def _state(view: dict[str, Any], moment: ServerSnapshot) -> str:
    if view["failure"]:
        return f"failed: {view['failure']['what']}"
    starting_note = starting_text(starting_queries(moment, [view["name"]]))
    return starting_note or ("catching up" if view["lag"] else "up to date")


async def view(context: PageContext, view: str) -> None:
    described: ViewDescription = await context.call(get_view, ViewRequest(view=view))
    facts = Facts(topic=described.topic, changes=described.version, skipped_records=described.skipped)
    html_text("h2", "Rows")
    table = ViewGrid(context, described)
    await table.show()
    html_text("h2", "Chart")
    builder = ChartBuilder(context, described)

    async def refresh(_: ServerSnapshot) -> None:
        now: ViewDescription = await context.call(get_view, ViewRequest(view=view))
        facts.show(changes=now.version, skipped_records=now.skipped)
        await table.show(quiet=True)
        await builder.show()

    await auto_refresh(context, refresh)


class ViewGrid:
    """The current rows of a view."""

    def __init__(self, context: PageContext, described: ViewDescription) -> None:
        self._context, self._view = context, described.name
        with html_tag("form").classes("hr-row").on("submit.prevent", self.show):
            self._search = ui.input("Search all columns").props("clearable dense outlined")
            self._where = ui.input("Filter (WHERE)", placeholder="n > 10").props("clearable dense outlined")
            self._order = ui.input("Sort (ORDER BY)", placeholder="n DESC").props("clearable dense outlined")
            ui.button("Apply").props("type=submit unelevated no-caps")
        self._summary = html_text("p", "").classes("hr-summary").props("role=status")
        self._place = html_tag("div")
        self._columns: list[str] = []
        self._shown: ViewRows | None = None

    async def show(self, *, quiet: bool = False) -> None:
        with notify_errors(quiet=quiet):
            where, order, search_text = (one.value or "" for one in (self._where, self._order, self._search))
            result: ViewRows = await self._context.cached(
                GridRequest(self._view, where, order, search_text, MAX_SHOWN_ROWS + 1)
            )
            starting = starting_text(starting_queries(await self._context.snapshot(), [self._view]))
            self._summary.set_text(_summary(result, starting))
            if result is self._shown:  # unchanged
                return
            self._shown, rows = result, result.rows[:MAX_SHOWN_ROWS]
            if result.columns != self._columns:
                self._columns = result.columns
                self._place.clear()
                with self._place:
                    columns = [Column(f"c{i}", name) for i, name in enumerate(self._columns)]
                    self._grid = Grid(*columns, key="$", page=25, label=self._view, empty="")
            self._grid.show([{"$": n} | cells(row, result.times) for n, row in enumerate(rows)])


def _summary(result: ViewRows, starting: str) -> str:
    """How many rows there are; `starting` says which queries they still wait for."""
    if len(result.rows) > MAX_SHOWN_ROWS:
        summary = f"The first {MAX_SHOWN_ROWS:,} rows; filter or search to see others"
    else:
        summary = plural(len(result.rows), "row")
    if starting:
        summary = f"{starting}: more results follow. {summary} so far" if result.rows else f"{starting}: no results yet"
    return summary
