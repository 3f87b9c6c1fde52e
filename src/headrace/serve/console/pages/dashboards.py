"""The charts and dashboards pages: charts over views, saved on named dashboards, updated live."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any
from urllib.parse import quote

from nicegui import ui
from nicegui.elements.mixins.text_element import TextElement

from headrace.errors import HeadraceError
from headrace.serve.api.resources.dashboards import (
    Dashboard,
    DashboardRequest,
    PanelRequest,
    ShareRequest,
    add_panel,
    delete_dashboard,
    get_dashboard,
    list_dashboards,
    may_edit,
    owns,
    remove_panel,
    share_dashboard,
)
from headrace.serve.api.resources.views import ViewDescription
from headrace.serve.console.page_context import PageContext
from headrace.serve.console.poller import ServerSnapshot
from headrace.serve.console.query_states import starting_queries, starting_text
from headrace.serve.console.view_queries import ChartRequest
from headrace.serve.console.widgets.chart_kinds import CHART_KINDS
from headrace.serve.console.widgets.chart_panel import COLUMN_ROLES, ChartPanel
from headrace.serve.console.widgets.charts import DrawnChart, missing_columns, placeholder
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
_SHARING = {"private": "Private", "read": "Others may read", "edit": "Others may edit"}


async def dashboards(context: PageContext) -> None:
    entries: list[Dashboard] = await context.call(list_dashboards)
    grid = Grid(
        Column("title", "Dashboard"),
        Column("owner", "Owner"),
        Column("sharing", "Sharing"),
        Column("charts", "Charts", right=True),
        label="Dashboards",
        empty="No dashboards yet.",
    )
    grid.show(
        [
            {
                "title": one.title,
                "owner": one.owner,
                "sharing": _SHARING.get(one.sharing, one.sharing),
                "charts": len(one.panels),
                "link": page_link("dashboards", one.name),
            }
            for one in entries
        ]
    )
    if not entries:
        html_text("p", "Open a view, build a chart, and save it to a dashboard.")
        ui.link("Go to the views", "/views")


async def dashboard(context: PageContext, dashboard: str) -> None:
    definition: Dashboard = await context.call(get_dashboard, DashboardRequest(dashboard=dashboard))
    with html_tag("div").classes("hr-dashboard"):
        may_remove = may_edit(context.api, definition)
        panels = [
            SavedPanel(context, dashboard, panel, place, may_remove) for place, panel in enumerate(definition.panels)
        ]
    if not panels:
        html_text("p", "This dashboard has no charts. Open a view and build one.")
        ui.link("Go to the views", "/views")
    if owns(context.api, definition):
        with html_tag("div").classes("hr-row"):
            _sharing_control(context, definition)
            delete = ui.button("Delete dashboard", on_click=lambda: _delete(context, dashboard))
            delete.props("flat no-caps color=negative")

    async def show(_: ServerSnapshot) -> None:
        for panel in panels:
            await panel.show()

    await auto_refresh(context, show)


def _sharing_control(context: PageContext, dashboard: Dashboard) -> None:
    async def share(event: Any) -> None:
        with notify_errors():
            await context.call(share_dashboard, ShareRequest(dashboard=dashboard.name, sharing=event.value))
            ui.notify(f"Sharing: {_SHARING[event.value]}", type="positive")

    dropdown = ui.select(_SHARING, value=dashboard.sharing, label="Sharing", on_change=share)
    dropdown.props("dense outlined").classes("hr-select")


async def _delete(context: PageContext, dashboard: str) -> None:
    if await confirm(f"Delete dashboard {dashboard}? The views that it shows are not affected.", "Delete"):
        with notify_errors():
            await context.call(delete_dashboard, DashboardRequest(dashboard=dashboard))
            ui.navigate.to("/dashboards")


class SavedPanel:
    """A chart of a dashboard; when it is removed, a button in its place brings it back."""

    def __init__(
        self, context: PageContext, dashboard: str, saved: dict[str, Any], place: int, may_remove: bool
    ) -> None:
        self._context, self._dashboard, self._saved, self._place = context, dashboard, saved, place
        panel = ChartPanel.of(saved)
        with html_tag("section").classes("hr-panel"):
            self._shown, self._removed = html_tag("div"), html_tag("div").classes("hr-row")
        with self._shown:
            with html_tag("div").classes("hr-row hr-title"):
                html_text("h2", panel.name)
                if may_remove:
                    remove = ui.button(icon="close", on_click=self._remove).props("flat dense round")
                    remove._props["aria-label"] = f"Remove {panel.name}"
            self._chart = LiveChart(context, panel)
        with self._removed:
            html_text("p", f"{panel.name} was removed.").props("role=status")
            ui.button("Undo", on_click=self._restore).props("flat no-caps")
        self._removed.set_visibility(False)

    async def show(self) -> None:
        if self._shown.visible:
            await self._chart.show()

    async def _remove(self) -> None:
        """Remove the panel by its content, not by its index: another user may have changed the dashboard meanwhile."""
        await self._change(remove_panel, PanelRequest(dashboard=self._dashboard, panel=self._saved))

    async def _restore(self) -> None:
        await self._change(add_panel, PanelRequest(dashboard=self._dashboard, panel=self._saved, place=self._place))

    async def _change(self, do: Callable[..., Any], params: PanelRequest) -> None:
        with notify_errors():
            await self._context.call(do, params)
            self._shown.set_visibility(do is add_panel)
            self._removed.set_visibility(do is remove_panel)


class LiveChart:
    """A drawn panel; `show` redraws it if its rows have changed."""

    def __init__(self, context: PageContext, panel: ChartPanel) -> None:
        self._context, self.panel = context, panel
        self._drawn: DrawnChart | None = None
        self._kind: str | None = None
        self._place = html_tag("div")
        self._note = html_text("p", "").classes("hr-note").props("role=note")
        self._problem = html_text("p", "").classes("hr-refusal").props("role=status")
        for one in (self._note, self._problem):
            one.set_visibility(False)

    async def show(self) -> None:
        """Errors are shown in the chart itself, so the other charts of a dashboard continue."""
        try:
            chart = await self._fetch()
        except HeadraceError as error:
            _say(self._problem, error.what)
            return
        except Exception as error:
            logging.getLogger(__name__).exception("cannot draw the chart %s", self.panel.name)
            _say(self._problem, f"Cannot draw this chart: {error}")
            return
        _say(self._problem, "")
        starting = starting_text(starting_queries(await self._context.snapshot(), [self.panel.view]))
        _say(self._note, ". ".join(filter(None, (chart.note, starting))))
        if chart != self._drawn:
            self._drawn = chart
            self._draw(chart)

    async def _fetch(self) -> DrawnChart:
        """Draws a placeholder, without a query, while columns are missing."""
        why = missing_columns(self.panel)
        return placeholder(self.panel, why) if why else await self._context.cached(ChartRequest(self.panel))

    def _draw(self, chart: DrawnChart) -> None:
        if self._kind != self.panel.kind:  # ECharts would retain parts of the previous kind
            self._kind = self.panel.kind
            self._place.clear()
            with self._place:
                self._chart = ui.echart({}, renderer="svg").classes("hr-chart").props("role=img")
        self._chart._props["aria-label"] = chart.summary
        self._chart.options.clear()
        self._chart.options.update(chart.options)
        self._chart.update()


def _say(where: TextElement, what: str) -> None:
    where.set_text(what)
    where.set_visibility(bool(what))


class ChartBuilder:
    """A form that builds a chart over a view, and saves it on a dashboard."""

    def __init__(self, context: PageContext, described: ViewDescription) -> None:
        self._context = context
        source = context.api.node.catalog.sources.get(described.name)
        is_windowed = source is not None and source.relation.window is not None
        columns = [*described.columns, *(_BOUNDS if is_windowed else ()), "ROWTIME"]
        self._chosen = ChartPanel("bar", described.name)
        with html_tag("div").classes("hr-row"):
            self._select("kind", "Chart type", {kind.name: kind.label for kind in CHART_KINDS.values()}, "bar")
            for name, label in COLUMN_ROLES.items():
                self._select(name, label, ["", *columns], "")
            ui.number("Top", value=10, min=1, max=100, on_change=self._choose("top")).props("dense outlined")
            where = ui.input("Chart filter (WHERE)", placeholder="n > 10", on_change=self._choose("where"))
            where.props("dense outlined clearable debounce=600")
        self._chart = LiveChart(context, self._chosen)
        with html_tag("form").classes("hr-row").on("submit.prevent", self._save):
            self._title = ui.input("Chart title").props("dense outlined")
            self._dashboard = ui.input("Dashboard name").props("dense outlined")
            ui.button("Save to dashboard").props("type=submit unelevated no-caps")
        self._saved = html_tag("div")

    def _select(self, name: str, label: str, offered: Any, first: str) -> None:
        dropdown = ui.select(offered, value=first, label=label, on_change=self._choose(name))
        dropdown.props("dense outlined").classes("hr-select")

    def _choose(self, name: str) -> Any:
        async def on_change(event: Any) -> None:
            value = int(event.value or 1) if name == "top" else event.value or ""
            self._chosen = self._chart.panel = replace(self._chosen, **{name: value})
            await self._chart.show()

        return on_change

    async def show(self) -> None:
        await self._chart.show()

    async def _save(self) -> None:
        with notify_errors():
            name = (self._dashboard.value or "").strip()
            panel = replace(self._chosen, title=self._title.value or "")
            await self._context.call(add_panel, PanelRequest(dashboard=name, panel=asdict(panel)))
            ui.notify(f"Saved to dashboard {name}", type="positive")
            self._saved.clear()
            with self._saved:
                ui.link(f"Open dashboard {name}", f"/dashboards/{quote(name, safe='')}")
