"""What became of a statement, as ksqlDB's `/ksql` tells it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from headrace.control.node import Outcome
from headrace.lang.ksql.ast import CreateType, DropType
from headrace.plan.catalog import Control, Create, Done, Drop, Insert, SourceInfo

Document = dict[str, Any]
_CONTROLLED = {"TERMINATE": "terminated", "PAUSE": "paused", "RESUME": "resumed"}


def entity(outcome: Outcome) -> Document | None:
    """None where ksqlDB tells nothing: a row that was written, a setting, a thing that was there already."""
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


Told = tuple[str, str, str | None]
"""The command's id, the message, the query that was made."""


def _create(action: Create) -> Told:
    if action.query is None:
        return _command(action.source, "create"), f"{action.source.kind.capitalize()} created", None
    return _command(action.source, "create"), f"Created query with ID {action.query.id}", action.query.id


def _insert(action: Insert) -> Told:
    return f"stream/`{action.query.sink.name}`/create", f"Created query with ID {action.query.id}", action.query.id


def _control(action: Control) -> Told:
    name = action.queries[0] if len(action.queries) == 1 else "ALL"
    return f"{action.verb.lower()}/{name}/execute", f"Query {_CONTROLLED[action.verb]}.", None


def _drop(action: Drop) -> Told:
    source = action.source
    return _command(source, "drop"), f"Source `{source.name}` (topic: {source.topic}) was dropped.", None


def _type(action: Done) -> Told:
    assert isinstance(action.statement, CreateType | DropType)
    name, is_new = action.statement.name, isinstance(action.statement, CreateType)
    message = f"Registered custom type with name '{name}'" if is_new else f"Type '{name}' dropped"
    return f"type/`{name}`/{'create' if is_new else 'drop'}", message, None


def _command(source: SourceInfo, deed: str) -> str:
    return f"{source.kind}/`{source.name}`/{deed}"


_TOLD: Mapping[type, Callable[[Any], Told]] = {
    Create: _create,
    Insert: _insert,
    Control: _control,
    Drop: _drop,
    Done: _type,
}
