"""The pages: where each is, what it is called, and the function that fills it. A new page is one row."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache

from nicegui import ui
from starlette.requests import Request

from headrace.errors import HeadraceError
from headrace.serve.dashboard.alerts import alerts
from headrace.serve.dashboard.boards import board, boards
from headrace.serve.dashboard.desk import Desk
from headrace.serve.dashboard.doctor import doctor
from headrace.serve.dashboard.frame import Place, frame, refused
from headrace.serve.dashboard.overview import overview
from headrace.serve.dashboard.queries import queries, query
from headrace.serve.dashboard.statements import statements
from headrace.serve.dashboard.topics import topic, topics
from headrace.serve.dashboard.views import view, views

Show = Callable[..., Awaitable[None]]
PATIENCE = 30.0
"""Seconds that a page may take: a log that is slow is no reason to show nothing."""


@dataclass(frozen=True)
class Page:
    """`show` gets the desk, and what stands in the path."""

    path: str
    place: Place
    show: Show


OVERVIEW = Place("/", "Overview", "hub")
TOPICS = Place("/topics", "Topics", "view_list")
STATEMENTS = Place("/statements", "Statements", "terminal")
QUERIES = Place("/queries", "Queries", "settings_ethernet")
VIEWS = Place("/views", "Views", "table_chart")
BOARDS = Place("/boards", "Dashboards", "insights")
ALERTS = Place("/alerts", "Alerts", "notifications")
DOCTOR = Place("/doctor", "Doctor", "medical_services")
PAGES: tuple[Page, ...] = (
    Page("/", OVERVIEW, overview),
    Page("/topics", TOPICS, topics),
    Page("/topics/{topic}", TOPICS, topic),
    Page("/statements", STATEMENTS, statements),
    Page("/queries", QUERIES, queries),
    Page("/queries/{query}", QUERIES, query),
    Page("/views", VIEWS, views),
    Page("/views/{view}", VIEWS, view),
    Page("/boards", BOARDS, boards),
    Page("/boards/{board}", BOARDS, board),
    Page("/alerts", ALERTS, alerts),
    Page("/doctor", DOCTOR, doctor),
)
PLACES = tuple(dict.fromkeys(page.place for page in PAGES))


@cache
def registered() -> None:
    """NiceGUI has one set of pages for a process: servers in one process share them, and each page asks its own."""
    for page in PAGES:
        settings = {"title": f"{page.place.name} - headrace", "response_timeout": PATIENCE}
        ui.page(page.path, **settings)(_shown(page))


def _shown(page: Page) -> Callable[..., Awaitable[None]]:
    async def shown(request: Request) -> None:
        desk, named = Desk(request), request.path_params
        title = next(iter(named.values()), page.place.name)
        with frame(desk, PLACES, page.place, title):
            try:
                await page.show(desk, **named)
            except HeadraceError as error:
                refused(error)

    return shown
