"""The queries pages: the status of each query, its dead letters, and buttons to control it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from nicegui import ui

from headrace.control.queries.status import FAILED, PAUSED, QueryStatus
from headrace.errors import UnknownQuery
from headrace.serve.api.resources import dead_letters
from headrace.serve.api.resources.queries import (
    QueryRequest,
    get_query,
    pause_query,
    restart_query,
    resume_query,
    terminate_query,
)
from headrace.serve.console.page_context import PageContext
from headrace.serve.console.poller import ServerSnapshot
from headrace.serve.console.recent_dead_letters import PAGE_SIZE, DeadLetterList, RecentDeadLetters
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


async def queries(desk: PageContext) -> None:
    grid = Grid(
        Column("name", "Query"),
        Column("state", "State"),
        Column("way", "Way"),
        Column("rate", "Records", right=True),
        Column("lag", "Behind", right=True),
        Column("batch", "Batch", right=True),
        Column("rows", "State", right=True),
        Column("late", "Late", right=True),
        Column("dead", "Dead letters", right=True),
        label="Queries",
    )

    def show(moment: ServerSnapshot) -> None:
        grid.show([_row(query) for query in moment.queries])

    await auto_refresh(desk, show)


def _row(query: QueryStatus) -> dict[str, object]:
    return {
        "name": query.name,
        "state": query.state,
        "way": query.way or "",
        "rate": SortedNumber(query.rate, number_format.format_rate(query.rate)),
        "lag": integer_cell(query.lag),
        "batch": None if query.batch_ms is None else SortedNumber(query.batch_ms, f"{query.batch_ms:,} ms"),
        "rows": integer_cell(query.state_rows),
        "late": integer_cell(query.late),
        "dead": integer_cell(sum(query.dead_letters.values())),
        "link": page_link("queries", query.name),
    }


async def query(desk: PageContext, query: str) -> None:
    first: QueryStatus = await desk.ask(get_query, QueryRequest(query=query))
    html_text("pre", first.text).classes("hr-text")
    with html_tag("div").classes("hr-row"):
        for name, do in (("Pause", pause_query), ("Resume", resume_query), ("Restart", restart_query)):
            ui.button(name, on_click=_doing(desk, query, do, name)).props("outline no-caps")
        ui.button("End it", on_click=lambda: _end(desk, query)).props("flat no-caps color=negative")
    failure = html_text("p", "").classes("hr-refusal").props("role=alert")
    facts = Facts(**_facts(first))
    split = BatchPhases()
    reads, writes = ", ".join(first.sources), first.sink
    html_text("p", f"Reads {reads}; writes {writes}, topic {first.topic}.").classes("hr-told")
    box = DeadLetterGrid(desk, first)

    async def show(moment: ServerSnapshot) -> None:
        now = next((one for one in moment.queries if one.name == query), None)
        if now is None:
            failure.set_text("The query has ended.")
            failure.set_visibility(True)
            return
        told = now.failure["what"] if now.failure else ""
        failure.set_text(told)
        failure.set_visibility(bool(told) and now.state == FAILED)
        facts.show(**_facts(now))
        split.show(now.batch_split)
        await box.show(sum(now.dead_letters.values()))

    await auto_refresh(desk, show)


def _facts(query: QueryStatus) -> dict[str, object]:
    return {
        "state": query.state,
        "way": query.way or "–",
        "rate": number_format.format_rate(query.rate),
        "behind": "–" if query.lag is None else f"{query.lag:,}",
        "batches": f"{query.batches:,}",
        "last_batch": "–" if query.batch_ms is None else f"{query.batch_ms:,} ms",
        "rows_in_state": f"{query.state_rows:,}",
        "event_time": number_format.format_time(query.watermark) or "–",
        "late": f"{query.late:,}",
        "written": f"{query.written:,}",
    }


class BatchPhases:
    """The phases of the last batch: a bar in segments labelled with their durations."""

    def __init__(self) -> None:
        self._bar = html_tag("div").classes("hr-split").props("role=img")
        with self._bar:
            self._parts = {
                name: html_text("span", "").classes(f"hr-{name}") for name in ("look", "plan", "work", "note")
            }

    def show(self, split: Mapping[str, int]) -> None:
        self._bar.set_visibility(bool(split))
        told = ", ".join(f"{name} {ms:,} ms" for name, ms in split.items())
        self._bar.props["aria-label"] = f"The last batch: {told}"
        for name, part in self._parts.items():
            ms = split.get(name, 0)
            part.set_text(f"{name} {ms:,} ms")
            part.style(f"flex-grow: {ms}")


def _doing(desk: PageContext, query: str, do: Callable[..., Any], name: str) -> Callable[[], Any]:
    async def done() -> None:
        with notify_errors():
            now: QueryStatus = await desk.ask(do, QueryRequest(query=query))
            said = "it is paused" if now.state == PAUSED else "done"
            ui.notify(f"{name}: {said}", type="positive")

    return done


async def _end(desk: PageContext, query: str) -> None:
    if await confirm(f"End {query} for good? What it wrote stays.", "End it"):
        with notify_errors():
            await desk.ask(terminate_query, QueryRequest(query=query))
            ui.navigate.to("/queries")


class DeadLetterGrid:
    """Dead letters of a query, newest first, with their reasons; each can be replayed."""

    def __init__(self, desk: PageContext, query: QueryStatus) -> None:
        self._desk, self._query = desk, query
        self._count = -1
        self._pages, self._settled = 1, 0
        self._root = html_tag("section")
        with self._root:
            html_text("h2", "Dead letters")
            self._grid = Grid(
                Column("place", "Letter"),
                Column("at", "Time (UTC)"),
                Column("code", "Code"),
                Column("reason", "Reason"),
                Column("where", "Record"),
                Column("value", "Value"),
                Column("act", ""),
                label="Dead letters",
            )
            self._grid.table.add_slot("body-cell-act", _REPLAY)
            self._grid.table.on("replay", self._replay)
            self._more = ui.button("Older ones", on_click=self._older).props("flat no-caps")
        self._root.set_visibility(False)

    async def show(self, count: int) -> None:
        """Fetch the dead letters again when their count has changed."""
        if count == self._count:
            return
        self._count = count
        with notify_errors():
            try:
                found: DeadLetterList = await self._desk.share(
                    RecentDeadLetters(self._query.name, self._pages * PAGE_SIZE, self._settled)
                )
            except UnknownQuery:
                return
            self._grid.show([_letter(one) for one in found.letters])
            self._more.set_visibility(found.are_more)
            self._root.set_visibility(bool(found.letters))

    async def _older(self) -> None:
        self._pages += 1
        count, self._count = self._count, -1
        await self.show(count)

    async def _replay(self, event: Any) -> None:
        topic, partition, offset = event.args["topic"], event.args["partition"], event.args["offset"]
        with notify_errors():
            one = dead_letters.DeadLetterRequest(topic=str(topic), partition=int(partition), offset=int(offset))
            await self._desk.ask(dead_letters.replay_dead_letter, one)
            ui.notify("sent through again", type="positive")
            self._settled += 1
            self._count = -1


_REPLAY = """
<q-td :props="props">
  <q-btn flat dense no-caps label="Replay" @click="() => $parent.$emit('replay', props.row)" />
</q-td>
"""


def _letter(letter: dead_letters.DeadLetter) -> dict[str, object]:
    return {
        "place": f"{letter.partition}/{letter.offset}",
        "at": number_format.format_time(letter.timestamp),
        "code": letter.code,
        "reason": letter.reason,
        "where": letter.where,
        "value": letter.value,
        "topic": letter.topic,
        "partition": letter.partition,
        "offset": letter.offset,
    }
