"""Columns and remarks of the tables in metadata results, shared by those that write and read them."""

from __future__ import annotations

from headrace.lang.listing import Column
from headrace.plan.relations import Kind


def _name(heading: str) -> Column:
    return Column("name", heading, is_name=True)


def source_columns(kind: Kind) -> tuple[Column, ...]:
    return (
        _name(f"{kind.capitalize()} Name"),
        Column("topic", "Kafka Topic"),
        Column("keyFormat", "Key Format"),
        Column("valueFormat", "Value Format"),
        Column("isWindowed", "Windowed"),
        Column("type"),
    )


def topic_columns(*, extended: bool) -> tuple[Column, ...]:
    counts = (Column("consumerCount", "Consumers"), Column("consumerGroupCount", "ConsumerGroups"))
    return (
        Column("name", "Kafka Topic"),
        Column("", "Partitions"),
        Column("", "Partition Replicas"),
        Column("replicaInfo"),
        *(counts if extended else ()),
    )


FIELDS = (Column("name", "Field", is_name=True), Column("", "Type"), Column("schema"), Column("type"))
QUERIES = (
    Column("id", "Query ID", is_name=True),
    Column("queryType", "Query Type"),
    Column("", "Status"),
    Column("sinks", "Sink Name", is_name=True),
    Column("sinkKafkaTopics", "Sink Kafka Topic"),
    Column("queryString", "Query String"),
    Column("state"),
    Column("statusCount"),
)
VARIATIONS = (Column("", "Variation"), Column("returnType", "Returns"), Column("arguments"), Column("description"))
FUNCTIONS = (_name("Function Name"), Column("category", "Category"), Column("type"))
TYPES = (_name("Type Name"), Column("", "Schema"), Column("schema"))
PROPERTIES = (
    Column("name", "Property"),
    Column("scope", "Scope"),
    Column("level", "Default override"),
    Column("value", "Effective Value"),
    Column("editable"),
)
VARIABLES = (Column("name", "Variable Name"), Column("value", "Value"))
ALERTS = (
    Column("name", "Alert Name", is_name=True),
    Column("source", "On", is_name=True),
    Column("rule", "Rule"),
    Column("severity", "Severity"),
    Column("notify", "Notifies"),
    Column("queryId", "Query ID"),
    Column("state", "Status"),
)
NOTIFIERS = (
    Column("name", "Notifier Name", is_name=True),
    Column("type", "Type"),
    Column("options", "Options"),
)
CONNECTORS = (
    Column("name", "Connector Name"),
    Column("type", "Type"),
    Column("className", "Class"),
    Column("state", "Status"),
)
PLUGINS = (Column("className", "Class"), Column("type", "Type"), Column("version", "Version"))

QUERY_NOTES = ("For detailed information on a Query run: EXPLAIN <Query ID>;",)


def notes_of(*, extended: bool) -> tuple[str, ...]:
    if extended:
        return ("For query topology and execution plan please run: EXPLAIN <QueryId>",)
    return ("For runtime statistics and query details run: DESCRIBE <Stream,Table> EXTENDED;",)
