"""Statements: an editor that knows the language and underlines what is wrong; what is run is answered below."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

from nicegui import ui
from starlette.concurrency import run_in_threadpool

from headrace.control.node import Outcome
from headrace.control.permits import visible
from headrace.control.printing import Printing
from headrace.control.pushes import Pushes, Subscription
from headrace.errors import HeadraceError, NotAuthenticated, StatementError
from headrace.lang.ksql import ast
from headrace.lang.ksql.keywords import keywords
from headrace.lang.ksql.parser import read
from headrace.lang.ksql.script import Checked, check_script
from headrace.plan.answers.columns import RECORDS
from headrace.plan.answers.listing import Listing
from headrace.plan.catalog import Ask, Catalog
from headrace.plan.explain import tree
from headrace.plan.functions import AGGREGATES, SCALARS
from headrace.serve.api.site import Site
from headrace.serve.api.statements import journal
from headrace.serve.dashboard.asking import row_of, times_in
from headrace.serve.dashboard.desk import Desk
from headrace.serve.dashboard.frame import Column, Grid, cells, notified, refused, tag, text
from headrace.serve.notices import notifier, rows_of

MOST_SHOWN = 500
"""Rows of an answer that a page holds."""
_PAUSE = 0.4  # seconds after the last key until the text is looked through
_EXAMPLE = "SHOW STREAMS;\n"
_QUESTIONS = (ast.SelectStatement, ast.Print)
_RESET = "auto.offset.reset"
_REMEMBERED = 20  # statements that a page has run


async def statements(desk: Desk) -> None:
    page = Page(desk)
    page.build()
    await page.look_through()
    await page.history()


class Page:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._live: asyncio.Task[None] | None = None
        self._turn = 0
        """Rises with each thing that is asked, and when the page goes: what was asked before is answered no more."""
        self._ran: list[str] = []
        self._waiting: asyncio.TimerHandle | None = None

    def build(self) -> None:
        self._editor = ui.codemirror(_EXAMPLE, language="SQL", on_change=self._changed, line_wrapping=True)
        self._editor.classes("hr-editor").map_key("Ctrl-Enter", self.run)
        names = offered(visible(self._desk.site.node.catalog, self._desk.rights))
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
        ui.context.client.on_delete(self._end)

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
        with suppress(NotAuthenticated):  # who is not known any more is told so when they ask for something
            found = await run_in_threadpool(_checked, self._desk.site, looked_at)
            if looked_at == self._text:
                self._underline(found)

    def _underline(self, found: Checked) -> None:
        marks = [error.span for error in found.errors if isinstance(error, StatementError) and error.span is not None]
        size = len(self._text)
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

    def _begin(self) -> int:
        self.stop()
        self._answers.clear()
        return self._turn

    async def run(self) -> None:
        """Statements are done one after another; the first question ends it, and its rows follow."""
        turn = self._begin()
        properties, variables = dict[str, str](), dict[str, str]()
        with self._answers:
            try:
                for reading in read(self._text, dict(variables)):
                    if reading.error is not None:
                        raise reading.error
                    self._note(reading.text)
                    if isinstance(reading.statement, _QUESTIONS):
                        await self._ask(turn, reading.text, properties, variables)
                        break
                    done = await run_in_threadpool(_done, self._desk.site, reading.text, properties, variables)
                    if turn != self._turn:
                        return
                    for outcome in done:
                        _shown(outcome)
                    _remember(reading.statement, properties)
            except HeadraceError as error:
                if turn == self._turn:
                    refused(error)
        if turn == self._turn:
            await self.history()

    async def explain(self) -> None:
        turn = self._begin()
        with self._answers, notified():
            found = await run_in_threadpool(_checked, self._desk.site, self._text)
            if turn != self._turn:
                return
            for error in found.errors:
                refused(error)
            for planned in found.planned:
                query = getattr(planned.action, "query", None)
                text("h2", planned.text.strip().splitlines()[0])
                text("pre", tree(query) if query else "nothing runs").classes("hr-text")

    async def _ask(self, turn: int, question: str, properties: dict[str, str], variables: dict[str, str]) -> None:
        site = self._desk.site
        asked = await run_in_threadpool(lambda: site.node.question(question, properties, variables, rights=site.rights))
        if turn != self._turn:
            return
        if isinstance(asked, Printing):
            rows = Rows([column.name for column in RECORDS])
        else:
            rows = Rows([column.name for column in asked.columns], times_in(asked.columns))
        if isinstance(asked, Ask) and not asked.push:
            found = await run_in_threadpool(_pulled, site, asked)
            if turn == self._turn:
                rows.add(found[:MOST_SHOWN])
                rows.end(are_more=len(found) > MOST_SHOWN)
            return
        from_beginning = properties.get(_RESET) == "earliest"
        self._live = asyncio.create_task(self._follow(turn, asked, rows, from_beginning=from_beginning))
        self._stop.set_visibility(True)

    async def _follow(self, turn: int, asked: Ask | Printing, rows: Rows, *, from_beginning: bool) -> None:
        site, news = self._desk.site, asyncio.Event()  # with the rights under which it was asked
        pushes, notify = site.node.pushes, notifier(news)
        try:
            async with subscribed(pushes, asked, notify, from_beginning=from_beginning) as reader:
                async for some in rows_of(reader, news, 1.0):
                    if not self._desk.rights.same(site.rights):
                        raise NotAuthenticated("rights have changed meanwhile", fix="ask again")
                    if some:
                        columns = () if isinstance(asked, Printing) else asked.columns
                        rows.add([row_of(row.text, columns) for row in some])
                        await asyncio.sleep(0.2)  # a person reads no faster
                rows.end(reader.failure)
        except HeadraceError as error:
            rows.end(error)
        finally:
            if turn == self._turn:
                self._stop.set_visibility(False)

    def stop(self) -> None:
        self._end()
        self._stop.set_visibility(False)

    def _end(self) -> None:
        """Also when the page has gone, and there is nothing left to show it on."""
        self._turn += 1
        if self._live is not None:
            self._live.cancel()
            self._live = None

    # -- what was done ----------------------------------------------------------------------------------------------

    def _note(self, statement: str) -> None:
        """What was run here last, first."""
        told = statement.strip()
        self._ran = [told, *(one for one in self._ran if one != told)][:_REMEMBERED]

    async def history(self) -> None:
        """What was run on this page; for admins also what made what there is."""
        entries = await self._desk.ask(journal) if self._desk.rights.is_admin else []
        self._history.clear()
        with self._history:
            self._listed("Run on this page", self._ran)
            made = [entry.text or f"code of app {entry.app}" for entry in reversed(entries)]
            self._listed("What made what there is", made)

    def _listed(self, title: str, statements: list[str]) -> None:
        if statements:
            text("h2", title)
        for one in statements:
            with tag("div").classes("hr-entry"):
                text("pre", one).classes("hr-text")
                ui.button("Edit", on_click=partial(self._editor.set_value, one)).props("flat dense no-caps")


def offered(catalog: Catalog) -> list[str]:
    """Names that one may want to write."""
    columns = {column.name for source in catalog.sources.values() for column in source.relation.columns}
    functions = sorted({*SCALARS, *AGGREGATES})
    return list(dict.fromkeys([*catalog.sources, *sorted(columns), *functions, *sorted(keywords())]))


@asynccontextmanager
async def subscribed(
    pushes: Pushes, asked: Ask | Printing, notify: Callable[[], None], *, from_beginning: bool
) -> AsyncIterator[Subscription]:
    """While it lasts. A thread goes on when who waits for it does not: what it brings then is given back."""
    if isinstance(asked, Printing):
        begin = partial(pushes.print, asked, notify=notify)
    else:
        begin = partial(pushes.subscribe, asked, from_beginning=from_beginning, notify=notify)
    begun = asyncio.ensure_future(run_in_threadpool(begin))
    try:
        reader = await asyncio.shield(begun)
    except asyncio.CancelledError:
        begun.add_done_callback(lambda done: done.exception() or pushes.unsubscribe(done.result()))
        raise
    try:
        yield reader
    finally:
        pushes.unsubscribe(reader)


class Rows:
    """Rows of an answer, the last of them at the top."""

    def __init__(self, columns: list[str], times: Collection[int] = ()) -> None:
        self._times = times
        self._held: list[dict[str, object]] = []
        self._count = 0
        self._told = text("p", "waiting for rows").classes("hr-told").props("role=status")
        self._grid = Grid(Column("$", "#", right=True), *(Column(f"c{i}", name) for i, name in enumerate(columns)))

    def add(self, rows: list[list[Any]]) -> None:
        for row in rows:
            self._count += 1
            self._held.insert(0, {"$": self._count} | cells(row, self._times))
        del self._held[MOST_SHOWN:]
        self._grid.show(list(self._held))
        self._told.set_text(
            f"{self._count:,} rows" + (f", the last {MOST_SHOWN} shown" if self._count > MOST_SHOWN else "")
        )

    def end(self, failure: HeadraceError | None = None, *, are_more: bool = False) -> None:
        told = f"the first {self._count:,} rows" if are_more else f"{self._count:,} rows"
        if failure is not None:
            told += f"; {failure.what}" + (f": {failure.fix}" if failure.fix else "")
        self._told.set_text(told)


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
    site.node.execute(text, properties, variables, rights=site.rights, on_done=done.append)
    return done


def _remember(statement: ast.Statement | None, properties: dict[str, str]) -> None:
    """SET counts for what follows in the same text."""
    if isinstance(statement, ast.SetProperty):
        properties[statement.name] = statement.value
    elif isinstance(statement, ast.UnsetProperty):
        properties.pop(statement.name, None)


def _checked(site: Site, text: str) -> Checked:
    return check_script(text, None, visible(site.node.catalog, site.rights), reads_files=False)


def _pulled(site: Site, asked: Ask) -> list[list[Any]]:
    found: list[list[Any]] = []
    with site.node.pulls.answered(asked) as pulled:
        for batch in pulled.batches:
            found += [row_of(row.text, asked.columns) for row in batch]
            if len(found) > MOST_SHOWN:
                break
    return found
