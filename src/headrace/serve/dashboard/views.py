"""Views: tables that can be asked. A grid with a condition, an order and a search over all columns."""

from __future__ import annotations

import json
from typing import Any

from nicegui import ui

from headrace.serve.api.views import Described, Named, Rows, get_view, rows_of_view
from headrace.serve.dashboard.desk import Desk
from headrace.serve.dashboard.frame import Column, Facts, Grid, cell, link, moving, notified, tag, text
from headrace.serve.dashboard.pulse import Moment

MOST = 1_000


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
    own = {name: view[name] for name in ("name", "topic", "lag")}
    return {**own, "failure": failure, "link": link("views", view["name"])}


async def view(desk: Desk, view: str) -> None:
    described: Described = await desk.ask(get_view, Named(view=view))
    facts = Facts(topic=described.topic, version=described.version, skipped=described.skipped)
    table = Table(desk, described)
    await table.show()
    version = described.version

    async def look(_: Moment) -> None:
        nonlocal version
        now: Described = await desk.ask(get_view, Named(view=view))
        if now.version != version:
            version = now.version
            facts.show(version=now.version, skipped=now.skipped)
            await table.show(quiet=True)

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

    async def show(self, *, quiet: bool = False) -> None:
        with notified(quiet=quiet):
            asked = Rows(view=self._view, where=self._where.value or None, order=self._order.value or None, limit=MOST)
            found = json.loads(await self._desk.ask(rows_of_view, asked))
            rows = [row for row in found["rows"] if _holds(row, self._search.value or "")]
            if found["columns"] != self._columns:
                self._columns = found["columns"]
                self._place.clear()
                with self._place:
                    columns = [Column(f"c{i}", name) for i, name in enumerate(self._columns)]
                    self._grid = Grid(*columns, key="$", page=25, label=self._view)
            self._grid.show([{"$": n} | {f"c{i}": cell(v) for i, v in enumerate(row)} for n, row in enumerate(rows)])
            most = f" (the first {MOST:,} were looked at)" if len(found["rows"]) == MOST else ""
            self._told.set_text(f"{len(rows):,} rows{most}")


def _holds(row: list[Any], wanted: str) -> bool:
    return not wanted or any(wanted.lower() in str(one).lower() for one in row)
