"""LIST and SHOW; and `answered`, which finds the answer to any question but PRINT, whose records come from the log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from headrace.plan import functions
from headrace.plan.answers import columns
from headrace.plan.answers.descriptions import (
    described,
    explained,
    function_described,
    function_kind,
    query_table,
    single_line,
)
from headrace.plan.answers.listing import Column, Fact, Listing, Table, Typed, once
from headrace.plan.answers.schemas import schema
from headrace.plan.answers.surroundings import Surroundings
from headrace.plan.catalog import About, Answer, SourceInfo
from headrace.plan.explain import shown, tree
from headrace.plan.nodes import Kind, Query
from headrace.plan.notifiers import Notifier
from headrace.plan.operators import OPERATORS

HIDDEN = ("__", "_confluent", "_schemas")
"""Topics that begin so belong to a system; only LIST ALL TOPICS shows them."""


def answered(question: Answer, around: Surroundings) -> Listing:
    """The answer, as things stand."""
    return replace(_ANSWERS[question.about](question, around), statement=question.text)


# -- sources --------------------------------------------------------------------------------------------------------


def _sources(kind: Kind) -> Callable[[Answer, Surroundings], Listing]:
    def listed(question: Answer, around: Surroundings) -> Listing:
        found = sorted((s for s in around.catalog.sources.values() if s.kind is kind), key=lambda s: s.name)
        if question.extended or question.described:
            parts = tuple(described(source, around, extended=question.extended) for source in found)
            return Listing("source_descriptions", parts=once(parts), parts_name="sourceDescriptions")
        return _listing(f"{kind}s", columns.source_columns(kind), map(_source_row, found))

    return listed


def _source_row(source: SourceInfo) -> tuple[object, ...]:
    formats = (source.key_format.name, source.value_format.name)
    return source.name, source.topic, *formats, source.relation.window is not None, source.kind.upper()


def _described(question: Answer, around: Surroundings) -> Listing:
    return described(around.catalog.sources[question.name], around, extended=question.extended)


# -- topics and queries ---------------------------------------------------------------------------------------------


def _topics(question: Answer, around: Surroundings) -> Listing:
    rows: list[tuple[object, ...]] = []
    for name, topic in sorted(around.topics.items()):
        if question.all or not name.startswith(HIDDEN):
            counts = (topic.consumers, topic.groups) if question.extended else ()
            rows.append((name, topic.partitions, topic.replicas, [topic.replicas] * topic.partitions, *counts))
    kind = "kafka_topics_extended" if question.extended else "kafka_topics"
    return Listing(kind, tables=(Table("topics", columns.topic_columns(extended=question.extended), tuple(rows)),))


def _queries(question: Answer, around: Surroundings) -> Listing:
    queries = around.catalog.queries.values()
    if question.extended:
        parts = tuple(explained(query, around) for query in queries)
        return Listing("query_descriptions", parts=parts, parts_name="queryDescriptions")
    table = query_table("queries", queries, around)
    return Listing("queries", tables=(table,), notes=columns.QUERY_NOTES)


def _explained(question: Answer, around: Surroundings) -> Listing:
    if question.query is None:
        raise LookupError("EXPLAIN is planned with its query")
    return explained(question.query, around, question.query_type)


# -- functions, types, settings -------------------------------------------------------------------------------------


def _functions(question: Answer, around: Surroundings) -> Listing:
    known = {**functions.SCALARS, **functions.AGGREGATES}
    rows = [(name, function.area.upper(), function_kind(function)) for name, function in known.items()]
    rows += [(name, "USER", "OPERATOR") for name in OPERATORS]
    return _listing("functions", columns.FUNCTIONS, sorted(rows))


def _function(question: Answer, around: Surroundings) -> Listing:
    found = functions.find(question.name)
    if found is None:
        raise functions.unknown(question.name)
    return function_described(question.name, found)


def _types(question: Answer, around: Surroundings) -> Listing:
    types = sorted(around.catalog.types.items())
    return _listing("types", columns.TYPES, ((name, Typed(kind), schema(kind)) for name, kind in types))


def _properties(question: Answer, around: Surroundings) -> Listing:
    values = {**around.defaults, **around.properties}
    levels = dict.fromkeys(around.properties, "SESSION")
    rows = ((name, "KSQL", levels.get(name, ""), str(values[name]), True) for name in sorted(values))
    return _listing("properties", columns.PROPERTIES, rows)


def _variables(question: Answer, around: Surroundings) -> Listing:
    return _listing("variables", columns.VARIABLES, sorted(around.variables.items()))


# -- alerts ---------------------------------------------------------------------------------------------------------


def _alerts(question: Answer, around: Surroundings) -> Listing:
    rows = (_alert_row(query, around) for _, query in sorted(around.catalog.alerts.items()))
    return _listing("alerts", columns.ALERTS, rows)


def _alert_row(query: Query, around: Surroundings) -> tuple[object, ...]:
    alert = query.alert
    assert alert is not None
    notify = ", ".join(alert.notify)
    return alert.name, alert.source, str(alert.rule), alert.severity, notify, query.id, around.state(query.id)


def _alert(question: Answer, around: Surroundings) -> Listing:
    """What LIST says of it, and its statement and plan."""
    query = around.catalog.alerts[question.name]
    cells = zip(columns.ALERTS, _alert_row(query, around), strict=True)
    facts = tuple(Fact(column.name, column.heading, value, column.is_name) for column, value in cells)
    statement = Fact("statement", "Statement", single_line(query.text))
    return Listing("alert", facts=(*facts, statement), texts=(Fact("plan", "Plan", tree(query)),))


def _notifiers(question: Answer, around: Surroundings) -> Listing:
    rows = ((one.name, one.kind.upper(), _options(one)) for _, one in sorted(around.catalog.notifiers.items()))
    return _listing("notifiers", columns.NOTIFIERS, rows)


def _options(notifier: Notifier) -> str:
    return ", ".join(f"{name}={shown(value)}" for name, value in notifier.options.items() if value != "")


# -- connectors: there is no Kafka Connect --------------------------------------------------------------------------


def _connectors(question: Answer, around: Surroundings) -> Listing:
    return _listing("connectors", columns.CONNECTORS, ())


def _plugins(question: Answer, around: Surroundings) -> Listing:
    return _listing("connectorsPlugins", columns.PLUGINS, ())


# -- all of them ----------------------------------------------------------------------------------------------------

_KINDS: Mapping[str, str] = {
    "functions": "function_names",
    "types": "type_list",
    "connectors": "connector_list",
    "connectorsPlugins": "connector_plugins_list",
}


def _listing(name: str, head: tuple[Column, ...], rows: Iterable[tuple[object, ...]]) -> Listing:
    """One table and nothing else; ksqlDB's kind is mostly the field's name."""
    return Listing(_KINDS.get(name, name), tables=(Table(name, head, tuple(rows)),))


_ANSWERS: Mapping[About, Callable[[Answer, Surroundings], Listing]] = {
    About.STREAMS: _sources(Kind.STREAM),
    About.TABLES: _sources(Kind.TABLE),
    About.SOURCE: _described,
    About.TOPICS: _topics,
    About.QUERIES: _queries,
    About.QUERY: _explained,
    About.FUNCTIONS: _functions,
    About.FUNCTION: _function,
    About.TYPES: _types,
    About.PROPERTIES: _properties,
    About.VARIABLES: _variables,
    About.ALERTS: _alerts,
    About.ALERT: _alert,
    About.NOTIFIERS: _notifiers,
    About.CONNECTORS: _connectors,
    About.PLUGINS: _plugins,
}
