"""Queries: how each is doing, what it could not use, and what a person can do about it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nicegui import ui

from headrace.control.condition import FAILED, PAUSED, Condition
from headrace.errors import UnknownQuery
from headrace.serve.api import letters
from headrace.serve.api.queries import Named, get_query, pause_query, restart_query, resume_query, terminate_query
from headrace.serve.dashboard import words
from headrace.serve.dashboard.desk import Desk
from headrace.serve.dashboard.frame import Column, Facts, Grid, link, moving, notified, tag, text
from headrace.serve.dashboard.pulse import Moment


async def queries(desk: Desk) -> None:
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

    def show(moment: Moment) -> None:
        grid.show([_row(query) for query in moment.queries])

    await moving(desk, show)


def _row(query: Condition) -> dict[str, object]:
    return {
        "name": query.name,
        "state": query.state,
        "way": query.way or "",
        "rate": words.rate(query.rate),
        "lag": "" if query.lag is None else f"{query.lag:,}",
        "batch": "" if query.batch_ms is None else f"{query.batch_ms:,} ms",
        "rows": f"{query.state_rows:,}",
        "late": f"{query.late:,}",
        "dead": f"{sum(query.dead_letters.values()):,}",
        "link": link("queries", query.name),
    }


async def query(desk: Desk, query: str) -> None:
    first: Condition = await desk.ask(get_query, Named(query=query))
    text("pre", first.text).classes("hr-text")
    with tag("div").classes("hr-row"):
        for name, do in (("Pause", pause_query), ("Resume", resume_query), ("Restart", restart_query)):
            ui.button(name, on_click=_doing(desk, query, do, name)).props("outline no-caps")
        ui.button("End it", on_click=lambda: _end(desk, query)).props("flat no-caps color=negative")
    failure = text("p", "").classes("hr-refusal").props("role=alert")
    facts = Facts(**_facts(first))
    reads, writes = ", ".join(first.sources), first.sink
    text("p", f"Reads {reads}; writes {writes}, topic {first.topic}.").classes("hr-told")
    box = Letters(desk, first)

    async def show(moment: Moment) -> None:
        now = next((one for one in moment.queries if one.name == query), None)
        if now is None:
            failure.set_text("The query has ended.")
            failure.set_visibility(True)
            return
        told = now.failure["what"] if now.failure else ""
        failure.set_text(told)
        failure.set_visibility(bool(told) and now.state == FAILED)
        facts.show(**_facts(now))
        await box.show(sum(now.dead_letters.values()))

    await moving(desk, show)


def _facts(query: Condition) -> dict[str, object]:
    return {
        "state": query.state,
        "way": query.way or "–",
        "rate": words.rate(query.rate),
        "behind": "–" if query.lag is None else f"{query.lag:,}",
        "batches": f"{query.batches:,}",
        "last_batch": "–" if query.batch_ms is None else f"{query.batch_ms:,} ms",
        "rows_in_state": f"{query.state_rows:,}",
        "event_time": words.moment(query.watermark) or "–",
        "late": f"{query.late:,}",
        "written": f"{query.written:,}",
    }


def _doing(desk: Desk, query: str, do: Callable[..., Any], name: str) -> Callable[[], Any]:
    async def done() -> None:
        with notified():
            now: Condition = await desk.ask(do, Named(query=query))
            said = "it is paused" if now.state == PAUSED else "done"
            ui.notify(f"{name}: {said}", type="positive")

    return done


async def _end(desk: Desk, query: str) -> None:
    """After one has been asked."""
    with ui.dialog() as dialog, ui.card():
        text("p", f"End {query} for good? What it wrote stays.")
        with tag("div").classes("hr-row"):
            ui.button("End it", on_click=lambda: dialog.submit(True)).props("no-caps color=negative")
            ui.button("Keep it", on_click=lambda: dialog.submit(False)).props("flat no-caps")
    if await dialog:
        with notified():
            await desk.ask(terminate_query, Named(query=query))
            ui.navigate.to("/queries")


class Letters:
    """Dead letters of a query, with their reasons; each can be sent through again."""

    def __init__(self, desk: Desk, query: Condition) -> None:
        self._desk, self._query = desk, query
        self._count = -1
        self._root = tag("section")
        with self._root:
            text("h2", "Dead letters")
            self._grid = Grid(
                Column("place", "Letter"),
                Column("code", "Code"),
                Column("reason", "Reason"),
                Column("where", "Record"),
                Column("value", "Value"),
                Column("act", ""),
                label="Dead letters",
            )
            self._grid.table.add_slot("body-cell-act", _REPLAY)
            self._grid.table.on("replay", self._replay)

    async def show(self, count: int) -> None:
        """Looks again when there are others."""
        if count == self._count:
            return
        self._count = count
        with notified():
            try:
                boxes = await self._desk.ask(letters.list_boxes, letters.Boxes(query=self._query.name))
            except UnknownQuery:
                return
            found = [await self._desk.ask(letters.list_letters, letters.Letters(topic=box.topic)) for box in boxes]
            rows = [_letter(one) for page in found for one in page.letters]
            self._grid.show(rows)
            self._root.set_visibility(bool(rows))

    async def _replay(self, event: Any) -> None:
        topic, partition, offset = event.args["topic"], event.args["partition"], event.args["offset"]
        with notified():
            asked = letters.One(topic=str(topic), partition=int(partition), offset=int(offset))
            await self._desk.ask(letters.replay_letter, asked)
            ui.notify("sent through again", type="positive")
            self._count = -1


_REPLAY = """
<q-td :props="props">
  <q-btn flat dense no-caps label="Replay" @click="() => $parent.$emit('replay', props.row)" />
</q-td>
"""


def _letter(letter: letters.Shown) -> dict[str, object]:
    return {
        "place": f"{letter.partition}/{letter.offset}",
        "code": letter.code,
        "reason": letter.reason,
        "where": letter.where,
        "value": letter.value,
        "topic": letter.topic,
        "partition": letter.partition,
        "offset": letter.offset,
    }
