"""Charts: built over a view, kept on dashboards that have a name, and moving wherever they are shown."""

from __future__ import annotations

import logging
from dataclasses import asdict, replace
from typing import Any

from nicegui import ui
from nicegui.elements.mixins.text_element import TextElement

from headrace.errors import HeadraceError
from headrace.serve.api.boards import (
    Board,
    Named,
    One,
    add_panel,
    delete_board,
    get_board,
    list_boards,
    remove_panel,
)
from headrace.serve.api.views import Described
from headrace.serve.dashboard.asking import Drawing
from headrace.serve.dashboard.charts import KINDS, Drawn, Panel, lacking, undrawn
from headrace.serve.dashboard.desk import Desk
from headrace.serve.dashboard.frame import Column, Grid, asked, link, moving, notified, tag, text
from headrace.serve.dashboard.pulse import Moment

_BOUNDS = ["WINDOWSTART", "WINDOWEND"]


async def boards(desk: Desk) -> None:
    found: list[Board] = await desk.ask(list_boards)
    grid = Grid(Column("title", "Dashboard"), Column("charts", "Charts", right=True), label="Dashboards")
    grid.show([{"title": one.title, "charts": len(one.panels), "link": link("boards", one.name)} for one in found])
    if not found:
        text("p", "None yet. Open a view, build a chart, and save it under a name.").classes("hr-empty")
        ui.link("to the views", "/views")


async def board(desk: Desk, board: str) -> None:
    found: Board = await desk.ask(get_board, Named(board=board))
    charts: list[Chart] = []
    with tag("div").classes("hr-board"):
        for told in found.panels:
            panel = Panel.of(told)
            with tag("section").classes("hr-panel"):
                with tag("div").classes("hr-row"):
                    text("h2", panel.name)
                    ui.space()
                    remove = ui.button(icon="close", on_click=_removing(desk, board, told)).props("flat dense round")
                    remove._props["aria-label"] = f"Remove {panel.name}"
                charts.append(Chart(desk, panel))
    with tag("div").classes("hr-row"):
        ui.button("Delete this dashboard", on_click=lambda: _delete(desk, board)).props("flat no-caps color=negative")

    async def show(_: Moment) -> None:
        for chart in charts:
            await chart.show()

    await moving(desk, show)


def _removing(desk: Desk, board: str, panel: dict[str, Any]) -> Any:
    """By what it is, not by its place: somebody else may have changed the board meanwhile."""

    async def remove() -> None:
        with notified():
            await desk.ask(remove_panel, One(board=board, panel=panel))
            ui.navigate.reload()

    return remove


async def _delete(desk: Desk, board: str) -> None:
    if await asked(f"Delete {board} for good? The views that it shows stay.", "Delete it"):
        with notified():
            await desk.ask(delete_board, Named(board=board))
            ui.navigate.to("/boards")


class Chart:
    """A panel, drawn; `show` draws it anew if its rows have changed."""

    def __init__(self, desk: Desk, panel: Panel) -> None:
        self._desk, self.panel = desk, panel
        self._drawn: Drawn | None = None
        self._kind: str | None = None
        self._place = tag("div")
        self._note = text("p", "").classes("hr-told").props("role=note")
        self._told = text("p", "").classes("hr-refusal").props("role=status")
        for one in (self._note, self._told):
            one.set_visibility(False)

    async def show(self) -> None:
        """What goes wrong stands in its own place: the other charts of a board go on."""
        try:
            drawn = await self._found()
        except HeadraceError as error:
            _say(self._told, error.what)
            return
        except Exception as error:
            logging.getLogger(__name__).exception("the chart %s cannot be drawn", self.panel.name)
            _say(self._told, f"this cannot be drawn: {error}")
            return
        _say(self._told, "")
        if drawn != self._drawn:
            self._drawn = drawn
            self._draw(drawn)

    async def _found(self) -> Drawn:
        """While nothing is chosen, nothing is asked for."""
        why = lacking(self.panel)
        return undrawn(self.panel, why) if why else await self._desk.share(Drawing(self.panel))

    def _draw(self, drawn: Drawn) -> None:
        if self._kind != self.panel.kind:  # ECharts keeps parts that the next kind does not name
            self._kind = self.panel.kind
            self._place.clear()
            with self._place:
                self._chart = ui.echart({}, renderer="svg").classes("hr-chart").props("role=img")
        self._chart._props["aria-label"] = drawn.summary
        self._chart.options.clear()
        self._chart.options.update(drawn.options)
        self._chart.update()
        _say(self._note, drawn.note)


def _say(where: TextElement, what: str) -> None:
    where.set_text(what)
    where.set_visibility(bool(what))


class Builder:
    """A chart over a view while it is being chosen, and where to save it."""

    def __init__(self, desk: Desk, described: Described) -> None:
        self._desk = desk
        source = desk.site.node.catalog.sources.get(described.name)
        is_windowed = source is not None and source.relation.window is not None
        columns = [*described.columns, *(_BOUNDS if is_windowed else ()), "ROWTIME"]
        self._chosen = Panel("bar", described.name)
        with tag("div").classes("hr-row"):
            self._select("kind", "Kind", {kind.name: kind.label for kind in KINDS.values()}, "bar")
            for name in ("x", "y", "by"):
                self._select(name, name, ["", *columns], "")
            ui.number("Largest", value=10, min=1, max=100, on_change=self._choose("top")).props("dense outlined")
            ui.input("Only rows where", on_change=self._choose("where")).props("dense outlined clearable debounce=600")
        self._chart = Chart(desk, self._chosen)
        with tag("form").classes("hr-row").on("submit.prevent", self._save):
            self._title = ui.input("Title of the chart").props("dense outlined")
            self._board = ui.input("Dashboard").props("dense outlined")
            ui.button("Save to dashboard").props("type=submit unelevated no-caps")

    def _select(self, name: str, label: str, offered: Any, first: str) -> None:
        chosen = ui.select(offered, value=first, label=label, on_change=self._choose(name))
        chosen.props("dense outlined").classes("hr-select")

    def _choose(self, name: str) -> Any:
        async def chosen(event: Any) -> None:
            value = int(event.value or 1) if name == "top" else event.value or ""
            self._chosen = self._chart.panel = replace(self._chosen, **{name: value})
            await self._chart.show()

        return chosen

    async def show(self) -> None:
        await self._chart.show()

    async def _save(self) -> None:
        with notified():
            name = (self._board.value or "").strip()
            panel = replace(self._chosen, title=self._title.value or "")
            await self._desk.ask(add_panel, One(board=name, panel=asdict(panel)))
            ui.notify(f"saved on {name}", type="positive")
