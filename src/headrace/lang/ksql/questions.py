"""DESCRIBE, LIST, SHOW, EXPLAIN and PRINT become questions. What they name must be there, or they are refused.

Whether a topic exists only the log knows: PRINT is judged where it is answered.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from headrace.errors import BadQuery, SourceNotFound, Unsupported
from headrace.lang.ksql import ast
from headrace.lang.ksql.alerting import known_alert
from headrace.lang.ksql.flow import known
from headrace.lang.ksql.properties import (
    DEFAULT_KEY_FORMAT,
    DEFAULT_VALUE_FORMAT,
    NEW_PLANNER,
    OR_REPLACE,
    TOPIC_PREFIX,
    WRAP_VALUES,
)
from headrace.plan import functions
from headrace.plan.catalog import About, Action, Answer, Ask, Catalog, Create, Insert
from headrace.plan.functions.aggregates_collect import LIMIT, LIMITS

DEFAULTS: Mapping[str, str] = MappingProxyType(
    {
        DEFAULT_KEY_FORMAT: "KAFKA",
        DEFAULT_VALUE_FORMAT: "",
        WRAP_VALUES: "true",
        NEW_PLANNER: "false",
        TOPIC_PREFIX: "",
        OR_REPLACE: "true",
        "ksql.fail.on.deserialization.error": "false",
        "ksql.timestamp.throw.on.invalid": "false",
        **dict.fromkeys(LIMITS.values(), str(LIMIT)),
    }
)
"""The settings that have an effect, and what they are unless they are set."""


def shown(statement: ast.Show, text: str) -> Answer:
    """LIST or SHOW."""
    what = "CONNECTORS" if statement.what.endswith(" CONNECTORS") else statement.what
    return Answer(About(what.lower()), text=text, extended=statement.extended, all=statement.all)


def described(statement: ast.Describe, catalog: Catalog, text: str) -> Answer:
    """DESCRIBE of one thing, or of all streams or tables."""
    if statement.what == "CONNECTOR":
        raise Unsupported(
            f"Connector {statement.name} does not exist: connectors are not Kafka Connect's here",
            span=statement.span,
            fix="SHOW CONNECTORS lists none; bring the data in with an agent",
        )
    if statement.what == "SOURCE":
        known(catalog, statement.name or "", statement)
    if statement.what == "ALERT":
        known_alert(statement.name or "", catalog, statement)
    if statement.what == "FUNCTION" and functions.find(statement.name or "") is None:
        raise functions.unknown(statement.name or "")
    about = About(statement.what.lower())
    return Answer(about, statement.name or "", text, extended=statement.extended, described=True)


def explained(statement: ast.Explain, catalog: Catalog, text: str) -> Answer:
    """EXPLAIN of a query that runs."""
    query = catalog.queries.get(statement.query_id or "")
    if query is None:
        raise SourceNotFound(
            f"Query with id:{statement.query_id} does not exist",
            span=statement.span,
            fix="use SHOW QUERIES to view the full set of queries",
        )
    return Answer(About.QUERY, query.id, text, query)


def explained_aside(action: Action, statement: ast.Statement, text: str) -> Answer:
    """EXPLAIN of a statement; `action` is what it would do."""
    query = action.query if isinstance(action, Create | Insert | Ask) else None
    if query is None:
        raise BadQuery("The provided statement does not run a ksql query", span=statement.span, fix="EXPLAIN a SELECT")
    kind = ("PUSH" if action.push else "PULL") if isinstance(action, Ask) else "PERSISTENT"
    return Answer(About.QUERY, text=text, query=query, query_type=kind)


def without_explain(text: str) -> str:
    """The statement that is explained."""
    return re.sub(r"^\s*EXPLAIN\s+(ANALYZE\s+)?", "", text, flags=re.IGNORECASE)


def printed(statement: ast.Print, text: str) -> Answer:
    """PRINT; every nth record begins with the first."""
    for word, number in (("INTERVAL", statement.interval), ("LIMIT", statement.limit)):
        if number is not None and number < 1:
            raise BadQuery(f"{word} {number} prints nothing", span=statement.span, fix="use a number of at least 1")
    return Answer(
        About.TOPIC,
        statement.topic,
        text,
        from_beginning=statement.from_beginning,
        interval=statement.interval,
        limit=statement.limit,
    )
