"""The charts and dashboards pages: charts over views, saved on named dashboards, updated live."""

from __future__ import annotations

import logging
from dataclasses import asdict, replace
from typing import Any

from nicegui import ui
from nicegui.elements.mixins.text_element import TextElement

from headrace.errors import HeadraceError
from headrace.serve.api.resources.dashboards import (
    Dashboard,
    DashboardRequest,
    PanelRequest,
    add_panel,
    delete_dashboard,
    get_dashboard,
    list_dashboards,
    remove_panel,
)
from headrace.serve.api.resources.views import ViewDescription
from headrace.serve.console.page_context import PageContext
from headrace.serve.console.poller import ServerSnapshot
from headrace.serve.console.view_queries import ChartRequest
from headrace.serve.console.widgets.charts import CHART_KINDS, ChartPanel, DrawnChart, missing_columns, placeholder
from headrace.serve.console.widgets.layout import (
    Column,
    Grid,
    auto_refresh,
    confirm,
    html_tag,
    html_text,
    notify_errors,
    page_link,
)

_BOUNDS = ["WINDOWSTART", "WINDOWEND"]


async def dashboards(desk: PageContext) -> None:
    found: list[Dashboard] = await desk.ask(list_dashboards)
    grid = Grid(Column("title", "Dashboard"), Column("charts", "Charts", right=True), label="Dashboards")
    grid.show([{"title": one.title, "charts": len(one.panels), "link": page_link("boards", one.name)} for one in found])
    if not found:
        html_text("p", "None yet. Open a view, build a chart, and save it under a name.").classes("hr-empty")
        ui.link("to the views", "/views")


async def dashboard(desk: PageContext, board: str) -> None:
    found: Dashboard = await desk.ask(get_dashboard, DashboardRequest(board=board))
    charts: list[LiveChart] = []
    with html_tag("div").classes("hr-board"):
        for told in found.panels:
            panel = ChartPanel.of(told)
            with html_tag("section").classes("hr-panel"):
                with html_tag("div").classes("hr-row"):
                    html_text("h2", panel.name)
                    ui.space()
                    remove = ui.button(icon="close", on_click=_removing(desk, board, told)).props("flat dense round")
                    remove._props["aria-label"] = f"Remove {panel.name}"
                charts.append(LiveChart(desk, panel))
    with html_tag("div").classes("hr-row"):
        ui.button("Delete this dashboard", on_click=lambda: _delete(desk, board)).props("flat no-caps color=negative")

    async def show(_: ServerSnapshot) -> None:
        for chart in charts:
            await chart.show()

    await auto_refresh(desk, show)


def _removing(desk: PageContext, board: str, panel: dict[str, Any]) -> Any:
    """Remove a panel by its content, not by its index: another user may have changed the dashboard meanwhile."""

    async def remove() -> None:
        with notify_errors():
            await desk.ask(remove_panel, PanelRequest(board=board, panel=panel))
            ui.navigate.reload()

    return remove


async def _delete(desk: PageContext, board: str) -> None:
    if await confirm(f"Delete {board} for good? The views that it shows stay.", "Delete it"):
        with notify_errors():
            await desk.ask(delete_dashboard, DashboardRequest(board=board))
            ui.navigate.to("/boards")


class LiveChart:
    """A drawn panel; `show` redraws it if its rows have changed."""

    def __init__(self, desk: PageContext, panel: ChartPanel) -> None:
        self._desk, self.panel = desk, panel
        self._drawn: DrawnChart | None = None
        self._kind: str | None = None
        self._place = html_tag("div")
        self._note = html_text("p", "").classes("hr-told").props("role=note")
        self._told = html_text("p", "").classes("hr-refusal").props("role=status")
        for one in (self._note, self._told):
            one.set_visibility(False)

    async def show(self) -> None:
        """Errors are shown in the chart itself, so the other charts of a dashboard continue."""
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

    async def _found(self) -> DrawnChart:
        """Draws a placeholder, without a query, while columns are missing."""
        why = missing_columns(self.panel)
        return placeholder(self.panel, why) if why else await self._desk.share(ChartRequest(self.panel))

    def _draw(self, drawn: DrawnChart) -> None:
        if self._kind != self.panel.kind:  # ECharts would retain parts of the previous kind
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


class ChartBuilder:
    """A form that builds a chart over a view, and saves it on a dashboard."""

    def __init__(self, desk: PageContext, described: ViewDescription) -> None:
        self._desk = desk
        source = desk.site.node.catalog.sources.get(described.name)
        is_windowed = source is not None and source.relation.window is not None
        columns = [*described.columns, *(_BOUNDS if is_windowed else ()), "ROWTIME"]
        self._chosen = ChartPanel("bar", described.name)
        with html_tag("div").classes("hr-row"):
            self._select("kind", "Kind", {kind.name: kind.label for kind in CHART_KINDS.values()}, "bar")
            for name in ("x", "y", "by"):
                self._select(name, name, ["", *columns], "")
            ui.number("Largest", value=10, min=1, max=100, on_change=self._choose("top")).props("dense outlined")
            ui.input("Only rows where", on_change=self._choose("where")).props("dense outlined clearable debounce=600")
        self._chart = LiveChart(desk, self._chosen)
        with html_tag("form").classes("hr-row").on("submit.prevent", self._save):
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
        with notify_errors():
            name = (self._board.value or "").strip()
            panel = replace(self._chosen, title=self._title.value or "")
            await self._desk.ask(add_panel, PanelRequest(board=name, panel=asdict(panel)))
            ui.notify(f"saved on {name}", type="positive")
