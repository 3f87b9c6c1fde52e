"""Plans made by hand, so that the world is tested without a language."""

from __future__ import annotations

from headrace.plan.actions import CreateSource
from headrace.plan.expressions import Column, Compare, Comparison, Literal
from headrace.plan.nodes import Filter, Query, Sink, Source
from headrace.plan.relations import Format, Kind, Relation
from headrace.plan.sources import SourceInfo
from headrace.plan.types import BOOLEAN, INT
from headrace.schema import Field

ROW = Relation(Kind.STREAM, (Field("ID", INT),), (Field("V", INT),))
KAFKA, JSON = Format("KAFKA"), Format("JSON")


def info(name: str, topic: str | None = None, relation: Relation = ROW) -> SourceInfo:
    return SourceInfo(name, topic or name, relation, KAFKA, JSON)


def above(
    name: str, source: SourceInfo, least: int, *, query: str | None = None, replaces: str | None = None
) -> CreateSource:
    """CREATE STREAM name AS SELECT * FROM source WHERE V > least."""
    relation = source.relation
    read = Source(source.name, source.topic, relation, source.key_format, source.value_format)
    kept = Filter(read, relation, Comparison(BOOLEAN, Compare.GREATER, Column(INT, "V"), Literal(INT, least)))
    made = info(name, relation=relation)
    sink = Sink(kept, relation, name, made.topic, made.key_format, made.value_format)
    return CreateSource(made, Query(query or f"CSAS_{name}", sink), replaces)
