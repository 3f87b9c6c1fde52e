"""The pull and push queries that are running, on the queries page; each can be killed."""

from __future__ import annotations

import textwrap
from typing import Any

from headrace.lang.contract import ProcessStatus
from headrace.serve.api.resources.processes import ProcessRequest, kill_process, list_processes
from headrace.serve.console.page_context import PageContext
from headrace.serve.console.widgets.layout import (
    Column,
    Grid,
    SortedNumber,
    confirm,
    html_tag,
    html_text,
    integer_cell,
    notify_errors,
)
from headrace.settings import size_text

_MAX_TEXT = 200
"""Characters of a statement that are shown."""


class ProcessGrid:
    """The processes that the user may see: own ones, or all of them for an admin."""

    def __init__(self, context: PageContext) -> None:
        self._context = context
        with html_tag("section"):
            html_text("h2", "Pull and push queries")
            self._grid = Grid(
                Column("id", "ID", right=True),
                Column("act", "Action"),  # also visible on a narrow screen
                Column("text", "Statement", wraps=True),
                Column("principal", "User"),
                Column("kind", "Kind"),
                Column("state", "State"),
                Column("age", "Age", right=True),
                Column("cpu", "CPU", right=True),
                Column("memory", "Memory", right=True),
                Column("rows", "Rows", right=True),
                label="Pull and push queries",
                empty="No pull or push query is running.",
            )
        self._grid.table.add_slot("body-cell-act", _KILL)
        self._grid.table.on("kill", self._kill)

    async def show(self) -> None:
        processes: list[ProcessStatus] = await self._context.call(list_processes)
        self._grid.show([_row(process) for process in processes])

    async def _kill(self, event: Any) -> None:
        number, user = int(event.args["id"]), str(event.args["principal"])
        if await confirm(f"Kill query {number} of {user}? Its client gets an error.", "Kill"):
            with notify_errors():
                await self._context.call(kill_process, ProcessRequest(process=number))
                await self.show()


_KILL = """
<q-td :props="props">
  <q-btn flat dense no-caps color="negative" label="Kill" :aria-label="'Kill query ' + props.row.id"
    @click="() => $parent.$emit('kill', props.row)" />
</q-td>
"""


def _row(process: ProcessStatus) -> dict[str, object]:
    return {
        "id": process.id,
        "text": textwrap.shorten(process.text, _MAX_TEXT, placeholder=" ..."),
        "principal": process.principal,
        "kind": process.kind,
        "state": process.state,
        "age": _seconds_cell(process.seconds),
        "cpu": _seconds_cell(process.cpu_seconds),
        "memory": None if process.memory is None else SortedNumber(process.memory, size_text(process.memory)),
        "rows": integer_cell(process.rows),
    }


def _seconds_cell(seconds: float | None) -> object:
    return None if seconds is None else SortedNumber(seconds, f"{seconds:,.1f} s")
