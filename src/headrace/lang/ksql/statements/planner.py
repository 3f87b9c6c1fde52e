"""Plans statements as actions. Planning changes the catalog, so that the next statement of a script sees it.

All checks happen here, before anything runs: each error has a code, the position in the text and a fix.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import singledispatchmethod
from typing import Any

import pyarrow as pa

from headrace.errors import (
    BadGrouping,
    BadKey,
    BadQuery,
    BadReplacement,
    BadType,
    FormatUnsupported,
    SchemaMismatch,
    SourceInUse,
    SourceNotFound,
    SourceReadOnly,
    StatementError,
    Unsupported,
    WrongKind,
)
from headrace.lang.ksql import ast
from headrace.lang.ksql.analyzer.coercion import cast_to
from headrace.lang.ksql.analyzer.types import plan_type
from headrace.lang.ksql.formatter import schema_text
from headrace.lang.ksql.query.partial_plan import PartialPlan, known_source
from headrace.lang.ksql.query.select import QueryPlanner
from headrace.lang.ksql.query.transient import plan_transient_query
from headrace.lang.ksql.statements import alerts, create_source, metadata, row_statements, source_formats
from headrace.lang.ksql.statements.upgrades import check_upgrade
from headrace.lang.ksql.statements.with_properties import (
    CACHES,
    NEW_PLANNER,
    OR_REPLACE,
    STRICT,
    TOPIC_PREFIX,
    Properties,
    read_properties,
)
from headrace.plan import expressions as e
from headrace.plan import nodes
from headrace.plan import types as t
from headrace.plan.actions import (
    Action,
    ControlQueries,
    CreateNotifier,
    CreateSource,
    CreateType,
    DropNotifier,
    DropSource,
    DropType,
    ExpectSchema,
    ExpectSource,
    ExpectTopic,
    MuteAlert,
    NoChange,
    QueryVerb,
    SetProperty,
    StartQuery,
    UnmuteAlert,
    UnsetProperty,
)
from headrace.plan.catalog import Catalog, SourceInfo
from headrace.plan.nodes import Query, Sink
from headrace.plan.relations import Kind, Relation
from headrace.schema import Field


class Planner:
    """Plans one script, or one connection. `properties` are ksql's settings (SET)."""

    def __init__(self, catalog: Catalog, properties: Mapping[str, Any] | None = None) -> None:
        self.catalog = catalog
        self.properties = dict(properties or {})

    def plan(self, statement: ast.Statement, text: str = "") -> Action:
        """Returns the action of a statement. An error without a span gets the statement's."""
        try:
            return self._plan(statement, text)
        except StatementError as error:
            error.span = error.span or statement.span
            raise

    @singledispatchmethod
    def _plan(self, statement: ast.Statement, text: str) -> Action:
        """DEFINE and UNDEFINE have their effect while the script is parsed."""
        return NoChange()

    # -- sources ----------------------------------------------------------------------------------------------------

    @_plan.register
    def _(self, statement: ast.CreateSource, text: str) -> Action:
        self._check_or_replace(statement)
        existing = create_source.check_new(self.catalog, statement)
        if existing is not None and statement.if_not_exists:
            return NoChange()
        info = replace(create_source.plan_create_source(statement, self.catalog, self.properties), text=text)
        if statement.or_replace and info.read_only:
            raise create_source.check_writable(info, statement)
        if existing is not None:
            create_source.check_replaceable(existing, info, statement)
        self.catalog.sources[info.name] = info
        return CreateSource(info)

    def _check_or_replace(self, statement: ast.CreateSource | ast.CreateAs) -> None:
        if statement.or_replace and str(self.properties.get(OR_REPLACE, "true")).lower() == "false":
            raise BadReplacement(
                "CREATE OR REPLACE functionality is disabled by config.",
                span=statement.span,
                fix=f"SET '{OR_REPLACE}' = 'true'",
            )

    @_plan.register
    def _(self, statement: ast.AlterSource, text: str) -> Action:
        source = self.catalog.sources.get(statement.name)
        if source is None:
            raise SourceNotFound(f"Source {statement.name} does not exist", span=statement.span)
        if self.catalog.writers(source.name):
            raise BadReplacement(
                "ALTER command is not supported for CREATE ... AS statements.",
                span=statement.span,
                fix="use CREATE OR REPLACE ... AS",
            )
        info = create_source.plan_alter_source(statement, source, self.catalog.types)
        self.catalog.sources[info.name] = info
        return CreateSource(info)

    @_plan.register
    def _(self, statement: ast.DropSource, text: str) -> Action:
        source = self.catalog.sources.get(statement.name)
        if source is None:
            if statement.if_exists:
                return NoChange()
            raise SourceNotFound(f"{statement.kind.capitalize()} {statement.name} does not exist.", span=statement.span)
        if source.kind != statement.kind.lower():
            raise WrongKind(
                f"Incompatible data source type is {source.kind.upper()}, but statement was DROP {statement.kind}",
                span=statement.span,
            )
        if statement.delete_topic and source.read_only:
            raise SourceReadOnly(f"Cannot delete topic for read-only source: {source.name}", span=statement.span)
        self._check_unused(source, statement)
        ends = tuple(self.catalog.writers(source.name))
        for query in ends:
            del self.catalog.queries[query]
        del self.catalog.sources[source.name]
        return DropSource(source, statement.delete_topic, ends)

    def _check_unused(self, source: SourceInfo, node: ast.Ast) -> None:
        readers = self.catalog.readers(source.name)
        extra = [q for q in self.catalog.writers(source.name) if not q.startswith("C")]
        if readers or extra:
            raise SourceInUse(
                f"Cannot drop {source.name}. The following queries read from this source: [{', '.join(readers)}]. "
                f"The following queries write into this source: [{', '.join(extra)}].",
                span=node.span,
                fix="TERMINATE these queries, or drop their results, first",
            )

    # -- queries ----------------------------------------------------------------------------------------------------

    @_plan.register
    def _(self, statement: ast.CreateAs, text: str) -> Action:
        self._check_or_replace(statement)
        kind = Kind(statement.kind.lower())
        existing = create_source.check_new(self.catalog, statement)
        if existing is not None and statement.if_not_exists:
            return NoChange()
        properties = read_properties(statement.properties, self.properties, query=True)
        keyless = kind is Kind.STREAM and str(self.properties.get(NEW_PLANNER, "false")).lower() == "true"
        words = f"CREATE {statement.kind} AS SELECT"
        flow = QueryPlanner(self.catalog, statement.name, words, self.properties, keyless=keyless).flow(statement.query)
        self._check_kind(flow, kind, statement)
        info = replace(self._result(statement, flow, properties), text=text)
        replaces = self._replaced(existing, info, flow, statement)
        query = self._query(f"C{kind[0].upper()}AS_{info.name}", flow, info, text, properties, replaces)
        self.catalog.sources[info.name] = info
        self.catalog.queries[query.id] = query
        return CreateSource(info, query, replaces)

    def _check_kind(self, flow: PartialPlan, kind: Kind, statement: ast.CreateAs) -> None:
        if flow.kind is not kind:
            raise WrongKind(
                f"Invalid result type. Your SELECT query produces a {flow.kind.upper()}. "
                f"Please use CREATE {flow.kind.upper()} AS SELECT statement instead.",
                span=statement.span,
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
        prefix = self.properties.get(TOPIC_PREFIX, "")
        topic = properties.get("KAFKA_TOPIC") or f"{prefix}{statement.name}"
        partitions = properties.get("PARTITIONS")
        time = source_formats.time_column(relation, properties)
        indexes = source_formats.index_columns(relation, properties, kept=True)
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
        writer = next(iter(self.catalog.writers(old.name)), None)
        check_upgrade(self.catalog.queries[writer].sink.input if writer else None, flow.node, node)
        return writer

    def _query(
        self,
        prefix: str,
        flow: PartialPlan,
        info: SourceInfo,
        text: str,
        properties: Properties,
        replaces: str | None = None,
    ) -> Query:
        wanted = (properties.get("QUERY_ID") or "").upper()
        if wanted in self.catalog.queries and wanted != replaces:
            raise BadQuery(f"Query ID '{wanted}' already exists.", fix="choose another QUERY_ID, or remove it")
        name = wanted or replaces or f"{prefix}_{self.catalog.number}"
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
        return Query(name, sink, text, self._strict(), self._every_change())

    def _every_change(self) -> bool:
        names = [f"{prefix}{name}" for prefix in ("", "ksql.streams.") for name in CACHES]
        return any(str(self.properties.get(name, "")).strip() == "0" for name in names)

    def _strict(self) -> tuple[tuple[str, str], ...]:
        wanted = {name: str(self.properties.get(name)).lower() == "true" for name in STRICT}
        return tuple((code, name) for name, code in STRICT.items() if wanted[name])

    @_plan.register
    def _(self, statement: ast.InsertInto, text: str) -> Action:
        target = known_source(self.catalog, statement.target, statement)
        if target.kind is Kind.TABLE:
            raise WrongKind(
                f"INSERT INTO can only be used to insert into a stream. {target.name} is a table.", span=statement.span
            )
        if target.read_only:
            raise SourceReadOnly(f"Cannot insert into read-only {target.kind}: {target.name}", span=statement.span)
        if target.system:
            raise BadQuery(f"Cannot insert into {target.name} because it has header columns", span=statement.span)
        properties = read_properties(statement.properties, self.properties, query=True)
        flow = QueryPlanner(self.catalog, target.name, "INSERT INTO", self.properties).flow(statement.query)
        if flow.kind is Kind.TABLE:
            raise WrongKind("INSERT INTO can only be used with a query that returns a stream", span=statement.span)
        flow = _matched(flow, target, statement)
        query = self._query("INSERTQUERY", flow, target, text, properties)
        self.catalog.queries[query.id] = query
        return StartQuery(query)

    @_plan.register
    def _(self, statement: ast.SelectStatement, text: str) -> Action:
        return plan_transient_query(statement.query, self.catalog, self.properties, text)

    @_plan.register
    def _(self, statement: ast.ControlQuery, text: str) -> Action:
        if statement.query_id is not None and statement.query_id not in self.catalog.queries:
            raise SourceNotFound(f"Unknown queryId: {statement.query_id}", span=statement.span)
        queries = tuple(self.catalog.queries) if statement.query_id is None else (statement.query_id,)
        if statement.verb == "TERMINATE":
            for name in queries:
                del self.catalog.queries[name]
        return ControlQueries(QueryVerb(statement.verb), queries)

    # -- alerts -----------------------------------------------------------------------------------------------------

    @_plan.register
    def _(self, statement: ast.CreateAlert, text: str) -> Action:
        if not alerts.check_new(statement, self.catalog):
            return NoChange()
        query = replace(alerts.plan_alert(statement, self.catalog, text), strict=self._strict())
        self.catalog.queries[query.id] = query
        return StartQuery(query)

    @_plan.register
    def _(self, statement: ast.DropAlert, text: str) -> Action:
        if statement.if_exists and statement.name not in self.catalog.alerts:
            return NoChange()
        query = alerts.known_alert(statement.name, self.catalog, statement)
        del self.catalog.queries[query.id]
        return ControlQueries(QueryVerb.TERMINATE, (query.id,))

    @_plan.register
    def _(self, statement: ast.MuteAlert, text: str) -> Action:
        alerts.known_alert(statement.name, self.catalog, statement)
        return MuteAlert(statement.name, statement.duration, statement.key)

    @_plan.register
    def _(self, statement: ast.UnmuteAlert, text: str) -> Action:
        alerts.known_alert(statement.name, self.catalog, statement)
        return UnmuteAlert(statement.name, statement.key)

    @_plan.register
    def _(self, statement: ast.CreateNotifier, text: str) -> Action:
        made = alerts.plan_notifier(statement, self.catalog)
        if made is None:
            return NoChange()
        self.catalog.notifiers[made.name] = made
        return CreateNotifier(made)

    @_plan.register
    def _(self, statement: ast.DropNotifier, text: str) -> Action:
        if statement.if_exists and statement.name not in self.catalog.notifiers:
            return NoChange()
        alerts.known_notifier(statement.name, self.catalog, statement)
        alerts.check_notifier_unused(statement.name, self.catalog, statement)
        del self.catalog.notifiers[statement.name]
        return DropNotifier(statement.name)

    # -- metadata ---------------------------------------------------------------------------------------------------

    @_plan.register
    def _(self, statement: ast.Show, text: str) -> Action:
        return metadata.plan_show(statement, text)

    @_plan.register
    def _(self, statement: ast.Describe, text: str) -> Action:
        return metadata.plan_describe(statement, self.catalog, text)

    @_plan.register
    def _(self, statement: ast.Print, text: str) -> Action:
        return metadata.plan_print(statement, text)

    @_plan.register
    def _(self, statement: ast.Explain, text: str) -> Action:
        if statement.statement is not None:
            return self._explained_aside(statement.statement, text)
        return metadata.plan_explain(statement, self.catalog, text)

    def _explained_aside(self, statement: ast.Statement, text: str) -> Action:
        """Plans a statement for EXPLAIN on a copy of the catalog: nothing changes."""
        aside = Planner(self.catalog.copy(), self.properties)
        return metadata.plan_explain_statement(aside.plan(statement, metadata.without_explain(text)), statement, text)

    # -- rows, types, settings --------------------------------------------------------------------------------------

    @_plan.register
    def _(self, statement: ast.InsertValues, text: str) -> Action:
        return row_statements.plan_insert(statement, self.catalog)

    @_plan.register
    def _(self, statement: ast.DeleteFrom, text: str) -> Action:
        return row_statements.plan_delete(statement, self.catalog)

    @_plan.register
    def _(self, statement: ast.AssertValues, text: str) -> Action:
        return row_statements.plan_assert_values(statement, self.catalog)

    @_plan.register
    def _(self, statement: ast.AssertSource, text: str) -> Action:
        create = ast.CreateSource(
            statement.kind, statement.name, statement.elements, statement.properties, span=statement.span
        )
        info = create_source.plan_create_source(create, self.catalog, self.properties)
        return ExpectSource(statement.name, info, {p.name: p.value for p in statement.properties})

    @_plan.register
    def _(self, statement: ast.AssertTopic, text: str) -> Action:
        return ExpectTopic(statement.topic, statement.exists)

    @_plan.register
    def _(self, statement: ast.AssertSchema, text: str) -> Action:
        return ExpectSchema(statement.subject, statement.schema_id, statement.exists)

    @_plan.register
    def _(self, statement: ast.CreateType, text: str) -> Action:
        if statement.name in self.catalog.types:
            if statement.if_not_exists:
                return CreateType(statement.name)
            raise BadType(
                f"Cannot register custom type '{statement.name}' since it is already registered", span=statement.span
            )
        self.catalog.types[statement.name] = plan_type(statement.type, self.catalog.types)
        return CreateType(statement.name)

    @_plan.register
    def _(self, statement: ast.DropType, text: str) -> Action:
        if self.catalog.types.pop(statement.name, None) is None and not statement.if_exists:
            raise BadType(f"Type {statement.name} does not exist.", span=statement.span)
        return DropType(statement.name)

    @_plan.register
    def _(self, statement: ast.SetProperty, text: str) -> Action:
        self.properties[statement.name] = statement.value
        return SetProperty(statement.name, statement.value)

    @_plan.register
    def _(self, statement: ast.UnsetProperty, text: str) -> Action:
        self.properties.pop(statement.name, None)
        return UnsetProperty(statement.name)

    @_plan.register
    def _(self, statement: ast.CreateConnector, text: str) -> Action:
        raise Unsupported(
            "Kafka Connect is not supported", span=statement.span, fix="write the data to a topic with another program"
        )


def _matched(flow: PartialPlan, target: SourceInfo, node: ast.Ast) -> PartialPlan:
    """Converts the query's columns to those of the target; smaller number types are widened."""
    wanted = Relation(flow.kind, target.relation.key, target.relation.value, flow.relation.window)
    ours = flow.relation
    fits = (
        [(f.name, f.type) for f in ours.key] == [(f.name, f.type) for f in wanted.key]
        and [f.name for f in ours.value] == [f.name for f in wanted.value]
        and all(_goes_into(a.type, b.type) for a, b in zip(ours.value, wanted.value, strict=True))
    )
    if not fits:
        raise SchemaMismatch(
            "Incompatible schema between results and sink.\n"
            f"Result schema is {schema_text(ours)}\nSink schema is {schema_text(wanted)}",
            span=node.span,
            fix="select the sink's columns, in its order and with its types",
        )
    pairs = zip(ours.value, wanted.value, strict=True)
    cast = tuple(e.NamedExpression(b.name, cast_to(e.Column(a.type, a.name), b.type)) for a, b in pairs)
    return flow if ours.value == wanted.value else flow.on(nodes.Select(flow.node, wanted, cast), wanted)


def _goes_into(given: pa.DataType, wanted: pa.DataType) -> bool:
    return given == wanted or t.wider_number(given, wanted) == wanted
