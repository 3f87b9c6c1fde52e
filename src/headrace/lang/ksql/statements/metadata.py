"""Plans DESCRIBE, LIST, SHOW, EXPLAIN and PRINT as metadata queries. The objects they name must exist.

Only the log knows whether a topic exists: PRINT is checked where it is answered.
"""

from __future__ import annotations

import re

from headrace.errors import BadQuery, SourceNotFound, Unsupported, suggestion
from headrace.lang.ksql import ast
from headrace.lang.ksql.query.partial_plan import known_source
from headrace.lang.ksql.statements.alerts import known_alert
from headrace.plan import functions
from headrace.plan.actions import Action, CreateSource, MetadataKind, MetadataQuery, StartQuery, TransientSelect
from headrace.plan.catalog import Catalog


def plan_show(statement: ast.Show, text: str) -> MetadataQuery:
    """Plans LIST or SHOW."""
    what = "CONNECTORS" if statement.what.endswith(" CONNECTORS") else statement.what
    return MetadataQuery(MetadataKind(what.lower()), text=text, extended=statement.extended, all=statement.all)


def plan_describe(statement: ast.Describe, catalog: Catalog, text: str) -> MetadataQuery:
    """Plans DESCRIBE of one object, or of all streams or tables."""
    if statement.what == "CONNECTOR":
        raise Unsupported(
            f"Connector {statement.name} does not exist: Kafka Connect is not supported",
            span=statement.span,
            fix="write the data to a topic with another program",
        )
    if statement.what == "SOURCE":
        known_source(catalog, statement.name or "", statement)
    if statement.what == "ALERT":
        known_alert(statement.name or "", catalog, statement)
    if statement.what == "FUNCTION" and functions.find(statement.name or "") is None:
        error = functions.unknown_function(statement.name or "")
        error.span = statement.span_of(statement.name)
        raise error
    about = MetadataKind(statement.what.lower())
    return MetadataQuery(about, statement.name or "", text, extended=statement.extended, described=True)


def plan_explain(statement: ast.Explain, catalog: Catalog, text: str) -> MetadataQuery:
    """Plans EXPLAIN of a running query."""
    query = catalog.queries.get(statement.query_id or "")
    if query is None:
        raise SourceNotFound(
            f"Query with id:{statement.query_id} does not exist",
            span=statement.span_of(statement.query_id),
            fix=suggestion(
                statement.query_id or "", catalog.queries, "use SHOW QUERIES to view the full set of queries"
            ),
        )
    return MetadataQuery(MetadataKind.QUERY, query.id, text, query)


def plan_explain_statement(action: Action, statement: ast.Statement, text: str) -> MetadataQuery:
    """Plans EXPLAIN of a statement; `action` is the statement's action."""
    query = action.query if isinstance(action, CreateSource | StartQuery | TransientSelect) else None
    if query is None:
        raise BadQuery("The provided statement does not run a ksql query", span=statement.span, fix="EXPLAIN a SELECT")
    kind = ("PUSH" if action.push else "PULL") if isinstance(action, TransientSelect) else "PERSISTENT"
    return MetadataQuery(MetadataKind.QUERY, text=text, query=query, query_type=kind)


def without_explain(text: str) -> str:
    """Returns the explained statement."""
    return re.sub(r"^\s*EXPLAIN\s+(ANALYZE\s+)?", "", text, flags=re.IGNORECASE)


def plan_print(statement: ast.Print, text: str) -> MetadataQuery:
    """Plans PRINT; every nth record starts with the first."""
    for word, number in (("INTERVAL", statement.interval), ("LIMIT", statement.limit)):
        if number is not None and number < 1:
            raise BadQuery(f"{word} {number} is not valid", span=statement.span, fix="use a number of at least 1")
    return MetadataQuery(
        MetadataKind.TOPIC,
        statement.topic,
        text,
        from_beginning=statement.from_beginning,
        interval=statement.interval,
        limit=statement.limit,
    )
