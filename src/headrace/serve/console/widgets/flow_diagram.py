"""The flow diagram: lines are animated while records flow, and every box links to its page."""

from __future__ import annotations

from collections.abc import Mapping

from nicegui import ui
from nicegui.elements.mixins.text_element import TextElement

from headrace.control.status import FAILED
from headrace.serve.console.poller import ServerSnapshot
from headrace.serve.console.query_states import state_name
from headrace.serve.console.widgets import number_format
from headrace.serve.console.widgets.flow_layout import (
    HEIGHT,
    QUERY,
    TOPIC,
    VIEW,
    WIDTH,
    FlowGraph,
    NodeBox,
    NodeId,
    layout_flow,
)
from headrace.serve.console.widgets.layout import page_link, toggle_class

_PAGES = {TOPIC: "topics", QUERY: "queries", VIEW: "views"}
_LONGEST = 22  # characters that fit in a box


class FlowDiagram:
    """Created once per page; `show` draws the changes."""

    def __init__(self) -> None:
        self._root = ui.element("div").classes("hr-flow").props('tabindex=0 role=region aria-label="Data flow"')
        self._shape: tuple[object, ...] = ()
        self._texts: dict[NodeId, TextElement] = {}
        self._boxes: dict[NodeId, ui.element] = {}
        self._lines: dict[tuple[NodeId, NodeId], ui.element] = {}

    def show(self, moment: ServerSnapshot) -> None:
        graph = layout_flow(moment)
        shape = graph.boxes, graph.lines
        if shape != self._shape:
            self._shape = shape
            self._draw(graph)
        rates = _rates(moment)
        for id, text in self._texts.items():
            text.set_text(_note_text(id, moment))
        for id, box in self._boxes.items():
            toggle_class(box, "hr-failed", _has_failed(id, moment))
        for line, path in self._lines.items():
            toggle_class(path, "hr-moving", rates.get(line[0], 0.0) > 0)

    def _draw(self, graph: FlowGraph) -> None:
        self._root.clear()
        for elements in (self._texts, self._boxes, self._lines):
            elements.clear()
        places = {box.id: box for box in graph.boxes}
        size = {"viewBox": f"-4 -4 {graph.width} {graph.height}", "width": graph.width, "height": graph.height}
        with self._root, _element("svg", **size):
            for start, end in graph.lines:
                self._lines[start, end] = _element("path", d=_curve(places[start], places[end])).classes("hr-line")
            for box in graph.boxes:
                self._draw_box(box)

    def _draw_box(self, box: NodeBox) -> None:
        name = box.id.name if len(box.id.name) <= _LONGEST else f"{box.id.name[: _LONGEST - 1]}…"
        with (
            _element("a", href=page_link(_PAGES[box.id.kind], box.id.name), transform=f"translate({box.x} {box.y})"),
            _element("g").classes(f"hr-box hr-{box.id.kind}") as group,
        ):
            TextElement(tag="title", text=f"{box.id.kind} {box.id.name}")
            _element("rect", width=WIDTH, height=HEIGHT, rx=HEIGHT // 2 if box.id.kind == QUERY else 8)
            _text(name, x=16, y=25).classes("hr-name")
            self._texts[box.id] = _text("", x=16, y=44).classes("hr-note")
        self._boxes[box.id] = group


def _element(tag: str, **props: object) -> ui.element:
    element = ui.element(tag)
    element._props.update(props)
    return element


def _text(text: str, **props: object) -> TextElement:
    element = TextElement(tag="text", text=text)
    element._props.update(props)
    return element


def _curve(start: NodeBox, end: NodeBox) -> str:
    x, y = start.x + WIDTH, start.y + HEIGHT // 2
    to_x, to_y = end.x, end.y + HEIGHT // 2
    half = max(30, (to_x - x) // 2)
    return f"M{x} {y} C{x + half} {y} {to_x - half} {to_y} {to_x} {to_y}"


def _rates(moment: ServerSnapshot) -> Mapping[NodeId, float]:
    topics = {NodeId(TOPIC, name): topic.rate for name, topic in moment.topics.items()}
    return topics | {NodeId(QUERY, query.name): query.rate for query in moment.queries}


def _note_text(id: NodeId, moment: ServerSnapshot) -> str:
    if id.kind == TOPIC:
        topic = moment.topics.get(id.name)
        return (
            "not created yet"
            if topic is None
            else f"{number_format.format_rate(topic.rate)}, {number_format.format_count(topic.records)} records"
        )
    if id.kind == QUERY:
        query = next((one for one in moment.queries if one.name == id.name), None)
        if query is None:
            return "removed"
        lag = f", lag {number_format.format_count(query.lag)}" if query.lag else ""
        return f"{state_name(query)}{lag}" if not query.rate else f"{number_format.format_rate(query.rate)}{lag}"
    view = next((one for one in moment.views if one["name"] == id.name), None)
    if view is None:
        return "removed"
    return "view" if not view["lag"] else f"view, lag {number_format.format_count(view['lag'])}"


def _has_failed(id: NodeId, moment: ServerSnapshot) -> bool:
    if id.kind == QUERY:
        return any(query.name == id.name and query.state == FAILED for query in moment.queries)
    return id.kind == VIEW and any(view["name"] == id.name and view["failure"] for view in moment.views)
