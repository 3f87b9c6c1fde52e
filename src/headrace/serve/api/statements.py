"""Statements: done one after another, each journalled before it counts; and the journal itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headrace.control.journal import journalled
from headrace.control.node import Outcome
from headrace.errors import HeadraceError
from headrace.plan.catalog import Create, Drop, Insert
from headrace.serve.api.parameters import in_body
from headrace.serve.api.route import Be, Route
from headrace.serve.api.site import Site
from headrace.serve.bodies import STATEMENTS


@dataclass(frozen=True)
class Done:
    """What became of a statement. `number` is its place in the journal, if it changed anything that stays."""

    text: str
    did: str
    number: int | None = None
    source: str | None = None
    query: str | None = None
    answer: dict[str, Any] | None = None


@dataclass(frozen=True)
class Outcomes:
    done: list[Done]


@dataclass(frozen=True)
class Journalled:
    """`at` is when, in ms. `failure` says why it cannot be done any more. The code of an app has no text here."""

    number: int
    text: str
    app: str | None
    properties: dict[str, Any]
    at: int
    failure: str | None


@dataclass(frozen=True, kw_only=True)
class Ask:
    text: str = in_body("Statements of KSQL.")
    properties: dict[str, Any] | None = in_body("As if they were SET before.", None)
    variables: dict[str, str] | None = in_body("As if they were DEFINEd before.", None)


def do_statements(site: Site, asked: Ask) -> Outcomes:
    """Do statements, one after another. The first that is refused ends it; what was done before stays, and is told."""
    done: list[Done] = []
    try:
        site.node.execute(
            asked.text,
            asked.properties or {},
            dict(asked.variables or {}),
            rights=site.rights,
            on_done=lambda outcome: done.append(done_of(outcome)),
        )
    except HeadraceError as error:
        error.done = done  # type: ignore[attr-defined] - told with the refusal
        raise
    return Outcomes(done)


def journal(site: Site) -> list[Journalled]:
    """The statements that made what there is, in their order."""
    broken = site.node.broken
    return [
        Journalled(
            e.number, e.text, e.app, dict(e.properties), e.at, str(broken[e.number]) if e.number in broken else None
        )
        for e in journalled(site.log)[0]
    ]


def done_of(outcome: Outcome) -> Done:
    action = outcome.action
    source = action.source.name if isinstance(action, Create | Drop) else None
    query = action.query.id if isinstance(action, Create | Insert) and action.query is not None else None
    number = None if outcome.entry is None else outcome.entry.number
    answer = None if outcome.answer is None else outcome.answer.body()
    return Done(outcome.text, type(action).__name__.lower(), number, source, query, answer)


ROUTES = (
    Route("POST", "/statements", do_statements, most=STATEMENTS, needs=Be.KNOWN),
    Route("GET", "/statements", journal, needs=Be.ADMIN),
)
