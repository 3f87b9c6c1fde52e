"""The pages of the console: path, title and function of each. A new page is one row."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache

from fastapi.exception_handlers import http_exception_handler
from nicegui import Client, ui
from nicegui import app as nicegui_app
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from headrace.errors import HeadraceError
from headrace.serve.console.page_context import PageContext
from headrace.serve.console.pages.alerts import alerts
from headrace.serve.console.pages.dashboards import dashboard, dashboards
from headrace.serve.console.pages.doctor import doctor
from headrace.serve.console.pages.overview import overview
from headrace.serve.console.pages.queries import queries, query
from headrace.serve.console.pages.statements import statements
from headrace.serve.console.pages.topics import topic, topics
from headrace.serve.console.pages.views import view, views
from headrace.serve.console.urls import PREFIX
from headrace.serve.console.widgets.layout import NavItem, error_text, html_tag, html_text, page_layout

PageBuilder = Callable[..., Awaitable[None]]
RESPONSE_TIMEOUT = 30.0
"""Seconds that a page may take: a slow log must not leave the page empty."""


@dataclass(frozen=True)
class PageRoute:
    """A page; `show` gets the page context and the path parameters."""

    path: str
    place: NavItem
    show: PageBuilder


OVERVIEW = NavItem("/", "Overview", "hub")
TOPICS = NavItem("/topics", "Topics", "view_list")
STATEMENTS = NavItem("/statements", "Statements", "terminal")
QUERIES = NavItem("/queries", "Queries", "settings_ethernet")
VIEWS = NavItem("/views", "Views", "table_chart")
DASHBOARDS = NavItem("/dashboards", "Dashboards", "insights")
ALERTS = NavItem("/alerts", "Alerts", "notifications")
DOCTOR = NavItem("/doctor", "Doctor", "medical_services")
PAGES: tuple[PageRoute, ...] = (
    PageRoute("/", OVERVIEW, overview),
    PageRoute("/topics", TOPICS, topics),
    PageRoute("/topics/{topic}", TOPICS, topic),
    PageRoute("/statements", STATEMENTS, statements),
    PageRoute("/queries", QUERIES, queries),
    PageRoute("/queries/{query}", QUERIES, query),
    PageRoute("/views", VIEWS, views),
    PageRoute("/views/{view}", VIEWS, view),
    PageRoute("/dashboards", DASHBOARDS, dashboards),
    PageRoute("/dashboards/{dashboard}", DASHBOARDS, dashboard),
    PageRoute("/alerts", ALERTS, alerts),
    PageRoute("/doctor", DOCTOR, doctor),
)
_FILES = re.compile(rf"{PREFIX}/(static|_nicegui)/")
NAV_ITEMS = tuple(dict.fromkeys(page.place for page in PAGES))


@cache
def register_pages() -> None:
    """NiceGUI has one set of pages per process: servers in a process share them, each page has its own context."""
    for page in PAGES:
        settings = {"title": f"{page.place.name} - headrace", "response_timeout": RESPONSE_TIMEOUT}
        ui.page(page.path, **settings)(_page_handler(page))
    nicegui_app.exception_handler(404)(_not_found)


def _page_handler(page: PageRoute) -> Callable[..., Awaitable[None]]:
    async def show_page(request: Request) -> None:
        context, path_params = PageContext(request), request.path_params
        title = next(iter(path_params.values()), page.place.name)
        with page_layout(context, NAV_ITEMS, page.place, title):
            try:
                await page.show(context, **path_params)
            except HeadraceError as error:
                error_text(error)
                if path_params:
                    ui.link(f"All {page.place.name.lower()}", page.place.path)

    return show_page


async def _not_found(request: Request, error: Exception) -> Response:
    """The page for an unknown path, with links; for a missing file, a plain response."""
    if _FILES.match(request.url.path) and isinstance(error, HTTPException):
        return await http_exception_handler(request, error)
    client = Client(ui.page("", title="Page not found - headrace"), request=request)
    with client, page_layout(PageContext(request), NAV_ITEMS, None, "Page not found"):
        html_text("p", f"There is no page at {request.url.path}. These pages exist:")
        with html_tag("ul"):
            for place in NAV_ITEMS:
                with html_tag("li"):
                    ui.link(place.name, place.path)
    return client.build_response(request, 404)
