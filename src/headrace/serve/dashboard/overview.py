"""The first page: what flows where, how fast, and what needs a person."""

from __future__ import annotations

from nicegui import ui

from headrace.control.condition import FAILED, RUNNING
from headrace.serve.dashboard import words
from headrace.serve.dashboard.desk import Desk
from headrace.serve.dashboard.flow import Flow
from headrace.serve.dashboard.frame import Tile, moving, tag, text
from headrace.serve.dashboard.pulse import Moment


async def overview(desk: Desk) -> None:
    with tag("div").classes("hr-tiles"):
        tiles = {name: Tile(name) for name in ("records in", "queries running", "records behind", "dead letters")}
    attention = Attention()
    flow = Flow()
    empty = tag("div").classes("hr-empty")
    with empty:
        text("p", "Nothing flows yet. Make a stream, and a query over it:")
        ui.link("write a statement", "/statements")

    def show(moment: Moment) -> None:
        running = sum(query.state == RUNNING for query in moment.queries)
        behind = sum(query.lag or 0 for query in moment.queries)
        dead = sum(sum(query.dead_letters.values()) for query in moment.queries)
        tiles["records in"].show(words.rate(moment.rate_in))
        tiles["queries running"].show(f"{running} of {len(moment.queries)}")
        tiles["records behind"].show(words.count(behind))
        tiles["dead letters"].show(words.count(dead), bad=dead > 0)
        attention.show(moment)
        flow.show(moment)
        empty.set_visibility(not moment.topics)

    await moving(desk, show)


class Attention:
    """What has failed, and why."""

    def __init__(self) -> None:
        self._root = tag("ul").classes("hr-attention").props("aria-live=polite")
        self._told: list[str] = []

    def show(self, moment: Moment) -> None:
        failed = [query for query in moment.queries if query.state == FAILED and query.failure]
        told = [f"Query {query.name} has failed: {query.failure['what']}" for query in failed if query.failure]
        told += [
            f"View {view['name']} is not kept: {view['failure']['what']}" for view in moment.views if view["failure"]
        ]
        told += [f"Statement {number} cannot be done any more: {why}" for number, why in moment.broken.items()]
        if told == self._told:
            return
        self._told = told
        self._root.clear()
        with self._root:
            for one in told:
                text("li", one)
