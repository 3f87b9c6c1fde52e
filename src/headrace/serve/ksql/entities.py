"""Results of statements in the format of ksqlDB's `/ksql`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from headrace.control.statements.apply import StatementResult
from headrace.plan.actions import (
    ControlQueries,
    CreateNotifier,
    CreateSource,
    CreateType,
    DropNotifier,
    DropSource,
    DropType,
    MuteAlert,
    StartQuery,
    UnmuteAlert,
)
from headrace.plan.sources import SourceInfo

Document = dict[str, Any]
_CONTROLLED = {"TERMINATE": "terminated", "PAUSE": "paused", "RESUME": "resumed"}


def statement_entity(outcome: StatementResult) -> Document | None:
    """None where ksqlDB returns nothing: an inserted row, a setting, an object that existed already."""
    if outcome.answer is not None:
        return outcome.answer.entity()
    if outcome.entry is None:
        return None
    command, message, query = _FACTS[type(outcome.action)](outcome.action)
    status = {"status": "SUCCESS", "message": message, "queryId": query}
    return {
        "@type": "currentStatus",
        "statementText": outcome.text,
        "commandId": command,
        "commandStatus": status,
        "commandSequenceNumber": outcome.entry.number,
        "warnings": [],
    }


EntityFacts = tuple[str, str, str | None]
"""The id of the command, the message, and the created query."""


def _create(action: CreateSource) -> EntityFacts:
    if action.query is None:
        return _command(action.source, "create"), f"{action.source.kind.capitalize()} created", None
    return _command(action.source, "create"), f"Created query with ID {action.query.id}", action.query.id


def _insert(action: StartQuery) -> EntityFacts:
    if action.query.alert is not None:
        return f"alert/`{action.query.alert.name}`/create", f"Created query with ID {action.query.id}", action.query.id
    return f"stream/`{action.query.sink.name}`/create", f"Created query with ID {action.query.id}", action.query.id


def _control(action: ControlQueries) -> EntityFacts:
    name = action.queries[0] if len(action.queries) == 1 else "ALL"
    return f"{action.verb.lower()}/{name}/execute", f"Query {_CONTROLLED[action.verb]}.", None


def _drop(action: DropSource) -> EntityFacts:
    source = action.source
    return _command(source, "drop"), f"Source `{source.name}` (topic: {source.topic}) was dropped.", None


def _type(name: str, verb: str, message: str) -> EntityFacts:
    return f"type/`{name}`/{verb}", message, None


def _named(kind: str, name: str, verb: str, done: str) -> EntityFacts:
    return f"{kind}/`{name}`/{verb}", f"{kind.capitalize()} {name} {done}", None


def _command(source: SourceInfo, verb: str) -> str:
    return f"{source.kind}/`{source.name}`/{verb}"


_FACTS: Mapping[type, Callable[[Any], EntityFacts]] = {
    CreateSource: _create,
    StartQuery: _insert,
    ControlQueries: _control,
    DropSource: _drop,
    CreateType: lambda a: _type(a.name, "create", f"Registered custom type with name '{a.name}'"),
    DropType: lambda a: _type(a.name, "drop", f"Type '{a.name}' dropped"),
    CreateNotifier: lambda a: _named("notifier", a.notifier.name, "create", "created"),
    DropNotifier: lambda a: _named("notifier", a.name, "drop", "dropped"),
    MuteAlert: lambda a: _named("alert", a.name, "mute", "muted"),
    UnmuteAlert: lambda a: _named("alert", a.name, "unmute", "unmuted"),
}
