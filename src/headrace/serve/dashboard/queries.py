"""Queries: how each is doing, what it could not use, and what a person can do about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from nicegui import ui

from headrace.control.condition import FAILED, PAUSED, Condition
from headrace.errors import UnknownQuery
from headrace.serve.api import letters
from headrace.serve.api.queries import Named, get_query, pause_query, restart_query, resume_query, terminate_query
from headrace.serve.dashboard import words
from headrace.serve.dashboard.desk import Desk
from headrace.serve.dashboard.frame import Column, Facts, Figure, Grid, asked, link, moving, notified, tag, text, whole
from headrace.serve.dashboard.newest import LETTERS, Found, Newest
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
        "rate": Figure(query.rate, words.rate(query.rate)),
        "lag": whole(query.lag),
        "batch": None if query.batch_ms is None else Figure(query.batch_ms, f"{query.batch_ms:,} ms"),
        "rows": whole(query.state_rows),
        "late": whole(query.late),
        "dead": whole(sum(query.dead_letters.values())),
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
    split = Split()
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
        split.show(now.batch_split)
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


class Split:
    """What the last batch took its time for: a bar in parts, which say how long they are."""

    def __init__(self) -> None:
        self._bar = tag("div").classes("hr-split").props("role=img")
        with self._bar:
            self._parts = {name: text("span", "").classes(f"hr-{name}") for name in ("look", "plan", "work", "note")}

    def show(self, split: Mapping[str, int]) -> None:
        self._bar.set_visibility(bool(split))
        told = ", ".join(f"{name} {ms:,} ms" for name, ms in split.items())
        self._bar.props["aria-label"] = f"The last batch: {told}"
        for name, part in self._parts.items():
            ms = split.get(name, 0)
            part.set_text(f"{name} {ms:,} ms")
            part.style(f"flex-grow: {ms}")


def _doing(desk: Desk, query: str, do: Callable[..., Any], name: str) -> Callable[[], Any]:
    async def done() -> None:
        with notified():
            now: Condition = await desk.ask(do, Named(query=query))
            said = "it is paused" if now.state == PAUSED else "done"
            ui.notify(f"{name}: {said}", type="positive")

    return done


async def _end(desk: Desk, query: str) -> None:
    if await asked(f"End {query} for good? What it wrote stays.", "End it"):
        with notified():
            await desk.ask(terminate_query, Named(query=query))
            ui.navigate.to("/queries")


class Letters:
    """Dead letters of a query, the newest first, with their reasons; each can be sent through again."""

    def __init__(self, desk: Desk, query: Condition) -> None:
        self._desk, self._query = desk, query
        self._count = -1
        self._pages, self._settled = 1, 0
        self._root = tag("section")
        with self._root:
            text("h2", "Dead letters")
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
        """Looks again when there are others."""
        if count == self._count:
            return
        self._count = count
        with notified():
            try:
                found: Found = await self._desk.share(Newest(self._query.name, self._pages * LETTERS, self._settled))
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
        with notified():
            one = letters.One(topic=str(topic), partition=int(partition), offset=int(offset))
            await self._desk.ask(letters.replay_letter, one)
            ui.notify("sent through again", type="positive")
            self._settled += 1
            self._count = -1


_REPLAY = """
<q-td :props="props">
  <q-btn flat dense no-caps label="Replay" @click="() => $parent.$emit('replay', props.row)" />
</q-td>
"""


def _letter(letter: letters.Shown) -> dict[str, object]:
    return {
        "place": f"{letter.partition}/{letter.offset}",
        "at": words.moment(letter.timestamp),
        "code": letter.code,
        "reason": letter.reason,
        "where": letter.where,
        "value": letter.value,
        "topic": letter.topic,
        "partition": letter.partition,
        "offset": letter.offset,
    }
