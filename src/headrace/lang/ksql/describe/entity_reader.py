"""Reads a server's ksqlDB JSON entities back into listings.

`read_entity(listing.entity())` renders as `listing` does, as far as the JSON has its data. An unknown kind is shown
field by field.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from headrace.lang.ksql.describe import table_columns
from headrace.lang.ksql.describe.processes import processes_listing
from headrace.lang.ksql.describe.schema_json import key_mark, type_from_json
from headrace.lang.ksql.describe.table_columns import FIELDS, QUERIES, VARIATIONS, notes_of
from headrace.lang.listing import Column, Document, Fact, Listing, Table, TypeCell, unique_notes
from headrace.lang.record_printer import RECORDS
from headrace.plan.relations import Kind


def read_entity(entity: Mapping[str, Any]) -> Listing:
    """Returns the listing of an entity."""
    kind = str(entity.get("@type", ""))
    body = {**entity, **nested} if isinstance(nested := entity.get(kind), dict) else dict(entity)
    listing = _READERS.get(kind, _unknown_kind)(body)
    notes = (*listing.notes, *(str(warning.get("message")) for warning in entity.get("warnings") or ()))
    return replace(listing, kind=kind, statement=str(entity.get("statementText", "")), notes=notes)


def _single_table(
    name: str, head: tuple[Column, ...], **displayed: Callable[[Document], Any]
) -> Callable[[Document], Listing]:
    """Reads a listing of one table; `shown` are its display-only cells, by heading (`_` for a space)."""
    return lambda body: Listing("", tables=(_table(name, head, body, displayed),))


def _table(
    name: str, head: tuple[Column, ...], body: Document, displayed: Mapping[str, Callable[[Document], Any]]
) -> Table:
    computed = {heading.replace("_", " "): cell for heading, cell in displayed.items()}
    rows = [tuple(_cell(column, row, computed) for column in head) for row in body.get(name) or []]
    return Table(name, head, tuple(rows))


def _cell(column: Column, row: Document, computed: Mapping[str, Callable[[Document], Any]]) -> Any:
    return row.get(column.name) if column.name else computed[column.heading](row)


def _facts(body: Document, headings: Mapping[str, str], names: Iterable[str] = ()) -> tuple[Fact, ...]:
    """Returns the facts that are present, in the order of the headings."""
    values = ((name, heading, body.get(name)) for name, heading in headings.items())
    return tuple(
        Fact(name, heading, value, name in names) for name, heading, value in values if value not in (None, "")
    )


# -- sources --------------------------------------------------------------------------------------------------------

_SOURCE = {"type": "Type", "windowType": "Window type", "timestamp": "Timestamp field", "keyFormat": "Key format"}
_SOURCE |= {"valueFormat": "Value format", "topic": "Kafka topic", "statement": "Statement", "statistics": "Statistics"}


def _described(body: Document) -> Listing:
    extended = bool(body.get("extended"))
    name = Fact("name", "Name", body.get("name"), is_name=True)
    fields = _fields(body, Kind.TABLE if body.get("type") == "TABLE" else Kind.STREAM)
    if not extended:
        return Listing("", facts=(name,), tables=(fields,), notes=notes_of(extended=False))
    topic = "{topic} (partitions: {partitions}, replication: {replication})".format_map(body)
    time = body.get("timestamp") or "Not set - using <ROWTIME>"
    facts = _facts({**body, "topic": topic, "timestamp": time}, _SOURCE)
    return Listing("", facts=(name, *facts), tables=(fields, *_queries_of(body)), notes=notes_of(extended=True))


def _queries_of(body: Document) -> list[Table]:
    verbs = {"readQueries": "read from", "writeQueries": "write to"}
    titles = {name: f"Queries that {verb} this {body.get('type')}" for name, verb in verbs.items()}
    return [replace(_table(name, QUERIES, body, {"Status": _status}), title=title) for name, title in titles.items()]


def _fields(body: Document, kind: Kind) -> Table:
    marks = {"KEY": key_mark(kind, body.get("windowType")), "HEADER": "(header)"}
    displayed = {
        "Type": lambda field: TypeCell(type_from_json(field["schema"]), marks.get(field.get("type") or "", ""))
    }
    return _table("fields", FIELDS, body, displayed)


def _many(name: str, read: Callable[[Document], Listing]) -> Callable[[Document], Listing]:
    return lambda body: Listing("", parts=unique_notes(tuple(map(read, body.get(name) or []))))


# -- queries and functions ------------------------------------------------------------------------------------------

_QUERY = {"id": "ID", "queryType": "Query Type", "statementText": "SQL", "state": "Status", "sources": "Sources"}
_QUERY |= {"sinks": "Sinks"}
_FUNCTION = {"name": "Name", "description": "Overview", "type": "Type", "category": "Category", "example": "Example"}


def _status(row: Document) -> str:
    return ", ".join(f"{state}:{count}" for state, count in (row.get("statusCount") or {}).items())


def _queries(body: Document) -> Listing:
    return Listing("", tables=(_table("queries", QUERIES, body, {"Status": _status}),), notes=table_columns.QUERY_NOTES)


def _killed(body: Document) -> Listing:
    return Listing("", facts=_facts(body, {"id": "Killed query"}))


def _explained(body: Document) -> Listing:
    present = {name: value for name, value in body.items() if value != []}
    facts = _facts(present, _QUERY, names=("id", "sources", "sinks"))
    plan = Fact("executionPlan", "Execution plan", body.get("executionPlan"))
    return Listing("", facts=facts, tables=(_fields(body, Kind.STREAM),), texts=(plan,))


def _function(body: Document) -> Listing:
    def call(overload: Document) -> str:
        parameters = (f"{p['name']} {p['type']}{'...' if p.get('isVariadic') else ''}" for p in overload["arguments"])
        return f"{body['name']}({', '.join(parameters)})"

    return Listing(
        "", facts=_facts(body, _FUNCTION), tables=(_table("functions", VARIATIONS, body, {"Variation": call}),)
    )


# -- others ---------------------------------------------------------------------------------------------------------


def _topics(*, extended: bool) -> Callable[[Document], Listing]:
    return _single_table(
        "topics",
        table_columns.topic_columns(extended=extended),
        Partitions=lambda row: len(row["replicaInfo"]),
        Partition_Replicas=lambda row: ", ".join(map(str, dict.fromkeys(row["replicaInfo"]))),
    )


def _printed(body: Document) -> Listing:
    facts = _facts(body, {"keyFormat": "Key format", "valueFormat": "Value format"})
    return Listing("", facts=facts, tables=(replace(_table("records", RECORDS, body, {}), inline=True),))


def _alert(body: Document) -> Listing:
    headings = {column.name: column.heading for column in table_columns.ALERTS} | {"statement": "Statement"}
    names = [column.name for column in table_columns.ALERTS if column.is_name]
    facts = tuple(Fact(name, heading, body.get(name), name in names) for name, heading in headings.items())
    return Listing("", facts=facts, texts=(Fact("plan", "Plan", body.get("plan")),))


def _command_status(body: Document) -> Listing:
    return Listing("", notes=(str((body.get("commandStatus") or {}).get("message", "")),))


def _unknown_kind(body: Document) -> Listing:
    fields = {
        name: value for name, value in body.items() if name not in ("@type", "statementText", "warnings") and value
    }
    return Listing("", facts=_facts(fields, {name: name for name in fields}))


_READERS: Mapping[str, Callable[[Document], Listing]] = {
    "streams": _single_table("streams", table_columns.source_columns(Kind.STREAM)),
    "tables": _single_table("tables", table_columns.source_columns(Kind.TABLE)),
    "sourceDescription": _described,
    "source_descriptions": _many("sourceDescriptions", _described),
    "kafka_topics": _topics(extended=False),
    "kafka_topics_extended": _topics(extended=True),
    "queries": _queries,
    "processes": lambda body: processes_listing(body.get("processes") or ()),
    "killed": _killed,
    "queryDescription": _explained,
    "query_descriptions": _many("queryDescriptions", _explained),
    "function_names": _single_table("functions", table_columns.FUNCTIONS),
    "describe_function": _function,
    "type_list": _single_table(
        "types", table_columns.TYPES, Schema=lambda row: TypeCell(type_from_json(row["schema"]))
    ),
    "properties": _single_table("properties", table_columns.PROPERTIES),
    "variables": _single_table("variables", table_columns.VARIABLES),
    "alerts": _single_table("alerts", table_columns.ALERTS),
    "alert": _alert,
    "notifiers": _single_table("notifiers", table_columns.NOTIFIERS),
    "connector_list": _single_table("connectors", table_columns.CONNECTORS),
    "connector_plugins_list": _single_table("connectorsPlugins", table_columns.PLUGINS),
    "print": _printed,
    "currentStatus": _command_status,
}
