"""Who has created what: the owner of a source, query, type or topic is the principal who executed its statement.

A local client without credentials may change and drop only what it owns. Others need grants, whoever the owner is.
"""

from __future__ import annotations

from functools import singledispatch

from headrace.control.statements.journal import JournalEntry
from headrace.plan import actions
from headrace.plan.actions import Action, QueryVerb

Owners = dict[str, str]


@singledispatch
def record_owners(action: Action, owners: Owners, entry: JournalEntry) -> None:
    """Update the owners after a statement. Other actions create nothing that is owned."""


@record_owners.register
def _(action: actions.CreateSource, owners: Owners, entry: JournalEntry) -> None:
    source, query = action.source, action.query
    owners.setdefault(f"source {source.name}", entry.by)  # who replaces a source does not become its owner
    if entry.creates_topic:
        owners[f"topic {source.topic}"] = entry.by
    if action.replaces is not None:
        owners.pop(f"query {action.replaces}", None)
    if query is not None:
        owners[f"query {query.id}"] = entry.by


@record_owners.register
def _(action: actions.StartQuery, owners: Owners, entry: JournalEntry) -> None:
    owners[f"query {action.query.id}"] = entry.by


@record_owners.register
def _(action: actions.ControlQueries, owners: Owners, entry: JournalEntry) -> None:
    if action.verb is QueryVerb.TERMINATE:
        for query in action.queries:
            owners.pop(f"query {query}", None)


@record_owners.register
def _(action: actions.DropSource, owners: Owners, entry: JournalEntry) -> None:
    owners.pop(f"source {action.source.name}", None)
    owners.pop(f"topic {action.source.topic}", None)  # a topic that outlives its source is nobody's
    for query in action.queries:
        owners.pop(f"query {query}", None)


@record_owners.register
def _(action: actions.CreateType, owners: Owners, entry: JournalEntry) -> None:
    owners[f"type {action.name}"] = entry.by


@record_owners.register
def _(action: actions.DropType, owners: Owners, entry: JournalEntry) -> None:
    owners.pop(f"type {action.name}", None)
