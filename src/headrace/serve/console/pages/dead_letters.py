"""The dead letters of a query, on its page: newest first, with their reasons; each can be replayed."""

from __future__ import annotations

from typing import Any

from nicegui import ui

from headrace.control.status import QueryStatus
from headrace.errors import UnknownQuery
from headrace.serve.api.resources import dead_letters
from headrace.serve.console.page_context import PageContext
from headrace.serve.console.recent_dead_letters import PAGE_SIZE, DeadLetterList, RecentDeadLetters
from headrace.serve.console.widgets import number_format
from headrace.serve.console.widgets.layout import Column, Grid, html_tag, html_text, notify_errors


class DeadLetterGrid:
    """Dead letters of a query, newest first, with their reasons; each can be replayed."""

    def __init__(self, context: PageContext, query: QueryStatus) -> None:
        self._context, self._query = context, query
        self._count = -1
        self._pages, self._settled = 1, 0
        self._root = html_tag("section")
        with self._root:
            html_text("h2", "Dead letters")
            self._grid = Grid(
                Column("at", "Time (UTC)"),
                Column("code", "Error"),
                Column("reason", "Reason", wraps=True),
                Column("where", "Record", wraps=True),
                Column("value", "Value", wraps=True),
                Column("act", "Action"),
                key="place",
                label="Dead letters",
            )
            self._grid.table.add_slot("body-cell-act", _REPLAY)
            self._grid.table.on("replay", self._replay)
            self._more = ui.button("Load older dead letters", on_click=self._older).props("flat no-caps")
        self._root.set_visibility(False)

    async def show(self, count: int) -> None:
        """Fetch the dead letters again when their count has changed."""
        if count == self._count:
            return
        self._count = count
        with notify_errors():
            try:
                recent: DeadLetterList = await self._context.cached(
                    RecentDeadLetters(self._query.name, self._pages * PAGE_SIZE, self._settled)
                )
            except UnknownQuery:
                return
            self._grid.show([_row(one) for one in recent.dead_letters])
            self._more.set_visibility(recent.are_more)
            self._root.set_visibility(bool(recent.dead_letters))

    async def _older(self) -> None:
        self._pages += 1
        count, self._count = self._count, -1
        await self.show(count)

    async def _replay(self, event: Any) -> None:
        topic, partition, offset = event.args["topic"], event.args["partition"], event.args["offset"]
        with notify_errors():
            one = dead_letters.DeadLetterRequest(topic=str(topic), partition=int(partition), offset=int(offset))
            await self._context.call(dead_letters.replay_dead_letter, one)
            ui.notify("Record replayed", type="positive")
            self._settled += 1
            self._count = -1


_REPLAY = """
<q-td :props="props">
  <q-btn flat dense no-caps label="Replay" @click="() => $parent.$emit('replay', props.row)" />
</q-td>
"""


def _row(dead_letter: dead_letters.DeadLetter) -> dict[str, object]:
    return {
        "place": f"{dead_letter.topic}/{dead_letter.partition}/{dead_letter.offset}",
        "at": number_format.format_time(dead_letter.timestamp),
        "code": dead_letter.code,
        "reason": dead_letter.reason,
        "where": dead_letter.where,
        "value": dead_letter.value,
        "topic": dead_letter.topic,
        "partition": dead_letter.partition,
        "offset": dead_letter.offset,
    }
