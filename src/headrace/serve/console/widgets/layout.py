"""Layout shared by all pages: the header with navigation, colours, and basic widgets."""

from __future__ import annotations

import json
import math
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple
from urllib.parse import quote

from nicegui import ui
from nicegui.elements.mixins.text_element import TextElement

from headrace.access.principal import ANONYMOUS
from headrace.errors import HeadraceError, NotAuthenticated, SecretRequired
from headrace.serve.console.page_context import PageContext
from headrace.serve.console.poller import POLL_SECONDS, ServerSnapshot
from headrace.serve.console.urls import PREFIX, login_redirect
from headrace.serve.console.widgets import number_format
from headrace.serve.console.widgets.chart_kinds import MAX_EXACT_INTEGER


@dataclass(frozen=True)
class NavItem:
    """A page in the navigation."""

    path: str
    name: str
    icon: str


@contextmanager
def page_layout(
    context: PageContext, places: tuple[NavItem, ...], current: NavItem | None, title: str
) -> Iterator[None]:
    """The frame of a page; its content is built in the block."""
    dark = ui.dark_mode(context.prefers_dark)
    with ui.header().classes("hr-head"):
        menu = ui.button(icon="menu").props('flat round aria-label="Menu"').classes("hr-menu")
        ui.link("headrace", "/").classes("hr-brand")
        ui.space()
        if context.principal is ANONYMOUS:
            login_link(context)
        else:
            ui.label(context.principal.name).classes("hr-note")
            ui.button("Log out").props("flat no-caps").on("click", js_handler="() => headrace.logOut()")
        colours = ui.button(icon="contrast").props('flat round aria-label="Switch between dark and light"')
        colours.on("click", js_handler=f"() => headrace.switchColours({dark.id})")  # works while the server is offline
    with ui.left_drawer(bordered=True).props("width=200 breakpoint=800").classes("hr-side") as drawer, html_tag("nav"):
        for place in places:
            link = ui.link(target=place.path).classes("hr-nav-link")
            with link:
                ui.icon(place.icon)
                ui.label(place.name)
            if place is current:
                link.props("aria-current=page")
    menu.on_click(drawer.toggle)
    with html_tag("div").classes("hr-main") as main:
        html_text("h1", title)
        yield
    ui.skip_link("Skip to content", target=main)


async def auto_refresh(context: PageContext, show: Callable[[ServerSnapshot], Awaitable[None] | None]) -> None:
    """Show the current snapshot, and again every second while the page is open. Errors appear in a banner."""
    trouble = ErrorBanner(context)

    async def refresh() -> None:
        try:
            pending = show(await context.snapshot())
            if pending is not None:
                await pending
        except HeadraceError as error:
            trouble.show(error)
        else:
            trouble.show(None)

    await refresh()
    ui.timer(POLL_SECONDS, refresh, immediate=False)


class ErrorBanner:
    """Shows why a page is not updating; removed when it updates again."""

    def __init__(self, context: PageContext) -> None:
        self._context = context
        self._shown: tuple[str, str] | None = None
        self._box = html_tag("div")
        self._box.move(target_index=1)  # after the heading

    def show(self, error: HeadraceError | None) -> None:
        problem = None if error is None else (error.code, error.what)
        if problem == self._shown:
            return
        self._shown = problem
        self._box.clear()
        with self._box:
            if error is not None:
                error_text(error)
            if isinstance(error, NotAuthenticated | SecretRequired):
                login_link(self._context)


# -- widgets --------------------------------------------------------------------------------------------------------


def html_tag(name: str) -> ui.element:
    return ui.element(name)


def html_text(name: str, content: str) -> TextElement:
    """An HTML element with text."""
    return TextElement(tag=name, text=content)


def page_link(noun: str, name: str) -> str:
    """The URL of a resource's page."""
    return f"{PREFIX}/{noun}/{quote(name, safe='')}"


def login_link(context: PageContext) -> None:
    """A link to the log-in page, which returns to this page."""
    html_text("a", "Log in").props["href"] = login_redirect(context.request.url.path)


def toggle_class(element: ui.element, name: str, enabled: bool) -> None:
    """Add or remove a class."""
    if enabled != (name in element._classes):
        element.classes(**{"add" if enabled else "remove": name})


def error_text(error: HeadraceError) -> None:
    """Show an error with its code."""
    with html_tag("div").classes("hr-refusal").props("role=alert"):
        html_text("strong", error.code)
        html_text("span", error.what)
        if error.fix:
            html_text("span", error.fix).classes("hr-fix")


@contextmanager
def notify_errors(*, quiet: bool = False) -> Iterator[None]:
    """Show errors as notifications, except for work that the user did not start (`quiet`)."""
    try:
        yield
    except HeadraceError as error:
        if quiet:
            return
        ui.notify(f"{error.what}: {error.fix}" if error.fix else error.what, type="negative", multi_line=True)


class Tile:
    """A number with its label."""

    def __init__(self, name: str) -> None:
        with html_tag("div").classes("hr-tile"):
            self._value = html_text("div", "–").classes("hr-number")
            self._label = html_text("div", name).classes("hr-note")

    def show(self, value: str, *, label: str = "", bad: bool = False) -> None:
        self._value.set_text(value)
        if label:
            self._label.set_text(label)
        toggle_class(self._value, "hr-bad", bad)


@dataclass(frozen=True)
class Column:
    """A column of a grid; `right` is for numbers, `wraps` for long text."""

    name: str
    label: str
    right: bool = False
    wraps: bool = False


class SortedNumber(NamedTuple):
    """A number that a grid sorts by, and the text that it shows."""

    value: float
    text: str


def integer_cell(number: int | None) -> object:
    """An integer with thousands separators."""
    return None if number is None else SortedNumber(number, f"{number:,}")


def cell(value: Any, *, is_time: bool = False) -> object:
    """Format a value for a grid: nested values as JSON; numbers that a browser would round, in full; times, in ms, in
    UTC.
    """
    if is_time and isinstance(value, int):
        return SortedNumber(value, number_format.format_time(value))
    if isinstance(value, Decimal) or (_is_number(value) and abs(value) > MAX_EXACT_INTEGER and isinstance(value, int)):
        return SortedNumber(float(value), str(value))
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, str | None) or _is_number(value) else json.dumps(value)


def cells(row: Sequence[Any], times: Collection[int] = ()) -> dict[str, object]:
    """The cells of a row, with columns c0, c1 and so on: real column names can be arbitrary."""
    return {f"c{place}": cell(value, is_time=place in times) for place, value in enumerate(row)}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


class Grid:
    """Rows in columns, sortable by click or key. A row's `link`, if it has one, is the target of its first cell."""

    def __init__(
        self, *columns: Column, key: str = "", page: int = 0, label: str = "", empty: str = "No rows."
    ) -> None:
        options = [
            {
                "name": c.name,
                "field": c.name,
                "label": c.label,
                "sortable": True,
                "align": "right" if c.right else "left",
                "classes": "hr-wraps" if c.wraps else "",
            }
            for c in columns
        ]
        self.table = ui.table(columns=options, rows=[], row_key=key or columns[0].name, pagination=page)
        if not page:
            self.table.props("hide-pagination")
        self.table.classes("hr-grid").props("flat dense tabindex=0 role=region")
        self.table._props["aria-label"] = label or columns[0].label
        self.table._props["no-data-label"] = empty
        self.table.add_slot("no-data", "<span>{{ props.message }}</span>")
        self.table.add_slot(f"body-cell-{columns[0].name}", _LINK)
        self.table.add_slot("body-cell", _CELL)
        self.table.add_slot("header-cell", _HEAD)

    def show(self, rows: list[dict[str, object]]) -> None:
        rows = [_with_texts(row) for row in rows]
        if rows != self.table.rows:
            self.table.rows = rows


def _with_texts(row: dict[str, object]) -> dict[str, object]:
    """The row with the text of each number in a separate field."""
    texts = {f"{name}$": value.text for name, value in row.items() if isinstance(value, SortedNumber)}
    return {name: value.value if isinstance(value, SortedNumber) else value for name, value in row.items()} | texts


_TEXT = "{{ props.row[props.col.name + '$'] ?? props.value }}"
_LINK = f"""
<q-td :props="props">
  <a v-if="props.row.link" :href="props.row.link">{_TEXT}</a><span v-else>{_TEXT}</span>
</q-td>
"""
_CELL = f'<q-td :props="props">{_TEXT}</q-td>'
_HEAD = """
<q-th :props="props" tabindex="0"
  :aria-sort="!props.col.__thClass.includes(' sorted') ? 'none'
    : props.col.__thClass.includes('sort-desc') ? 'descending' : 'ascending'"
  @keydown.enter.prevent="props.sort(props.col)"
  @keydown.space.prevent="props.sort(props.col)">{{ props.col.label }}</q-th>
"""


async def confirm(question: str, yes: str) -> bool:
    """Ask the user to confirm."""
    with ui.dialog() as dialog, ui.card():
        html_text("p", question)
        with html_tag("div").classes("hr-row"):
            ui.button(yes, on_click=lambda: dialog.submit(True)).props("no-caps color=negative")
            ui.button("Cancel", on_click=lambda: dialog.submit(False)).props("flat no-caps")
    return bool(await dialog)


class Facts:
    """Names with values, one pair per line."""

    def __init__(self, **facts: object) -> None:
        with html_tag("dl").classes("hr-facts"):
            self._values = {name: _fact(name, value) for name, value in facts.items()}

    def show(self, **facts: object) -> None:
        for name, value in facts.items():
            self._values[name].set_text(number_format.plain_text(value))


def _fact(name: str, value: object) -> TextElement:
    text = number_format.plain_text(value)
    with html_tag("div").classes("hr-span" if len(text) > _LONG_FACT else ""):
        html_text("dt", name.replace("_", " ").capitalize())
        return html_text("dd", text)


_LONG_FACT = 40  # characters from which a fact has a line of its own
