"""Results of statements in the format of ksqlDB's `/ksql`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from headrace.control.node import StatementResult
from headrace.lang.ksql.ast import CreateNotifier, CreateType, DropNotifier, DropType, MuteAlert, UnmuteAlert
from headrace.plan.catalog import Control, Create, Done, Drop, Insert, SourceInfo

Document = dict[str, Any]
_OURS = {
    CreateNotifier: ("notifier", "create", "created"),
    DropNotifier: ("notifier", "drop", "dropped"),
    MuteAlert: ("alert", "mute", "muted"),
    UnmuteAlert: ("alert", "unmute", "unmuted"),
}
_CONTROLLED = {"TERMINATE": "terminated", "PAUSE": "paused", "RESUME": "resumed"}


def statement_entity(outcome: StatementResult) -> Document | None:
    """None where ksqlDB returns nothing: an inserted row, a setting, an object that existed already."""
    if outcome.answer is not None:
        return outcome.answer.entity()
    if outcome.entry is None:
        return None
    command, message, query = _TOLD[type(outcome.action)](outcome.action)
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


def _create(action: Create) -> EntityFacts:
    if action.query is None:
        return _command(action.source, "create"), f"{action.source.kind.capitalize()} created", None
    return _command(action.source, "create"), f"Created query with ID {action.query.id}", action.query.id


def _insert(action: Insert) -> EntityFacts:
    if action.query.alert is not None:
        return f"alert/`{action.query.alert.name}`/create", f"Created query with ID {action.query.id}", action.query.id
    return f"stream/`{action.query.sink.name}`/create", f"Created query with ID {action.query.id}", action.query.id


def _control(action: Control) -> EntityFacts:
    name = action.queries[0] if len(action.queries) == 1 else "ALL"
    return f"{action.verb.lower()}/{name}/execute", f"Query {_CONTROLLED[action.verb]}.", None


def _drop(action: Drop) -> EntityFacts:
    source = action.source
    return _command(source, "drop"), f"Source `{source.name}` (topic: {source.topic}) was dropped.", None


def _done(action: Done) -> EntityFacts:
    if isinstance(action.statement, CreateType | DropType):
        return _type(action.statement)
    name = action.statement.name
    thing, deed, message = _OURS[type(action.statement)]
    return f"{thing}/`{name}`/{deed}", f"{thing.capitalize()} {name} {message}", None


def _type(statement: CreateType | DropType) -> EntityFacts:
    name, is_new = statement.name, isinstance(statement, CreateType)
    message = f"Registered custom type with name '{name}'" if is_new else f"Type '{name}' dropped"
    return f"type/`{name}`/{'create' if is_new else 'drop'}", message, None


def _command(source: SourceInfo, deed: str) -> str:
    return f"{source.kind}/`{source.name}`/{deed}"


_TOLD: Mapping[type, Callable[[Any], EntityFacts]] = {
    Create: _create,
    Insert: _insert,
    Control: _control,
    Drop: _drop,
    Done: _done,
}
