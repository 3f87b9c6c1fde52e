"""Determines the columns of each topic that a query reads, so that readers can skip the others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from headrace.plan.expressions import Column, NamedExpression
from headrace.plan.nodes import Node, Query, Select, Source, walk
from headrace.plan.relations import Kind
from headrace.plan.rewrite import rewrite_nodes
from headrace.plan.rules import optimize, prune_columns


def columns_read(query: Query) -> dict[str, set[str]]:
    """Returns the names of the columns read, by topic: a source's key, its timestamp, and the values that are read."""
    columns: defaultdict[str, set[str]] = defaultdict(set)
    for source, values in values_read(optimize(query).sink):
        columns[source.topic] |= {field.name for field in source.relation.key} | values
        columns[source.topic] |= {source.timestamp.column} if source.timestamp else set()
    return dict(columns)


def values_read(top: Node) -> Iterator[tuple[Source, set[str]]]:
    """Yields each source with the names of its values that the nodes above it read.

    Of a table all values are read, since its rows are stored whole.
    """
    for node in walk(prune_columns(rewrite_nodes(top, _under_select))):
        for source in (below for below in node.inputs if isinstance(below, Source)):
            values = node.relation.value if isinstance(node, Select) and _is_prunable(source) else source.relation.value
            yield source, {field.name for field in values}


def _is_prunable(source: Source) -> bool:
    return source.relation.kind is Kind.STREAM


def _under_select(node: Node) -> Node:
    """Puts a stream's source under a Select of all its values, which pruning reduces to those that are read."""
    if not isinstance(node, Source) or not _is_prunable(node):
        return node
    own = tuple(NamedExpression(field.name, Column(field.type, field.name)) for field in node.relation.value)
    return Select(node, node.relation, own)
