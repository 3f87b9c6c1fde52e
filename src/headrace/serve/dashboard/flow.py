"""The picture of where data flows, drawn: lines move while records do, and every box leads to its page."""

from __future__ import annotations

from collections.abc import Mapping

from nicegui import ui
from nicegui.elements.mixins.text_element import TextElement

from headrace.control.condition import FAILED
from headrace.serve.dashboard import words
from headrace.serve.dashboard.frame import link, mark
from headrace.serve.dashboard.graph import HEIGHT, QUERY, TOPIC, VIEW, WIDTH, Box, Id, Picture, picture
from headrace.serve.dashboard.pulse import Moment

_PAGES = {TOPIC: "topics", QUERY: "queries", VIEW: "views"}
_LONGEST = 22  # letters that fit a box


class Flow:
    """Made once for a page; `show` draws what has changed since."""

    def __init__(self) -> None:
        self._root = ui.element("div").classes("hr-flow").props('tabindex=0 role=region aria-label="Where data flows"')
        self._shape: tuple[object, ...] = ()
        self._told: dict[Id, TextElement] = {}
        self._boxes: dict[Id, ui.element] = {}
        self._lines: dict[tuple[Id, Id], ui.element] = {}

    def show(self, moment: Moment) -> None:
        drawn = picture(moment)
        shape = drawn.boxes, drawn.lines
        if shape != self._shape:
            self._shape = shape
            self._draw(drawn)
        rates = _rates(moment)
        for id, text in self._told.items():
            text.set_text(_said(id, moment))
        for id, box in self._boxes.items():
            mark(box, "hr-failed", _has_failed(id, moment))
        for line, path in self._lines.items():
            mark(path, "hr-moving", rates.get(line[0], 0.0) > 0)

    def _draw(self, drawn: Picture) -> None:
        self._root.clear()
        for known in (self._told, self._boxes, self._lines):
            known.clear()
        places = {box.id: box for box in drawn.boxes}
        size = {"viewBox": f"-4 -4 {drawn.width} {drawn.height}", "width": drawn.width, "height": drawn.height}
        with self._root, _element("svg", **size):
            for start, end in drawn.lines:
                self._lines[start, end] = _element("path", d=_curve(places[start], places[end])).classes("hr-line")
            for box in drawn.boxes:
                self._draw_box(box)

    def _draw_box(self, box: Box) -> None:
        name = box.id.name if len(box.id.name) <= _LONGEST else f"{box.id.name[: _LONGEST - 1]}…"
        with (
            _element("a", href=link(_PAGES[box.id.kind], box.id.name), transform=f"translate({box.x} {box.y})"),
            _element("g").classes(f"hr-box hr-{box.id.kind}") as drawn,
        ):
            TextElement(tag="title", text=f"{box.id.kind} {box.id.name}")
            _element("rect", width=WIDTH, height=HEIGHT, rx=HEIGHT // 2 if box.id.kind == QUERY else 8)
            _text(name, x=16, y=25).classes("hr-name")
            self._told[box.id] = _text("", x=16, y=44).classes("hr-told")
        self._boxes[box.id] = drawn


def _element(tag: str, **props: object) -> ui.element:
    element = ui.element(tag)
    element._props.update(props)
    return element


def _text(text: str, **props: object) -> TextElement:
    element = TextElement(tag="text", text=text)
    element._props.update(props)
    return element


def _curve(start: Box, end: Box) -> str:
    x, y = start.x + WIDTH, start.y + HEIGHT // 2
    to_x, to_y = end.x, end.y + HEIGHT // 2
    half = max(30, (to_x - x) // 2)
    return f"M{x} {y} C{x + half} {y} {to_x - half} {to_y} {to_x} {to_y}"


def _rates(moment: Moment) -> Mapping[Id, float]:
    topics = {Id(TOPIC, name): topic.rate for name, topic in moment.topics.items()}
    return topics | {Id(QUERY, query.name): query.rate for query in moment.queries}


def _said(id: Id, moment: Moment) -> str:
    if id.kind == TOPIC:
        topic = moment.topics.get(id.name)
        return "not made yet" if topic is None else f"{words.rate(topic.rate)}, {words.count(topic.records)} records"
    if id.kind == QUERY:
        query = next((one for one in moment.queries if one.name == id.name), None)
        if query is None:
            return "gone"
        lag = f", {words.count(query.lag)} behind" if query.lag else ""
        return f"{query.state}{lag}" if not query.rate else f"{words.rate(query.rate)}{lag}"
    view = next((one for one in moment.views if one["name"] == id.name), None)
    if view is None:
        return "gone"
    return "view" if not view["lag"] else f"view, {words.count(view['lag'])} behind"


def _has_failed(id: Id, moment: Moment) -> bool:
    if id.kind == QUERY:
        return any(query.name == id.name and query.state == FAILED for query in moment.queries)
    return id.kind == VIEW and any(view["name"] == id.name and view["failure"] for view in moment.views)
