"""Plans CREATE ... AS SELECT and INSERT INTO: the query, and the stream or table that it writes to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from headrace.errors import BadGrouping, BadKey, BadQuery, FormatUnsupported, SchemaMismatch, SourceReadOnly, WrongKind
from headrace.lang.ksql import ast
from headrace.lang.ksql.analyzer.coercion import cast_to
from headrace.lang.ksql.formatter import schema_text
from headrace.lang.ksql.properties import NEW_PLANNER, TOPIC_PREFIX, emits_every_change, is_enabled, strict_problems
from headrace.lang.ksql.query.partial_plan import PartialPlan, known_source
from headrace.lang.ksql.query.select import QueryPlanner
from headrace.lang.ksql.statements import create_source, source_formats
from headrace.lang.ksql.statements.upgrades import check_upgrade
from headrace.lang.ksql.statements.with_properties import Properties, read_properties
from headrace.plan import expressions as e
from headrace.plan import nodes
from headrace.plan import types as t
from headrace.plan.actions import CreateSource, StartQuery
from headrace.plan.catalog import Catalog
from headrace.plan.nodes import Query, Sink
from headrace.plan.relations import Kind, Relation
from headrace.plan.sources import SourceInfo
from headrace.schema import Field


class PersistentQueryPlanner:
    """Plans the statement `text` against a catalog, which it does not change."""

    def __init__(self, catalog: Catalog, settings: Mapping[str, Any], text: str) -> None:
        self._catalog = catalog
        self._settings = settings
        self._text = text

    def create_as(self, statement: ast.CreateAs, existing: SourceInfo | None) -> CreateSource:
        """Plans CREATE ... AS SELECT; `existing` is the source that it replaces."""
        kind = Kind(statement.kind.lower())
        properties = read_properties(statement.properties, self._settings, query=True)
        keyless = kind is Kind.STREAM and is_enabled(self._settings, NEW_PLANNER)
        words = f"CREATE {statement.kind} AS SELECT"
        flow = QueryPlanner(self._catalog, statement.name, words, self._settings, keyless=keyless).flow(statement.query)
        self._check_kind(flow, kind, statement)
        info = replace(self._result(statement, flow, properties), text=self._text)
        replaces = self._replaced(existing, info, flow, statement)
        query = self._query(f"C{kind[0].upper()}AS_{info.name}", flow, info, properties, replaces)
        return CreateSource(info, query, replaces)

    def insert_into(self, statement: ast.InsertInto) -> StartQuery:
        """Plans INSERT INTO ... SELECT."""
        target = known_source(self._catalog, statement.target, statement)
        if target.kind is Kind.TABLE:
            raise WrongKind(
                f"INSERT INTO can only be used to insert into a stream. {target.name} is a table.", span=statement.span
            )
        if target.read_only:
            raise SourceReadOnly(f"Cannot insert into read-only {target.kind}: {target.name}", span=statement.span)
        if target.system:
            raise BadQuery(f"Cannot insert into {target.name} because it has header columns", span=statement.span)
        properties = read_properties(statement.properties, self._settings, query=True)
        flow = QueryPlanner(self._catalog, target.name, "INSERT INTO", self._settings).flow(statement.query)
        if flow.kind is Kind.TABLE:
            raise WrongKind("INSERT INTO can only be used with a query that returns a stream", span=statement.span)
        flow = _matched(flow, target, statement)
        query = self._query("INSERTQUERY", flow, target, properties)
        return StartQuery(query)

    def _check_kind(self, flow: PartialPlan, kind: Kind, statement: ast.CreateAs) -> None:
        if flow.kind is not kind:
            raise WrongKind(
                f"Invalid result type. Your SELECT query produces a {flow.kind.upper()}. "
                f"Please use CREATE {flow.kind.upper()} AS SELECT statement instead.",
                span=statement.span,
                fix=f"write CREATE {flow.kind.upper()} {statement.name} AS SELECT",
            )

    def _result(self, statement: ast.CreateAs, flow: PartialPlan, properties: Properties) -> SourceInfo:
        relation = flow.relation
        if (
            not relation.key
            and properties.get("KEY_FORMAT") is not None
            and properties.get("KEY_FORMAT").upper() != "NONE"
        ):
            raise BadKey(
                "Key format specified for stream without key columns.", span=statement.span, fix="remove KEY_FORMAT"
            )
        key, value = properties.key_format(flow.key_format), properties.value_format(flow.value_format)
        key, value = source_formats.checked_formats(relation, properties, key, value, statement)
        self._check_states(flow, statement)
        prefix = self._settings.get(TOPIC_PREFIX, "")
        topic = properties.get("KAFKA_TOPIC") or f"{prefix}{statement.name}"
        partitions = properties.get("PARTITIONS")
        time = source_formats.time_column(relation, properties)
        indexes = source_formats.index_columns(relation, properties, materialized=True)
        return SourceInfo(
            statement.name, topic, relation, key, value, time, partitions=partitions, derived=True, indexes=indexes
        )

    def _check_states(self, flow: PartialPlan, node: ast.Ast) -> None:
        """ksqlDB stores an aggregate's state in the source's value format, and rejects types that it cannot hold."""
        aggregate = next((n for n in nodes.walk(flow.node) if isinstance(n, nodes.Aggregate)), None)
        if aggregate is None or flow.value_format.name != "DELIMITED":
            return
        for call in aggregate.calls:
            state = call.overload.make([a.type for a in call.arguments], call.constants).state_type
            try:
                source_formats.check_format(flow.value_format, [Field(call.name, state)], node, is_key=False)
            except FormatUnsupported as error:
                raise BadGrouping(
                    "One of the functions used in the statement has an intermediate type that the value format can not "
                    f"handle. Please remove the function or change the format. ({call.function})",
                    span=node.span,
                    fix="copy the source to a stream with VALUE_FORMAT='JSON' first",
                ) from error

    def _replaced(self, old: SourceInfo | None, new: SourceInfo, flow: PartialPlan, node: ast.Ast) -> str | None:
        if old is None:
            return None
        create_source.check_replaceable(old, new, node)
        writer = next(iter(self._catalog.writers(old.name)), None)
        check_upgrade(self._catalog.queries[writer].sink.input if writer else None, flow.node, node)
        return writer

    def _query(
        self,
        prefix: str,
        flow: PartialPlan,
        info: SourceInfo,
        properties: Properties,
        replaces: str | None = None,
    ) -> Query:
        query_id = (properties.get("QUERY_ID") or "").upper()
        if query_id in self._catalog.queries and query_id != replaces:
            raise BadQuery(f"Query ID '{query_id}' already exists.", fix="choose another QUERY_ID, or remove it")
        name = query_id or replaces or f"{prefix}_{self._catalog.number}"
        relation = replace(flow.relation, value=info.payload)
        sink = Sink(
            flow.node,
            relation,
            info.name,
            info.topic,
            info.key_format,
            info.value_format,
            info.timestamp,
            info.partitions,
            properties.get("REPLICAS"),
        )
        return Query(name, sink, self._text, strict_problems(self._settings), emits_every_change(self._settings))


def _matched(flow: PartialPlan, target: SourceInfo, node: ast.Ast) -> PartialPlan:
    """Converts the query's columns to those of the target; smaller number types are widened."""
    expected = Relation(flow.kind, target.relation.key, target.relation.value, flow.relation.window)
    result = flow.relation
    fits = (
        [(f.name, f.type) for f in result.key] == [(f.name, f.type) for f in expected.key]
        and [f.name for f in result.value] == [f.name for f in expected.value]
        and all(_fits_into(a.type, b.type) for a, b in zip(result.value, expected.value, strict=True))
    )
    if not fits:
        raise SchemaMismatch(
            "Incompatible schema between results and sink.\n"
            f"Result schema is {schema_text(result)}\nSink schema is {schema_text(expected)}",
            span=node.span,
            fix="select the sink's columns, in its order and with its types",
        )
    pairs = zip(result.value, expected.value, strict=True)
    cast = tuple(e.NamedExpression(b.name, cast_to(e.Column(a.type, a.name), b.type)) for a, b in pairs)
    return flow if result.value == expected.value else flow.on(nodes.Select(flow.node, expected, cast), expected)


def _fits_into(actual: pa.DataType, expected: pa.DataType) -> bool:
    return actual == expected or t.wider_number(actual, expected) == expected
