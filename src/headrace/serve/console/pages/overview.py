"""The overview page: the flow of data, its rates, and problems that need attention."""

from __future__ import annotations

from nicegui import ui

from headrace.control.status import FAILED
from headrace.serve.console.page_context import PageContext
from headrace.serve.console.poller import ServerSnapshot
from headrace.serve.console.query_states import state_summary
from headrace.serve.console.widgets import number_format
from headrace.serve.console.widgets.flow_diagram import FlowDiagram
from headrace.serve.console.widgets.layout import Tile, auto_refresh, html_tag, html_text


async def overview(context: PageContext) -> None:
    with html_tag("div").classes("hr-tiles"):
        tiles = {name: Tile(name) for name in ("records in", "queries", "records of lag", "dead letters")}
    attention = Attention()
    flow = FlowDiagram()
    empty = html_tag("div").classes("hr-empty")
    with empty:
        html_text("p", "There is no data yet. Create a stream, and a query that reads it.")
        ui.link("Open the statement editor", "/statements")

    def show(moment: ServerSnapshot) -> None:
        lag = sum(query.lag or 0 for query in moment.queries)
        dead = sum(sum(query.dead_letters.values()) for query in moment.queries)
        tiles["records in"].show(number_format.format_rate(moment.rate_in))
        tiles["queries"].show(f"{len(moment.queries):,}", label=_queries_label(moment))
        tiles["records of lag"].show(number_format.format_count(lag))
        tiles["dead letters"].show(number_format.format_count(dead), bad=dead > 0)
        attention.show(moment)
        flow.show(moment)
        empty.set_visibility(not moment.topics)

    await auto_refresh(context, show)


def _queries_label(moment: ServerSnapshot) -> str:
    noun = "query" if len(moment.queries) == 1 else "queries"
    return f"{noun}: {state_summary(moment.queries)}" if moment.queries else noun


class Attention:
    """Failures, with their reasons."""

    def __init__(self) -> None:
        self._root = html_tag("ul").classes("hr-attention").props("aria-live=polite")
        self._shown: list[str] = []

    def show(self, moment: ServerSnapshot) -> None:
        failed = [query for query in moment.queries if query.state == FAILED and query.failure]
        problems = [f"Query {query.name} failed: {query.failure['what']}" for query in failed if query.failure]
        problems += [
            f"View {view['name']} is not updated: {view['failure']['what']}" for view in moment.views if view["failure"]
        ]
        problems += [
            f"Statement {number} of the journal could not be replayed: {why}" for number, why in moment.broken.items()
        ]
        if problems == self._shown:
            return
        self._shown = problems
        self._root.clear()
        with self._root:
            for one in problems:
                html_text("li", one)
