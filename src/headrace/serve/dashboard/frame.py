"""What all pages have in common: the head with the way to the others, colours, and the pieces pages are made of."""

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

from headrace.access.who import LOCAL
from headrace.errors import HeadraceError, NotAuthenticated
from headrace.serve.dashboard import words
from headrace.serve.dashboard.charts import EXACT
from headrace.serve.dashboard.desk import Desk
from headrace.serve.dashboard.door import PREFIX, log_in_first
from headrace.serve.dashboard.pulse import EVERY, Moment


@dataclass(frozen=True)
class Place:
    """A page that the way leads to."""

    path: str
    name: str
    icon: str


@contextmanager
def frame(desk: Desk, places: tuple[Place, ...], here: Place, title: str) -> Iterator[None]:
    """The page's own content is built inside."""
    dark = ui.dark_mode(desk.prefers_dark)
    with ui.header().classes("hr-head"):
        menu = ui.button(icon="menu").props('flat round aria-label="Pages"').classes("hr-menu")
        ui.link("headrace", "/").classes("hr-brand")
        ui.space()
        if desk.who is not LOCAL:
            ui.label(desk.who.name).classes("hr-told")
            ui.button("Log out").props("flat no-caps").on("click", js_handler="() => headrace.logOut()")
        colours = ui.button(icon="contrast").props('flat round aria-label="Dark or light"')
        colours.on("click", js_handler=f"() => headrace.switchColours({dark.id})")  # also while the server is away
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


async def moving(desk: Desk, show: Callable[[Moment], Awaitable[None] | None]) -> None:
    """Show what is there now, and again every second while somebody looks. What hinders it stands above the rest."""
    trouble = Trouble(desk)

    async def look() -> None:
        try:
            shown = show(await desk.now())
            if shown is not None:
                await shown
        except HeadraceError as error:
            trouble.show(error)
        else:
            trouble.show(None)

    await look()
    ui.timer(EVERY, look, immediate=False)


class Trouble:
    """Why a page does not move at the moment: told once, and taken back when it moves again."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._told: tuple[str, str] | None = None
        self._box = tag("div")
        self._box.move(target_index=1)  # behind the heading

    def show(self, error: HeadraceError | None) -> None:
        told = None if error is None else (error.code, error.what)
        if told == self._told:
            return
        self._told = told
        self._box.clear()
        with self._box:
            if error is not None:
                refused(error)
            if isinstance(error, NotAuthenticated):
                text("a", "Log in").props["href"] = log_in_first(self._desk.request.url.path)


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


class Figure(NamedTuple):
    """A number by which a grid sorts, and the text that it shows."""

    value: float
    text: str


def whole(number: int | None) -> object:
    """With a mark at every thousand."""
    return None if number is None else Figure(number, f"{number:,}")


def cell(value: Any, *, is_time: bool = False) -> object:
    """As a grid shows it: what has parts as JSON; numbers that a browser would round, in full; times, in ms, in UTC."""
    if is_time and isinstance(value, int):
        return Figure(value, words.moment(value))
    if isinstance(value, Decimal) or (_is_number(value) and abs(value) > EXACT and isinstance(value, int)):
        return Figure(float(value), str(value))
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, str | None) or _is_number(value) else json.dumps(value)


def cells(row: Sequence[Any], times: Collection[int] = ()) -> dict[str, object]:
    """Of a row whose columns are c0, c1 and so on: what they are called may be anything."""
    return {f"c{place}": cell(value, is_time=place in times) for place, value in enumerate(row)}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


class Grid:
    """Rows in columns, which sort by a click or a key. A row's `link`, if it has one, is where its first cell leads."""

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
        self.table.add_slot("body-cell", _CELL)
        self.table.add_slot("header-cell", _HEAD)

    def show(self, rows: list[dict[str, object]]) -> None:
        rows = [_shown(row) for row in rows]
        if rows != self.table.rows:
            self.table.rows = rows


def _shown(row: dict[str, object]) -> dict[str, object]:
    """The text of a figure stands beside its number."""
    texts = {f"{name}$": value.text for name, value in row.items() if isinstance(value, Figure)}
    return {name: value.value if isinstance(value, Figure) else value for name, value in row.items()} | texts


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


async def asked(question: str, yes: str) -> bool:
    """Whether somebody means it."""
    with ui.dialog() as dialog, ui.card():
        text("p", question)
        with tag("div").classes("hr-row"):
            ui.button(yes, on_click=lambda: dialog.submit(True)).props("no-caps color=negative")
            ui.button("Keep it", on_click=lambda: dialog.submit(False)).props("flat no-caps")
    return bool(await dialog)


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
