"""Statements: executed in order, each journalled before it takes effect; and the journal itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headrace.control.statements.apply import StatementResult
from headrace.control.statements.journal import read_journal
from headrace.errors import HeadraceError
from headrace.lang.registry import KSQL
from headrace.plan.actions import CreateSource, DropSource, StartQuery
from headrace.serve.admission.work_class import WorkClass
from headrace.serve.api.parameters import in_body
from headrace.serve.api.request_context import RequestContext
from headrace.serve.api.route import AccessLevel, Route
from headrace.serve.http.request_body import MAX_STATEMENTS_BYTES


@dataclass(frozen=True)
class ExecutedStatement:
    """The result of a statement: the action it was planned into, such as `create_source`. `number` is its position in
    the journal, if it made a persistent change.
    """

    text: str
    action: str
    number: int | None = None
    source: str | None = None
    query: str | None = None
    answer: dict[str, Any] | None = None


@dataclass(frozen=True)
class StatementResults:
    done: list[ExecutedStatement]


@dataclass(frozen=True)
class JournalEntry:
    """A journalled statement. `language` is its dialect, `at` its time in ms. `failure` says why it failed on replay.
    Entries of app code have no text.
    """

    number: int
    text: str
    app: str | None
    language: str
    properties: dict[str, Any]
    at: int
    failure: str | None


@dataclass(frozen=True, kw_only=True)
class ExecuteRequest:
    text: str = in_body("Statements of the language.")
    properties: dict[str, Any] | None = in_body("As if they were SET before.", None)
    variables: dict[str, str] | None = in_body("As if they were DEFINEd before.", None)
    language: str = in_body("The dialect of the statements.", KSQL)


def execute_statements(context: RequestContext, params: ExecuteRequest) -> StatementResults:
    """Execute statements in order.

    The first error stops the execution. Statements executed before it keep their effect, and are listed in the error.
    """
    done: list[ExecutedStatement] = []
    try:
        context.node.execute(
            params.text,
            params.properties or {},
            dict(params.variables or {}),
            language=params.language,
            rights=context.rights,
            on_done=lambda outcome: done.append(result_of(outcome)),
        )
    except HeadraceError as error:
        error.done = done  # type: ignore[attr-defined] - reported with the error
        raise
    return StatementResults(done)


def list_journal(context: RequestContext) -> list[JournalEntry]:
    """List the statements that created the current catalog, in order."""
    broken = context.node.broken
    return [
        JournalEntry(
            entry.number,
            entry.text,
            entry.app,
            entry.language,
            dict(entry.properties),
            entry.at,
            str(broken[entry.number]) if entry.number in broken else None,
        )
        for entry in read_journal(context.log)[0]
    ]


def result_of(outcome: StatementResult) -> ExecutedStatement:
    action = outcome.action
    source = action.source.name if isinstance(action, CreateSource | DropSource) else None
    query = action.query.id if isinstance(action, CreateSource | StartQuery) and action.query is not None else None
    number = None if outcome.entry is None else outcome.entry.number
    answer = None if outcome.answer is None else outcome.answer.body()
    return ExecutedStatement(outcome.text, action.action_name, number, source, query, answer)


ROUTES = (
    Route(
        "POST",
        "/statements",
        execute_statements,
        most=MAX_STATEMENTS_BYTES,
        needs=AccessLevel.KNOWN,
        work=WorkClass.STATEMENT,
    ),
    Route("GET", "/statements", list_journal, needs=AccessLevel.ADMIN, work=WorkClass.ADMINISTRATION),
)
