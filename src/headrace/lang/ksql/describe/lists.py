"""LIST and SHOW; `describe_metadata` answers every metadata statement but PRINT, whose records come from the log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from headrace.lang.contract import DescribeContext
from headrace.lang.ksql.describe import table_columns
from headrace.lang.ksql.describe.descriptions import (
    describe_function,
    describe_source,
    explain_query,
    function_kind,
    queries_table,
    single_line,
)
from headrace.lang.ksql.describe.processes import describe_processes
from headrace.lang.ksql.describe.schema_json import schema_json
from headrace.lang.listing import Column, Fact, Listing, Table, TypeCell, unique_notes
from headrace.plan import functions
from headrace.plan.actions import MetadataKind, MetadataQuery
from headrace.plan.explain import tree, value_text
from headrace.plan.nodes import Query
from headrace.plan.notifiers import Notifier
from headrace.plan.operators import OPERATORS
from headrace.plan.relations import Kind
from headrace.plan.sources import SourceInfo

INTERNAL_TOPIC_PREFIXES = ("__", "_confluent", "_schemas")
"""Prefixes of system topics, which only LIST ALL TOPICS shows."""


def describe_metadata(request: MetadataQuery, context: DescribeContext) -> Listing:
    """Answers a metadata statement from the current state."""
    return replace(_LISTINGS[request.about](request, context), statement=request.text)


# -- sources --------------------------------------------------------------------------------------------------------


def _sources(kind: Kind) -> Callable[[MetadataQuery, DescribeContext], Listing]:
    def listing(request: MetadataQuery, context: DescribeContext) -> Listing:
        sources = sorted((s for s in context.catalog.sources.values() if s.kind is kind), key=lambda s: s.name)
        if request.extended or request.described:
            parts = tuple(describe_source(source, context, extended=request.extended) for source in sources)
            return Listing("source_descriptions", parts=unique_notes(parts), parts_name="sourceDescriptions")
        return _listing(f"{kind}s", table_columns.source_columns(kind), map(_source_row, sources))

    return listing


def _source_row(source: SourceInfo) -> tuple[object, ...]:
    formats = (source.key_format.name, source.value_format.name)
    return source.name, source.topic, *formats, source.relation.window is not None, source.kind.upper()


def _described(request: MetadataQuery, context: DescribeContext) -> Listing:
    return describe_source(context.catalog.sources[request.name], context, extended=request.extended)


# -- topics and queries ---------------------------------------------------------------------------------------------


def _topics(request: MetadataQuery, context: DescribeContext) -> Listing:
    rows: list[tuple[object, ...]] = []
    for name, topic in sorted(context.topics.items()):
        if request.all or not name.startswith(INTERNAL_TOPIC_PREFIXES):
            counts = (topic.consumers, topic.groups) if request.extended else ()
            rows.append((name, topic.partitions, topic.replicas, [topic.replicas] * topic.partitions, *counts))
    kind = "kafka_topics_extended" if request.extended else "kafka_topics"
    return Listing(kind, tables=(Table("topics", table_columns.topic_columns(extended=request.extended), tuple(rows)),))


def _queries(request: MetadataQuery, context: DescribeContext) -> Listing:
    queries = context.catalog.queries.values()
    if request.extended:
        parts = tuple(explain_query(query, context) for query in queries)
        return Listing("query_descriptions", parts=parts, parts_name="queryDescriptions")
    table = queries_table("queries", queries, context)
    return Listing("queries", tables=(table,), notes=table_columns.QUERY_NOTES)


def _processes(request: MetadataQuery, context: DescribeContext) -> Listing:
    return describe_processes(context.processes)


def _explained(request: MetadataQuery, context: DescribeContext) -> Listing:
    if request.query is None:
        raise LookupError("EXPLAIN is planned with its query")
    return explain_query(request.query, context, request.query_type)


# -- functions, types, settings -------------------------------------------------------------------------------------


def _functions(request: MetadataQuery, context: DescribeContext) -> Listing:
    known = {**functions.SCALARS, **functions.AGGREGATES}
    rows = [(name, function.area.upper(), function_kind(function)) for name, function in known.items()]
    rows += [(name, "USER", "OPERATOR") for name in OPERATORS]
    return _listing("functions", table_columns.FUNCTIONS, sorted(rows))


def _function(request: MetadataQuery, context: DescribeContext) -> Listing:
    function = functions.find(request.name)
    if function is None:
        raise functions.unknown_function(request.name)
    return describe_function(request.name, function)


def _types(request: MetadataQuery, context: DescribeContext) -> Listing:
    types = sorted(context.catalog.types.items())
    return _listing("types", table_columns.TYPES, ((name, TypeCell(kind), schema_json(kind)) for name, kind in types))


def _properties(request: MetadataQuery, context: DescribeContext) -> Listing:
    values = {**context.defaults, **context.properties}
    levels = dict.fromkeys(context.properties, "SESSION")
    rows = ((name, "KSQL", levels.get(name, ""), str(values[name]), True) for name in sorted(values))
    return _listing("properties", table_columns.PROPERTIES, rows)


def _variables(request: MetadataQuery, context: DescribeContext) -> Listing:
    return _listing("variables", table_columns.VARIABLES, sorted(context.variables.items()))


# -- alerts ---------------------------------------------------------------------------------------------------------


def _alerts(request: MetadataQuery, context: DescribeContext) -> Listing:
    rows = (_alert_row(query, context) for _, query in sorted(context.catalog.alerts.items()))
    return _listing("alerts", table_columns.ALERTS, rows)


def _alert_row(query: Query, context: DescribeContext) -> tuple[object, ...]:
    alert = query.alert
    assert alert is not None
    notify = ", ".join(alert.notify)
    return alert.name, alert.source, str(alert.rule), alert.severity, notify, query.id, context.state(query.id)


def _alert(request: MetadataQuery, context: DescribeContext) -> Listing:
    """Describes an alert: its row of LIST, its statement and its plan."""
    query = context.catalog.alerts[request.name]
    cells = zip(table_columns.ALERTS, _alert_row(query, context), strict=True)
    facts = tuple(Fact(column.name, column.heading, value, column.is_name) for column, value in cells)
    statement = Fact("statement", "Statement", single_line(query.text))
    return Listing("alert", facts=(*facts, statement), texts=(Fact("plan", "Plan", tree(query)),))


def _notifiers(request: MetadataQuery, context: DescribeContext) -> Listing:
    rows = ((one.name, one.kind.upper(), _options(one)) for _, one in sorted(context.catalog.notifiers.items()))
    return _listing("notifiers", table_columns.NOTIFIERS, rows)


def _options(notifier: Notifier) -> str:
    return ", ".join(f"{name}={value_text(value)}" for name, value in notifier.options.items() if value != "")


# -- connectors: there is no Kafka Connect --------------------------------------------------------------------------


def _connectors(request: MetadataQuery, context: DescribeContext) -> Listing:
    return _listing("connectors", table_columns.CONNECTORS, ())


def _plugins(request: MetadataQuery, context: DescribeContext) -> Listing:
    return _listing("connectorsPlugins", table_columns.PLUGINS, ())


# -- dispatch -------------------------------------------------------------------------------------------------------

_KINDS: Mapping[str, str] = {
    "functions": "function_names",
    "types": "type_list",
    "connectors": "connector_list",
    "connectorsPlugins": "connector_plugins_list",
}


def _listing(name: str, head: tuple[Column, ...], rows: Iterable[tuple[object, ...]]) -> Listing:
    """Creates a listing of a single table; ksqlDB's kind is mostly the field's name."""
    return Listing(_KINDS.get(name, name), tables=(Table(name, head, tuple(rows)),))


_LISTINGS: Mapping[MetadataKind, Callable[[MetadataQuery, DescribeContext], Listing]] = {
    MetadataKind.STREAMS: _sources(Kind.STREAM),
    MetadataKind.TABLES: _sources(Kind.TABLE),
    MetadataKind.SOURCE: _described,
    MetadataKind.TOPICS: _topics,
    MetadataKind.QUERIES: _queries,
    MetadataKind.QUERY: _explained,
    MetadataKind.PROCESSES: _processes,
    MetadataKind.FUNCTIONS: _functions,
    MetadataKind.FUNCTION: _function,
    MetadataKind.TYPES: _types,
    MetadataKind.PROPERTIES: _properties,
    MetadataKind.VARIABLES: _variables,
    MetadataKind.ALERTS: _alerts,
    MetadataKind.ALERT: _alert,
    MetadataKind.NOTIFIERS: _notifiers,
    MetadataKind.CONNECTORS: _connectors,
    MetadataKind.PLUGINS: _plugins,
}
