"""Statements: an editor that knows the language and underlines what is wrong; what is run is answered below."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from functools import partial
from typing import Any

from nicegui import ui
from starlette.concurrency import run_in_threadpool

from headrace.control.node import Outcome
from headrace.control.printing import Printing
from headrace.errors import HeadraceError, StatementError
from headrace.lang.ksql import ast
from headrace.lang.ksql.keywords import keywords
from headrace.lang.ksql.parser import read
from headrace.lang.ksql.script import Checked, check_script
from headrace.plan.answers.listing import Listing
from headrace.plan.catalog import Ask
from headrace.plan.explain import tree
from headrace.serve.api.site import Site
from headrace.serve.api.statements import journal
from headrace.serve.dashboard.desk import Desk
from headrace.serve.dashboard.frame import Column, Grid, cell, refused, tag, text
from headrace.serve.notices import notifier, rows_of

MOST_SHOWN = 500
"""Rows of an answer that a page holds."""
_PAUSE = 0.4  # seconds after the last key until the text is looked through
_EXAMPLE = "SHOW STREAMS;\n"
_QUESTIONS = (ast.SelectStatement, ast.Print)
_RESET = "auto.offset.reset"


async def statements(desk: Desk) -> None:
    page = Page(desk)
    page.build()
    await page.look_through()
    await page.history()


class Page:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._live: asyncio.Task[None] | None = None
        self._waiting: asyncio.TimerHandle | None = None

    def build(self) -> None:
        self._editor = ui.codemirror(_EXAMPLE, language="SQL", on_change=self._changed, line_wrapping=True)
        self._editor.classes("hr-editor").map_key("Ctrl-Enter", self.run)
        names = [*self._desk.site.node.catalog.sources, *sorted(keywords())]
        ui.run_javascript(f"headrace.editor({self._editor.id}, {json.dumps(names)})")
        self._errors = tag("ul").classes("hr-attention").props('aria-label="Errors" aria-live=polite')
        with tag("div").classes("hr-row"):
            ui.button("Run", icon="play_arrow", on_click=self.run).props("unelevated no-caps")
            ui.button("Explain", on_click=self.explain).props("outline no-caps")
            self._stop = ui.button("Stop", icon="stop", on_click=self.stop).props("outline no-caps")
            self._stop.set_visibility(False)
            text("span", "Ctrl+Enter runs it").classes("hr-told")
        self._answers = tag("div").classes("hr-answers").props("role=log aria-label=Answers")
        self._history = tag("div")
        ui.context.client.on_delete(self.stop)

    @property
    def _text(self) -> str:
        return self._editor.value or ""

    # -- while one writes -------------------------------------------------------------------------------------------

    def _changed(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
        client = ui.context.client

        def look() -> None:
            with suppress(RuntimeError), client:  # the page may have gone
                ui.timer(0, self.look_through, once=True)

        self._waiting = asyncio.get_running_loop().call_later(_PAUSE, look)

    async def look_through(self) -> None:
        """Underline what is wrong, and say why."""
        looked_at = self._text
        found = await run_in_threadpool(_checked, self._desk.site, looked_at)
        if looked_at != self._text:
            return
        marks = [error.span for error in found.errors if isinstance(error, StatementError) and error.span is not None]
        size = len(looked_at)
        self._editor.decorations = [
            {
                "kind": "mark",
                "from": min(span.start, size - 1),
                "to": min(max(span.end, span.start + 1), size),
                "class": "hr-wrong",
            }
            for span in marks
            if size
        ]
        self._errors.clear()
        with self._errors:
            for error in found.errors:
                where = f"{error.where}: " if error.where else ""
                text("li", f"{where}{error.what}" + (f" ({error.fix})" if error.fix else ""))

    # -- what is asked ----------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Statements are done one after another; the first question ends it, and its rows follow."""
        self.stop()
        self._answers.clear()
        properties, variables = dict[str, str](), dict[str, str]()
        with self._answers:
            try:
                for reading in read(self._text, dict(variables)):
                    if reading.error is not None:
                        raise reading.error
                    if isinstance(reading.statement, _QUESTIONS):
                        await self._ask(reading.text, properties, variables)
                        break
                    for outcome in await run_in_threadpool(_done, self._desk.site, reading.text, properties, variables):
                        _shown(outcome)
                    _remember(reading.statement, properties)
            except HeadraceError as error:
                refused(error)
        await self.history()

    async def explain(self) -> None:
        self._answers.clear()
        found = await run_in_threadpool(_checked, self._desk.site, self._text)
        with self._answers:
            for error in found.errors:
                refused(error)
            for planned in found.planned:
                query = getattr(planned.action, "query", None)
                text("h2", planned.text.strip().splitlines()[0])
                text("pre", tree(query) if query else "nothing runs").classes("hr-text")

    async def _ask(self, question: str, properties: dict[str, str], variables: dict[str, str]) -> None:
        site = self._desk.site
        asked = await run_in_threadpool(site.node.question, question, properties, variables)
        columns = ["record"] if isinstance(asked, Printing) else [column.name for column in asked.columns]
        rows = Rows(columns)
        if isinstance(asked, Ask) and not asked.push:
            rows.add(await run_in_threadpool(_pulled, site, asked))
            rows.end()
            return
        self._stop.set_visibility(True)
        from_beginning = properties.get(_RESET) == "earliest"
        self._live = asyncio.create_task(self._follow(asked, rows, from_beginning=from_beginning))

    async def _follow(self, asked: Any, rows: Rows, *, from_beginning: bool) -> None:
        site, news = self._desk.site, asyncio.Event()
        notify, pushes = notifier(news), site.node.pushes
        reader = await run_in_threadpool(lambda: pushes.subscribe(asked, from_beginning=from_beginning, notify=notify))
        try:
            async for some in rows_of(reader, news, 1.0):
                if some:
                    rows.add([json.loads(row.text) if isinstance(asked, Ask) else [row.text.decode()] for row in some])
                    await asyncio.sleep(0.2)  # a person reads no faster
            rows.end(reader.failure)
        finally:
            pushes.unsubscribe(reader)
            self._stop.set_visibility(False)

    def stop(self) -> None:
        if self._live is not None:
            self._live.cancel()
            self._live = None

    # -- what was done ----------------------------------------------------------------------------------------------

    async def history(self) -> None:
        entries = await self._desk.ask(journal)
        self._history.clear()
        with self._history:
            text("h2", "What made what there is")
            for entry in reversed(entries):
                with tag("div").classes("hr-entry"):
                    text("pre", entry.text or f"code of app {entry.app}").classes("hr-text")
                    again = ui.button("Edit", on_click=partial(self._editor.set_value, entry.text))
                    again.props("flat dense no-caps")


class Rows:
    """Rows of an answer, the last of them at the top."""

    def __init__(self, columns: list[str]) -> None:
        self._columns = columns
        self._held: list[dict[str, object]] = []
        self._count = 0
        self._told = text("p", "waiting for rows").classes("hr-told").props("role=status")
        self._grid = Grid(Column("$", "#", right=True), *(Column(f"c{i}", name) for i, name in enumerate(columns)))

    def add(self, rows: list[list[Any]]) -> None:
        for row in rows:
            self._count += 1
            self._held.insert(0, {"$": self._count} | {f"c{i}": cell(value) for i, value in enumerate(row)})
        del self._held[MOST_SHOWN:]
        self._grid.show(list(self._held))
        self._told.set_text(
            f"{self._count:,} rows" + (f", the last {MOST_SHOWN} shown" if self._count > MOST_SHOWN else "")
        )

    def end(self, failure: HeadraceError | None = None) -> None:
        self._told.set_text(f"{self._count:,} rows" if failure is None else failure.what)


def _shown(outcome: Outcome) -> None:
    first = outcome.text.strip().splitlines()[0]
    text("p", f"done: {first}").classes("hr-done")
    if outcome.answer is not None:
        _listing(outcome.answer)


def _listing(answer: Listing) -> None:
    for table in answer.tables:
        shown = [column for column in table.columns if column.heading]
        grid = Grid(*(Column(column.name or column.heading, column.heading) for column in shown), label=table.title)
        names = [column.name or column.heading for column in table.columns]
        grid.show([{name: str(value) for name, value in zip(names, row, strict=True)} for row in table.rows])
    for fact in (*answer.facts, *answer.texts):
        if fact.heading:
            text("p", f"{fact.heading}: {fact.value}")


def _done(site: Site, text: str, properties: dict[str, str], variables: dict[str, str]) -> list[Outcome]:
    done: list[Outcome] = []
    site.node.execute(text, properties, variables, on_done=done.append)
    return done


def _remember(statement: ast.Statement | None, properties: dict[str, str]) -> None:
    """SET counts for what follows in the same text."""
    if isinstance(statement, ast.SetProperty):
        properties[statement.name] = statement.value
    elif isinstance(statement, ast.UnsetProperty):
        properties.pop(statement.name, None)


def _checked(site: Site, text: str) -> Checked:
    return check_script(text, None, site.node.catalog)


def _pulled(site: Site, asked: Ask) -> list[list[Any]]:
    found: list[list[Any]] = []
    with site.node.pulls.answered(asked) as pulled:
        for batch in pulled.batches:
            found += [json.loads(row.text) for row in batch]
            if len(found) >= MOST_SHOWN:
                break
    return found[:MOST_SHOWN]
