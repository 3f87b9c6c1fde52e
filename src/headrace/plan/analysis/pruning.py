"""Determines the columns of each topic that a query reads, so that readers can skip the others."""

from __future__ import annotations

from collections import defaultdict

from headrace.plan.analysis.rewrite import rewrite_nodes
from headrace.plan.expressions import Column, NamedExpression
from headrace.plan.nodes import Node, Query, Select, Source, walk
from headrace.plan.relations import Kind
from headrace.plan.rules import optimize, prune_columns


def columns_read(query: Query) -> dict[str, set[str]]:
    """Returns the names of the columns read, by topic. Of a table all columns are read, since its rows are stored
    whole.
    """
    found: defaultdict[str, set[str]] = defaultdict(set)
    for node in walk(prune_columns(rewrite_nodes(optimize(query).sink, _covered))):
        for source in (below for below in node.inputs if isinstance(below, Source)):
            values = node.relation.value if isinstance(node, Select) and _covers(source) else source.relation.value
            found[source.topic] |= {field.name for field in (*source.relation.key, *values)}
            found[source.topic] |= {source.timestamp.column} if source.timestamp else set()
    return dict(found)


def _covers(source: Source) -> bool:
    return source.relation.kind is Kind.STREAM


def _covered(node: Node) -> Node:
    """Puts a stream's source under a Select of all its columns, which pruning reduces to those that are read."""
    if not isinstance(node, Source) or not _covers(node):
        return node
    own = tuple(NamedExpression(field.name, Column(field.type, field.name)) for field in node.relation.value)
    return Select(node, node.relation, own)
