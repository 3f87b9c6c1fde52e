"""What a query looks at of its topics, for whoever can leave out the rest."""

from __future__ import annotations

from collections import defaultdict

from headrace.plan.expressions import Column, Named
from headrace.plan.nodes import Kind, Node, Query, Select, Source, walk
from headrace.plan.rewriting import everywhere
from headrace.plan.rules import optimized, prune_columns


def columns_read(query: Query) -> dict[str, set[str]]:
    """By topic: names of its sources' columns. Of tables all of them, since a table keeps its rows."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for node in walk(prune_columns(everywhere(optimized(query).sink, _covered))):
        for source in (below for below in node.inputs if isinstance(below, Source)):
            values = node.relation.value if isinstance(node, Select) and _covers(source) else source.relation.value
            found[source.topic] |= {field.name for field in (*source.relation.key, *values)}
            found[source.topic] |= {source.timestamp.column} if source.timestamp else set()
    return dict(found)


def _covers(source: Source) -> bool:
    return source.relation.kind is Kind.STREAM


def _covered(node: Node) -> Node:
    """A stream's source under a Select of all its columns, of which pruning leaves those that are read."""
    if not isinstance(node, Source) or not _covers(node):
        return node
    own = tuple(Named(field.name, Column(field.type, field.name)) for field in node.relation.value)
    return Select(node, node.relation, own)
