"""The queries pages: the status of each query, and buttons to control it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

from nicegui import ui

from headrace.contracts import INTERNAL_PREFIX
from headrace.control.status import FAILED, PAUSED, QueryStatus
from headrace.serve.api.resources.queries import (
    QueryRequest,
    get_query,
    pause_query,
    restart_query,
    resume_query,
    terminate_query,
)
from headrace.serve.console.page_context import PageContext
from headrace.serve.console.pages.dead_letters import DeadLetterGrid
from headrace.serve.console.pages.processes import ProcessGrid
from headrace.serve.console.poller import ServerSnapshot
from headrace.serve.console.query_states import starting_text, state_name
from headrace.serve.console.widgets import number_format
from headrace.serve.console.widgets.layout import (
    Column,
    Facts,
    Grid,
    SortedNumber,
    auto_refresh,
    confirm,
    html_tag,
    html_text,
    integer_cell,
    notify_errors,
    page_link,
)


async def queries(context: PageContext) -> None:
    grid = Grid(
        Column("name", "Query"),
        Column("state", "State"),
        Column("execution_mode", "Execution mode"),
        Column("rate", "Records/s", right=True),
        Column("lag", "Lag", right=True),
        Column("batch", "Last batch", right=True),
        Column("rows", "Rows in state", right=True),
        Column("late", "Late records", right=True),
        Column("dead", "Dead letters", right=True),
        label="Queries",
        empty="No queries yet. Create one on the Statements page, for example with CREATE TABLE ... AS SELECT.",
    )

    processes = ProcessGrid(context)

    async def show(moment: ServerSnapshot) -> None:
        grid.show([_row(query) for query in moment.queries])
        await processes.show()

    await auto_refresh(context, show)


def _row(query: QueryStatus) -> dict[str, object]:
    return {
        "name": query.name,
        "state": state_name(query),
        "execution_mode": query.execution_mode or "",
        "rate": SortedNumber(query.rate, number_format.format_rate(query.rate)),
        "lag": integer_cell(query.lag),
        "batch": None if query.batch_ms is None else SortedNumber(query.batch_ms, f"{query.batch_ms:,} ms"),
        "rows": integer_cell(query.state_rows),
        "late": integer_cell(query.late),
        "dead": integer_cell(sum(query.dead_letters.values())),
        "link": page_link("queries", query.name),
    }


async def query(context: PageContext, query: str) -> None:
    first: QueryStatus = await context.call(get_query, QueryRequest(query=query))
    html_text("pre", first.text).classes("hr-text")
    buttons = ControlButtons(context, query)
    failure = html_text("p", "").classes("hr-refusal").props("role=alert")
    starting = html_text("p", "").classes("hr-note").props("role=status")
    facts = Facts(**_facts(first))
    split = BatchPhases()
    await _sources_and_sink(context, first)
    box = DeadLetterGrid(context, first)

    async def show(moment: ServerSnapshot) -> None:
        now = next((one for one in moment.queries if one.name == query), None)
        problem = "This query no longer exists." if now is None else _failure_text(now)
        failure.set_text(problem)
        failure.set_visibility(bool(problem))
        if now is None:
            return
        buttons.show(now)
        starting_note = starting_text([now] if now.is_starting else [])
        starting.set_text(f"{starting_note}. Results follow after its first batch." if starting_note else "")
        starting.set_visibility(bool(starting_note))
        facts.show(**_facts(now))
        split.show(now.batch_split)
        await box.show(sum(now.dead_letters.values()))

    await auto_refresh(context, show)


def _failure_text(query: QueryStatus) -> str:
    """Why the query has failed, and when it is tried again; empty if it has not."""
    if query.state != FAILED or query.failure is None:
        return ""
    parts = [query.failure["what"], query.failure.get("fix") or ""]
    wait = query.next_try_seconds
    parts.append("Restart it when the cause is fixed." if wait is None else f"Next attempt in {wait:.0f} s.")
    return " – ".join(filter(None, parts))


async def _sources_and_sink(context: PageContext, query: QueryStatus) -> None:
    """What the query reads and writes, with links to the topics."""
    sources = (await context.snapshot()).sources
    topics = {name: sources[name].topic for name in query.sources if name in sources}
    with html_tag("p").classes("hr-note"):
        html_text("span", "Reads ")
        for number, name in enumerate(query.sources):
            html_text("span", ", " if number else "")
            ui.link(name, f"/topics/{quote(topics.get(name, name), safe='')}")
        if not query.topic.startswith(INTERNAL_PREFIX):
            html_text("span", f". Writes {query.sink} to topic ")
            ui.link(query.topic, f"/topics/{quote(query.topic, safe='')}")


def _facts(query: QueryStatus) -> dict[str, object]:
    return {
        "state": state_name(query),
        "execution_mode": query.execution_mode,
        "throughput": number_format.format_rate(query.rate),
        "lag": query.lag,
        "batches": query.batches,
        "last_batch": None if query.batch_ms is None else f"{query.batch_ms:,} ms",
        "rows_in_state": query.state_rows,
        "event_time": number_format.format_time(query.watermark) or None,
        "late_records": query.late,
        "records_written": query.written,
    }


class BatchPhases:
    """The phases of the last batch: a bar in segments labelled with their durations."""

    def __init__(self) -> None:
        self._title = html_text("h2", "Last batch")
        self._bar = html_tag("div").classes("hr-split").props("role=img")
        with self._bar:
            self._parts = [html_text("span", "") for _ in range(_MAX_PHASES)]

    def show(self, split: Mapping[str, int]) -> None:
        self._title.set_visibility(bool(split))
        self._bar.set_visibility(bool(split))
        phases = ", ".join(f"{name} {ms:,} ms" for name, ms in split.items())
        self._bar.props["aria-label"] = f"The last batch: {phases}"
        for (name, ms), part in zip(split.items(), self._parts, strict=False):
            part.set_text(f"{name} {ms:,} ms")
            part.style(f"flex-grow: {ms}")


_MAX_PHASES = 4
"""How many phases of a batch a query's status has."""


class ControlButtons:
    """Buttons to control a query: those that apply to its state."""

    def __init__(self, context: PageContext, query: str) -> None:
        self._context, self._query = context, query
        with html_tag("div").classes("hr-row"):
            self._pause = self._button("Pause", pause_query, "paused")
            self._resume = self._button("Resume", resume_query, "resumed")
            self._button("Restart", restart_query, "restarting")
            ui.button("Terminate", on_click=self._terminate).props("flat no-caps color=negative")

    def show(self, query: QueryStatus) -> None:
        self._pause.set_visibility(query.state != PAUSED)
        self._resume.set_visibility(query.state == PAUSED)

    def _button(self, name: str, do: Callable[..., Any], outcome: str) -> ui.button:
        async def done() -> None:
            with notify_errors():
                await self._context.call(do, QueryRequest(query=self._query))
                ui.notify(f"Query {self._query} {outcome}", type="positive")

        return ui.button(name, on_click=done).props("outline no-caps")

    async def _terminate(self) -> None:
        if await confirm(f"Terminate query {self._query}? The results it has written remain.", "Terminate"):
            with notify_errors():
                await self._context.call(terminate_query, QueryRequest(query=self._query))
                ui.navigate.to("/queries")
