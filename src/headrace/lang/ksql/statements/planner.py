"""Plans statements as actions. Planning changes the catalog, so that the next statement of a script sees it.

All checks happen here, before anything runs: each error has a code, the position in the text and a fix.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import singledispatchmethod
from typing import Any

from headrace.errors import (
    BadReplacement,
    BadType,
    SourceInUse,
    SourceNotFound,
    SourceReadOnly,
    StatementError,
    Unsupported,
    WrongKind,
    suggestion,
)
from headrace.lang.ksql import ast
from headrace.lang.ksql.analyzer.types import plan_type
from headrace.lang.ksql.properties import OR_REPLACE, check_known, is_disabled, strict_problems
from headrace.lang.ksql.query.partial_plan import nearest_source
from headrace.lang.ksql.query.transient import plan_transient_query
from headrace.lang.ksql.statements import alerts, create_source, metadata, row_statements
from headrace.lang.ksql.statements.persistent_queries import PersistentQueryPlanner
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
    KillProcess,
    MuteAlert,
    NoChange,
    QueryVerb,
    SetProperty,
    StartQuery,
    UnmuteAlert,
    UnsetProperty,
)
from headrace.plan.catalog import Catalog
from headrace.plan.sources import SourceInfo


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
        if statement.or_replace and is_disabled(self.properties, OR_REPLACE):
            raise BadReplacement(
                "CREATE OR REPLACE functionality is disabled by config.",
                span=statement.span,
                fix=f"SET '{OR_REPLACE}' = 'true'",
            )

    @_plan.register
    def _(self, statement: ast.AlterSource, text: str) -> Action:
        source = self.catalog.sources.get(statement.name)
        if source is None:
            raise self._unknown_source(f"Source {statement.name} does not exist", statement)
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
            raise self._unknown_source(f"{statement.kind.capitalize()} {statement.name} does not exist.", statement)
        if source.kind != statement.kind.lower():
            raise WrongKind(
                f"Incompatible data source type is {source.kind.upper()}, but statement was DROP {statement.kind}",
                span=statement.span,
                fix=f"write DROP {source.kind.upper()} {source.name}",
            )
        if statement.delete_topic and source.read_only:
            raise SourceReadOnly(f"Cannot delete topic for read-only source: {source.name}", span=statement.span)
        self._check_unused(source, statement)
        if statement.delete_topic:
            self._check_topic_unused(source, statement)
        ends = tuple(self.catalog.writers(source.name))
        for query in ends:
            del self.catalog.queries[query]
        del self.catalog.sources[source.name]
        return DropSource(source, statement.delete_topic, ends)

    def _unknown_source(self, what: str, statement: ast.AlterSource | ast.DropSource) -> SourceNotFound:
        fix = nearest_source(self.catalog, statement.name)
        return SourceNotFound(what, span=statement.span_of(statement.name), fix=fix)

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

    def _check_topic_unused(self, source: SourceInfo, node: ast.Ast) -> None:
        """Refuse to delete a topic under another source, which the error does not name: it may be hidden."""
        if any(other.topic == source.topic and other.name != source.name for other in self.catalog.sources.values()):
            raise SourceInUse(
                f"Cannot delete topic {source.topic}. Another stream or table has this topic.",
                span=node.span,
                fix=f"drop the others first, or leave the topic: DROP {source.kind.upper()} {source.name}",
            )

    # -- queries ----------------------------------------------------------------------------------------------------

    @_plan.register
    def _(self, statement: ast.CreateAs, text: str) -> Action:
        self._check_or_replace(statement)
        existing = create_source.check_new(self.catalog, statement)
        if existing is not None and statement.if_not_exists:
            return NoChange()
        action = self._queries(text).create_as(statement, existing)
        self.catalog.sources[action.source.name] = action.source
        return self._started(action)

    @_plan.register
    def _(self, statement: ast.InsertInto, text: str) -> Action:
        return self._started(self._queries(text).insert_into(statement))

    def _queries(self, text: str) -> PersistentQueryPlanner:
        return PersistentQueryPlanner(self.catalog, self.properties, text)

    def _started(self, action: CreateSource | StartQuery) -> Action:
        if action.query is not None:
            self.catalog.queries[action.query.id] = action.query
        return action

    @_plan.register
    def _(self, statement: ast.SelectStatement, text: str) -> Action:
        return plan_transient_query(statement.query, self.catalog, self.properties, text)

    @_plan.register
    def _(self, statement: ast.ControlQuery, text: str) -> Action:
        if statement.query_id is not None and statement.query_id not in self.catalog.queries:
            fix = suggestion(statement.query_id, self.catalog.queries, "LIST QUERIES shows the running queries")
            what = f"Unknown queryId: {statement.query_id}"
            raise SourceNotFound(what, span=statement.span_of(statement.query_id), fix=fix)
        queries = tuple(self.catalog.queries) if statement.query_id is None else (statement.query_id,)
        if statement.verb == "TERMINATE":
            for name in queries:
                del self.catalog.queries[name]
        return ControlQueries(QueryVerb(statement.verb), queries)

    @_plan.register
    def _(self, statement: ast.KillProcess, text: str) -> Action:
        return KillProcess(str(statement.process))

    # -- alerts -----------------------------------------------------------------------------------------------------

    @_plan.register
    def _(self, statement: ast.CreateAlert, text: str) -> Action:
        if not alerts.check_new(statement, self.catalog):
            return NoChange()
        query = replace(alerts.plan_alert(statement, self.catalog, text), strict=strict_problems(self.properties))
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
        notifier = alerts.plan_notifier(statement, self.catalog)
        if notifier is None:
            return NoChange()
        self.catalog.notifiers[notifier.name] = notifier
        return CreateNotifier(notifier)

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
            return self._explain_statement(statement.statement, text)
        return metadata.plan_explain(statement, self.catalog, text)

    def _explain_statement(self, statement: ast.Statement, text: str) -> Action:
        """Plans a statement for EXPLAIN on a copy of the catalog: nothing changes."""
        dry_run = Planner(self.catalog.copy(), self.properties)
        return metadata.plan_explain_statement(dry_run.plan(statement, metadata.without_explain(text)), statement, text)

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
        if statement.name not in self.catalog.types and not statement.if_exists:
            fix = suggestion(statement.name, self.catalog.types, "LIST TYPES shows the existing ones")
            raise BadType(f"Type {statement.name} does not exist.", span=statement.span_of(statement.name), fix=fix)
        self.catalog.types.pop(statement.name, None)
        return DropType(statement.name)

    @_plan.register
    def _(self, statement: ast.SetProperty, text: str) -> Action:
        check_known(statement.name, statement.span_of(statement.name))
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
