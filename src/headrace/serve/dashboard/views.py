"""Views: tables that can be asked. A grid with a condition, an order and a search over all columns."""

from __future__ import annotations

from typing import Any

from nicegui import ui

from headrace.serve.api.views import Described, Named, get_view
from headrace.serve.dashboard.asking import Answer, Rows
from headrace.serve.dashboard.boards import Builder
from headrace.serve.dashboard.desk import Desk
from headrace.serve.dashboard.frame import Column, Facts, Grid, cells, link, moving, notified, tag, text, whole
from headrace.serve.dashboard.pulse import Moment

MOST = 1_000
"""Rows that a grid shows."""


async def views(desk: Desk) -> None:
    grid = Grid(
        Column("name", "View"),
        Column("topic", "Topic"),
        Column("lag", "Behind", right=True),
        Column("failure", "Failure"),
        label="Views",
    )

    def show(moment: Moment) -> None:
        grid.show([_row(one) for one in moment.views])

    await moving(desk, show)


def _row(view: dict[str, Any]) -> dict[str, object]:
    failure = view["failure"]["what"] if view["failure"] else ""
    own = {"name": view["name"], "topic": view["topic"], "lag": whole(view["lag"])}
    return {**own, "failure": failure, "link": link("views", view["name"])}


async def view(desk: Desk, view: str) -> None:
    described: Described = await desk.ask(get_view, Named(view=view))
    facts = Facts(topic=described.topic, version=described.version, skipped=described.skipped)
    text("h2", "Rows")
    table = Table(desk, described)
    await table.show()
    text("h2", "Chart")
    builder = Builder(desk, described)

    async def look(_: Moment) -> None:
        now: Described = await desk.ask(get_view, Named(view=view))
        facts.show(version=now.version, skipped=now.skipped)
        await table.show(quiet=True)
        await builder.show()

    await moving(desk, look)


class Table:
    """Rows of a view, as they are now."""

    def __init__(self, desk: Desk, described: Described) -> None:
        self._desk, self._view = desk, described.name
        with tag("form").classes("hr-row").on("submit.prevent", self.show):
            self._search = ui.input("Search in all columns").props("clearable dense outlined")
            self._where = ui.input("Condition", placeholder="n > 10").props("clearable dense outlined")
            self._order = ui.input("Order", placeholder="n DESC").props("clearable dense outlined")
            ui.button("Show").props("type=submit unelevated no-caps")
        self._told = text("p", "").classes("hr-told").props("role=status")
        self._place = tag("div")
        self._columns: list[str] = []
        self._shown: Answer | None = None

    async def show(self, *, quiet: bool = False) -> None:
        with notified(quiet=quiet):
            where, order, wanted = (one.value or "" for one in (self._where, self._order, self._search))
            found: Answer = await self._desk.share(Rows(self._view, where, order, wanted, MOST + 1))
            if found is self._shown:  # nothing has changed since
                return
            self._shown, rows = found, found.rows[:MOST]
            if found.columns != self._columns:
                self._columns = found.columns
                self._place.clear()
                with self._place:
                    columns = [Column(f"c{i}", name) for i, name in enumerate(self._columns)]
                    self._grid = Grid(*columns, key="$", page=25, label=self._view)
            self._grid.show([{"$": n} | cells(row, found.times) for n, row in enumerate(rows)])
            more = ", and there are more" if len(found.rows) > MOST else ""
            self._told.set_text(f"{len(rows):,} rows{more}")
