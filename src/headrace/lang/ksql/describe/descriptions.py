"""DESCRIBE of sources and functions, EXPLAIN of queries."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from headrace.lang.contract import DescribeContext, TopicStatistics
from headrace.lang.ksql.describe.schema_json import fields_table, window_type
from headrace.lang.ksql.describe.table_columns import QUERIES, VARIATIONS, notes_of
from headrace.lang.listing import Fact, Listing, Table
from headrace.plan.explain import graph, tree
from headrace.plan.functions.declaration import AggregateFunction, Function
from headrace.plan.functions.signature import Signature, parse_signature
from headrace.plan.nodes import Query
from headrace.plan.sources import SourceInfo

# -- sources --------------------------------------------------------------------------------------------------------


def describe_source(source: SourceInfo, context: DescribeContext, *, extended: bool) -> Listing:
    """Describes a stream or table: its columns; extended, also its topic and the queries that read or write it."""
    topic = context.topics.get(source.topic, TopicStatistics(source.partitions or 1))
    facts = (*_facts(source, topic), Fact("extended", "", extended))
    tables = _queries_of(source, context)
    if not extended:
        facts, tables = (fact.unseen() for fact in facts), [table.unseen() for table in tables]
    return Listing(
        "sourceDescription",
        facts=(Fact("name", "Name", source.name, is_name=True), *facts),
        tables=(fields_table(source.relation, source.system), *tables),
        notes=notes_of(extended=extended),
        nested=True,
    )


def _facts(source: SourceInfo, topic: TopicStatistics) -> tuple[Fact, ...]:
    place = f"{source.topic} (partitions: {topic.partitions}, replication: {topic.replicas})"
    time, window = source.timestamp and source.timestamp.column, window_type(source.relation.window)
    total = "" if topic.records is None else f"total-messages: {topic.records}"
    return (
        Fact("type", "Type", source.kind.upper()),
        Fact("windowType", "Window type" if window else "", window),
        Fact("", "Timestamp field", time or "Not set - using <ROWTIME>"),
        Fact("timestamp", "", time or ""),
        Fact("keyFormat", "Key format", source.key_format.name),
        Fact("valueFormat", "Value format", source.value_format.name),
        Fact("", "Kafka topic", place),
        Fact("topic", "", source.topic),
        Fact("partitions", "", topic.partitions),
        Fact("replication", "", topic.replicas),
        Fact("statement", "Statement", single_line(source.text)),
        Fact("statistics", "Statistics" if total else "", total),
        Fact("errorStats", "", ""),
        Fact("queryOffsetSummaries", "", []),
        Fact("sourceConstraints", "", []),
    )


def _queries_of(source: SourceInfo, context: DescribeContext) -> list[Table]:
    catalog, kind = context.catalog, source.kind.upper()
    sections = (
        ("readQueries", catalog.readers(source.name), f"Queries that read from this {kind}"),
        ("writeQueries", catalog.writers(source.name), f"Queries that write to this {kind}"),
    )
    return [
        replace(queries_table(name, [catalog.queries[query] for query in ids], context), title=title)
        for name, ids, title in sections
    ]


# -- queries --------------------------------------------------------------------------------------------------------


def queries_table(name: str, queries: Iterable[Query], context: DescribeContext) -> Table:
    return Table(name, QUERIES, tuple(_query_row(query, context.state(query.id)) for query in queries))


def _query_row(query: Query, state: str) -> tuple[Any, ...]:
    sink, text = query.sink, single_line(query.text)
    return query.id, "PERSISTENT", f"{state}:1", [sink.name], [sink.topic], text, state, {state: 1}


def explain_query(query: Query, context: DescribeContext, kind: str = "PERSISTENT") -> Listing:
    """Describes a query, running or not: what it reads and writes, its columns and its plan."""
    is_running = query.id in context.catalog.queries
    state = context.state(query.id) if is_running else None
    facts = (
        Fact("id", "ID" if is_running else "", query.id if is_running else "", is_name=True),
        Fact("queryType", "Query Type", kind),
        Fact("statementText", "SQL", single_line(query.text)),
        Fact("state", "Status" if state else "", state),
        Fact("windowType", "", window_type(query.sink.relation.window)),
        Fact("sources", "Sources", list(dict.fromkeys(s.name for s in query.sources)), is_name=True),
        Fact("sinks", "Sinks" if query.sink.name else "", [query.sink.name] if query.sink.name else [], is_name=True),
        Fact("overriddenProperties", "", dict(context.properties)),
    )
    plans = (Fact("executionPlan", "Execution plan", tree(query)), Fact("topology", "", graph(query)))
    return Listing("queryDescription", facts=facts, tables=(_columns(query),), texts=plans, nested=True)


def _columns(query: Query) -> Table:
    relation = query.sink.relation
    # A key that the query did not select has an internal name of the plan.
    named = tuple(f for f in relation.key if not f.name.startswith("$"))
    return fields_table(replace(relation, key=named))


def single_line(statement: str) -> str:
    """Returns a statement on one line."""
    return re.sub(r"\s*\n\s*", " ", statement).strip()


# -- functions ------------------------------------------------------------------------------------------------------


def function_kind(function: Function | AggregateFunction) -> str:
    if isinstance(function, AggregateFunction):
        return "AGGREGATE"
    return "TABLE" if function.table else "SCALAR"


def describe_function(name: str, function: Function | AggregateFunction) -> Listing:
    """Describes a function and all its overloads."""
    signatures = [parse_signature(overload.signature) for overload in function.overloads]
    rows = tuple((_call(name, one), str(one.result), _arguments(one), function.doc) for one in signatures)
    facts = (
        Fact("name", "Name", name.upper()),
        Fact("description", "Overview", function.doc),
        Fact("type", "Type", function_kind(function)),
        Fact("category", "Category", function.area.upper()),
        Fact("example", "Example" if function.example[0] else "", " = ".join(function.example)),
        *(Fact(field, "", value) for field, value in (("author", ""), ("version", ""), ("path", "internal"))),
    )
    return Listing("describe_function", facts=facts, tables=(Table("functions", VARIATIONS, rows),))


def _call(name: str, signature: Signature) -> str:
    parameters = (f"{p.name} {p.pattern}{'...' if p.variadic else ''}" for p in signature.parameters)
    return f"{name.upper()}({', '.join(parameters)})"


def _arguments(signature: Signature) -> list[dict[str, Any]]:
    return [
        {"name": p.name, "type": str(p.pattern), "description": "", "isVariadic": p.variadic}
        for p in signature.parameters
    ]
