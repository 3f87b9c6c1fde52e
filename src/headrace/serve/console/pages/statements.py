"""The statements page: a KSQL editor that underlines errors, with the results below."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from typing import Any

from nicegui import ui

from headrace.control.serving.print_topic import TopicPrinter
from headrace.control.statements.apply import StatementResult
from headrace.control.statements.permissions import visible_catalog
from headrace.errors import HeadraceError, NotAuthenticated, StatementError
from headrace.lang.contract import CheckedScript
from headrace.lang.record_printer import RECORDS
from headrace.lang.registry import dialect_of
from headrace.plan.actions import Action, SetProperty, TransientSelect, UnsetProperty
from headrace.plan.explain import tree
from headrace.serve.admission.quotas import charge_rows
from headrace.serve.admission.work_class import WorkClass
from headrace.serve.api.request_context import RequestContext
from headrace.serve.api.resources.statements import list_journal
from headrace.serve.console.page_context import PageContext
from headrace.serve.console.pages.statement_results import MAX_SHOWN_ROWS, ResultGrid, show_result
from headrace.serve.console.push_subscriptions import charged_stream, push_subscription
from headrace.serve.console.query_states import starting_queries, starting_text
from headrace.serve.console.unexecuted import check_unexecuted, normalized
from headrace.serve.console.view_queries import parse_row, time_columns
from headrace.serve.console.widgets.layout import error_text, html_tag, html_text, notify_errors
from headrace.serve.http.async_events import subscription_rows, thread_safe_setter
from headrace.span import Span

_PAUSE = 0.4  # seconds after the last key press until the text is checked
_EXAMPLE = "SHOW STREAMS;\n"
_RESET = "auto.offset.reset"
_FROM_NOW_ON = f"Shows rows from now on. To start at the beginning, put SET '{_RESET}' = 'earliest'; before the query."
_REMEMBERED = 20  # statements in the history of a page


async def statements(context: PageContext) -> None:
    page = StatementsPage(context)
    page.build()
    await page.look_through()
    await page.history()


class StatementsPage:
    def __init__(self, context: PageContext) -> None:
        self._context = context
        self._live: asyncio.Task[None] | None = None
        self._run_number = 0
        """Incremented by each run, and when the page closes: results of earlier runs are discarded."""
        self._ran: list[str] = []
        self._executed: set[str] = set()
        """Executed statements, normalized."""
        self._waiting: asyncio.TimerHandle | None = None

    def build(self) -> None:
        self._editor = ui.codemirror(_EXAMPLE, on_change=self._changed, line_wrapping=True)
        self._editor.classes("hr-editor").map_key("Ctrl-Enter", self.run)
        self._offer_words()
        ui.run_javascript(f"headrace.editor({self._editor.id})")
        self._errors = html_tag("ul").classes("hr-attention").props('aria-label="Errors" aria-live=polite')
        with html_tag("div").classes("hr-row"):
            ui.button("Run", icon="play_arrow", on_click=self.run).props("unelevated no-caps")
            ui.button("Explain", on_click=self.explain).props("outline no-caps")
            self._stop = ui.button("Stop", icon="stop", on_click=self.stop).props("outline no-caps")
            self._stop.set_visibility(False)
            html_text("span", "Ctrl+Enter runs all statements, Ctrl+Space completes a word").classes("hr-note")
        self._answers = html_tag("div").classes("hr-answers").props("role=log aria-label=Results")
        self._history = html_tag("div")
        ui.context.client.on_delete(self._end)

    @property
    def _text(self) -> str:
        return self._editor.value or ""

    def _offer_words(self) -> None:
        words = dialect_of().completions(visible_catalog(self._context.api.node.catalog, self._context.rights))
        ui.run_javascript(f"headrace.words = {json.dumps([asdict(word) for word in words])}")

    # -- while typing -----------------------------------------------------------------------------------------------

    def _changed(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
        client = ui.context.client

        def check() -> None:
            with suppress(RuntimeError), client:  # the page may have been closed
                ui.timer(0, self.look_through, once=True)

        self._waiting = asyncio.get_running_loop().call_later(_PAUSE, check)

    async def look_through(self) -> None:
        """Check the text: underline errors, and show their messages."""
        checked = self._text
        with suppress(NotAuthenticated):  # an expired log-in is reported when the user runs something
            script = await self._context.api.run(_checked, self._context.api, checked, frozenset(self._executed))
            if checked == self._text:
                self._underline(checked, script)

    def _underline(self, text: str, script: CheckedScript) -> None:
        spans = [error.span for error in script.errors if isinstance(error, StatementError) and error.span is not None]
        marks = [_code_units(text, span) for span in spans if text]
        ui.run_javascript(f"headrace.underline({self._editor.id}, {json.dumps(text)}, {json.dumps(marks)})")
        self._errors.clear()
        with self._errors:
            for error in script.errors:
                where = f"{error.where}: " if error.where else ""
                html_text("li", f"{where}{error.what}" + (f" ({error.fix})" if error.fix else ""))

    # -- running ----------------------------------------------------------------------------------------------------

    def _begin(self) -> int:
        self.stop()
        self._answers.clear()
        return self._run_number

    async def run(self) -> None:
        """Execute statements in order. The first query ends the run, and its rows follow."""
        number = self._begin()
        properties, variables = dict[str, str](), dict[str, str]()
        with self._answers:
            try:
                for reading in dialect_of().parse(self._text, dict(variables)):
                    if reading.error is not None:
                        raise reading.error
                    self._note(reading.text)
                    if reading.returns_rows:
                        await self._run_query(number, reading.text, properties, variables)
                        break
                    done = await self._context.api.run(_done, self._context.api, reading.text, properties, variables)
                    if number != self._run_number:
                        return
                    for outcome in done:
                        show_result(outcome)
                        _remember(outcome.action, properties)
                    self._executed.add(normalized(reading.text))
            except HeadraceError as error:
                if number == self._run_number:
                    error_text(error)
        if number == self._run_number:
            self._offer_words()
            await self.history()
            await self.look_through()

    async def explain(self) -> None:
        number = self._begin()
        with self._answers, notify_errors():
            script = await self._context.api.run(_checked, self._context.api, self._text, frozenset(self._executed))
            if number != self._run_number:
                return
            for error in script.errors:
                error_text(error)
            for planned in script.planned:
                query = getattr(planned.action, "query", None)
                html_text("h2", planned.text.strip().splitlines()[0])
                html_text("pre", tree(query) if query else "This statement runs no query.").classes("hr-text")

    async def _run_query(self, number: int, text: str, properties: dict[str, str], variables: dict[str, str]) -> None:
        context = self._context.api
        planned = await context.run(
            lambda: context.node.plan_transient_query(text, properties, variables, rights=context.rights)
        )
        if number != self._run_number:
            return
        if isinstance(planned, TopicPrinter):
            rows = ResultGrid([column.name for column in RECORDS])
        else:
            rows = ResultGrid([column.name for column in planned.columns], time_columns(planned.columns))
        if isinstance(planned, TransientSelect) and not planned.push:
            with context.charged(WorkClass.PULL) as pulls:
                pulled_rows = await pulls.run(_pulled, pulls, planned)
            if number == self._run_number:
                rows.add(pulled_rows[:MAX_SHOWN_ROWS])
                rows.end(are_more=len(pulled_rows) > MAX_SHOWN_ROWS, starting=await self._starting(planned))
            return
        from_beginning = properties.get(_RESET) == "earliest"
        if isinstance(planned, TransientSelect) and not from_beginning:
            html_text("p", _FROM_NOW_ON).classes("hr-note")
        self._live = asyncio.create_task(self._follow(number, planned, rows, from_beginning=from_beginning))
        self._stop.set_visibility(True)

    async def _follow(
        self, number: int, planned: TransientSelect | TopicPrinter, rows: ResultGrid, *, from_beginning: bool
    ) -> None:
        context, news = self._context.api, asyncio.Event()  # with the rights at the time of the run
        pushes, notify = context.node.push_queries, thread_safe_setter(news)
        try:
            async with (
                charged_stream(context) as run,
                push_subscription(run, pushes, planned, notify, from_beginning=from_beginning) as reader,
            ):
                async for some in subscription_rows(reader, news, 1.0):
                    if not self._context.rights.same(context.rights):
                        raise NotAuthenticated("your rights have changed", fix="run the query again")
                    if not some:
                        rows.wait(await self._starting(planned) or "Waiting for rows")
                    else:
                        charge_rows(len(some))
                        columns = () if isinstance(planned, TopicPrinter) else planned.columns
                        rows.add([parse_row(row.text, columns) for row in some])
                        await asyncio.sleep(0.2)  # a person reads no faster
                rows.end(reader.failure)
        except HeadraceError as error:
            rows.end(error)
        finally:
            if number == self._run_number:
                self._stop.set_visibility(False)

    async def _starting(self, planned: TransientSelect | TopicPrinter) -> str:
        """Says which queries the result still waits for; empty if none."""
        if isinstance(planned, TopicPrinter):
            return ""
        sources = [source.name for source in planned.query.sources]
        return starting_text(starting_queries(await self._context.snapshot(), sources))

    def stop(self) -> None:
        self._end()
        self._stop.set_visibility(False)

    def _end(self) -> None:
        """Also called after the page has closed, when nothing can be shown."""
        self._run_number += 1
        if self._live is not None:
            self._live.cancel()
            self._live = None

    # -- history ----------------------------------------------------------------------------------------------------

    def _note(self, statement: str) -> None:
        """Add a statement to the top of the page's history."""
        text = statement.strip()
        self._ran = [text, *(one for one in self._ran if one != text)][:_REMEMBERED]

    async def history(self) -> None:
        """Show the statements run on this page; for admins, also the journal."""
        entries = await self._context.call(list_journal) if self._context.rights.is_admin else []
        self._executed |= {normalized(entry.text) for entry in entries if entry.text}
        self._history.clear()
        with self._history:
            self._list_statements("Recent statements", self._ran)
            applied = [entry.text or f"code of app {entry.app}" for entry in reversed(entries)]
            self._list_statements("Statement history", applied)

    def _list_statements(self, title: str, statements: list[str]) -> None:
        if statements:
            html_text("h2", title)
        for one in statements:
            with html_tag("div").classes("hr-entry"):
                html_text("pre", one).classes("hr-text")
                ui.button("Edit", on_click=partial(self._editor.set_value, one)).props("flat dense no-caps")


def _done(
    context: RequestContext, text: str, properties: dict[str, str], variables: dict[str, str]
) -> list[StatementResult]:
    done: list[StatementResult] = []
    context.node.execute(text, properties, variables, rights=context.rights, on_done=done.append)
    return done


def _remember(action: Action, properties: dict[str, str]) -> None:
    """Apply SET to the statements that follow in the same text."""
    if isinstance(action, SetProperty):
        properties[action.name] = action.value
    elif isinstance(action, UnsetProperty):
        properties.pop(action.name, None)


def _code_units(text: str, span: Span) -> tuple[int, int]:
    """The span, at least one character long, in the positions of JavaScript, which counts UTF-16 code units."""
    start = min(span.start, len(text) - 1)
    end = min(max(span.end, start + 1), len(text))
    return len(text[:start].encode("utf-16-le")) // 2, len(text[:end].encode("utf-16-le")) // 2


def _checked(context: RequestContext, text: str, executed: Collection[str]) -> CheckedScript:
    return check_unexecuted(text, visible_catalog(context.node.catalog, context.rights), executed)


def _pulled(context: RequestContext, planned: TransientSelect) -> list[list[Any]]:
    rows: list[list[Any]] = []
    with context.node.pull_queries.execute(planned) as pulled:
        for batch in pulled.batches:
            rows += [parse_row(row.text, planned.columns) for row in batch]
            charge_rows(len(batch))
            if len(rows) > MAX_SHOWN_ROWS:
                break
    return rows
