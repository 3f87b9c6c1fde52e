"""What all pages have in common: the head with the way to the others, colours, and the pieces pages are made of."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from nicegui import ui
from nicegui.elements.mixins.text_element import TextElement

from headrace.errors import HeadraceError
from headrace.serve.dashboard.desk import Desk
from headrace.serve.dashboard.pulse import EVERY, Moment

PREFIX = "/ui"
"""NiceGUI puts it before links by itself; what else names a path must do so."""


@dataclass(frozen=True)
class Place:
    """A page that the way leads to."""

    path: str
    name: str
    icon: str


@contextmanager
def frame(desk: Desk, places: tuple[Place, ...], here: Place, title: str) -> Iterator[None]:
    """The page's own content is built inside."""
    ui.dark_mode(desk.prefers_dark)
    with ui.header().classes("hr-head"):
        menu = ui.button(icon="menu").props('flat round aria-label="Pages"').classes("hr-menu")
        ui.link("headrace", "/").classes("hr-brand")
        ui.space()
        ui.button(icon="contrast", on_click=_switch_colours).props('flat round aria-label="Dark or light"')
    with ui.left_drawer(bordered=True).props("width=200 breakpoint=800").classes("hr-side") as drawer, tag("nav"):
        for place in places:
            way = ui.link(target=place.path).classes("hr-way")
            with way:
                ui.icon(place.icon)
                ui.label(place.name)
            if place is here:
                way.props("aria-current=page")
    menu.on_click(drawer.toggle)
    with tag("div").classes("hr-main") as main:
        text("h1", title)
        yield
    ui.skip_link("To the content", target=main)


def _switch_colours() -> None:
    """The browser knows what it shows, and remembers it for the next page."""
    ui.run_javascript("headrace.switchColours()")


async def moving(desk: Desk, show: Callable[[Moment], Awaitable[None] | None]) -> None:
    """Show what is there now, and again every second while somebody looks."""

    async def look() -> None:
        shown = show(await desk.now())
        if shown is not None:
            await shown

    await look()
    ui.timer(EVERY, look, immediate=False)


# -- pieces ---------------------------------------------------------------------------------------------------------


def tag(name: str) -> ui.element:
    return ui.element(name)


def text(name: str, content: str) -> TextElement:
    """An element of HTML with a text."""
    return TextElement(tag=name, text=content)


def link(noun: str, name: str) -> str:
    """Where the page of a thing is."""
    return f"{PREFIX}/{noun}/{quote(name, safe='')}"


def mark(element: ui.element, name: str, wanted: bool) -> None:
    """With or without a class."""
    if wanted != (name in element._classes):
        element.classes(**{"add" if wanted else "remove": name})


def refused(error: HeadraceError) -> None:
    """A coded error, as a person reads it."""
    with tag("div").classes("hr-refusal").props("role=alert"):
        text("strong", error.code)
        text("span", error.what)
        if error.fix:
            text("span", error.fix).classes("hr-fix")


@contextmanager
def notified(*, quiet: bool = False) -> Iterator[None]:
    """What is refused is told at the edge of the page, unless nobody has asked for it just now."""
    try:
        yield
    except HeadraceError as error:
        if quiet:
            return
        ui.notify(f"{error.what}: {error.fix}" if error.fix else error.what, type="negative", multi_line=True)


class Tile:
    """A number with its name."""

    def __init__(self, name: str) -> None:
        with tag("div").classes("hr-tile"):
            self._value = text("div", "–").classes("hr-number")
            text("div", name).classes("hr-told")

    def show(self, value: str, *, bad: bool = False) -> None:
        self._value.set_text(value)
        mark(self._value, "hr-bad", bad)


@dataclass(frozen=True)
class Column:
    """Of a grid; `right` is for numbers."""

    name: str
    label: str
    right: bool = False


def cell(value: Any) -> object:
    """As a grid shows it: what has parts as JSON."""
    return value if isinstance(value, str | int | float | None) and not isinstance(value, bool) else json.dumps(value)


class Grid:
    """Rows in columns, which sort by a click. A row's `link`, if it has one, is where its first cell leads."""

    def __init__(self, *columns: Column, key: str = "", page: int = 0, label: str = "") -> None:
        told = [
            {
                "name": c.name,
                "field": c.name,
                "label": c.label,
                "sortable": True,
                "align": "right" if c.right else "left",
            }
            for c in columns
        ]
        self.table = ui.table(columns=told, rows=[], row_key=key or columns[0].name, pagination=page)
        if not page:
            self.table.props("hide-bottom")
        self.table.classes("hr-grid").props("flat dense tabindex=0 role=region")
        self.table._props["aria-label"] = label or columns[0].label
        self.table.add_slot(f"body-cell-{columns[0].name}", _LINK)

    def show(self, rows: list[dict[str, object]]) -> None:
        if rows != self.table.rows:
            self.table.rows = rows


_LINK = """
<q-td :props="props">
  <a v-if="props.row.link" :href="props.row.link">{{ props.value }}</a><span v-else>{{ props.value }}</span>
</q-td>
"""


class Facts:
    """Names with values, one below the other."""

    def __init__(self, **facts: object) -> None:
        with tag("dl").classes("hr-facts"):
            self._values = {name: _fact(name, value) for name, value in facts.items()}

    def show(self, **facts: object) -> None:
        for name, value in facts.items():
            self._values[name].set_text(str(value))


def _fact(name: str, value: object) -> TextElement:
    with tag("div"):
        text("dt", name.replace("_", " "))
        return text("dd", str(value))
