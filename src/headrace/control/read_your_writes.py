"""Read-your-writes: finds the positions at which a table reflects a write, so that a reader can wait for them.

    tracker = WriteTracker(node, {TopicPartition("orders", 0): 120})
    while (position := tracker.position("SALES")) is None: ...

A write propagates through queries: each must have read it, and the next one must have read what the former has written
by then. Nothing blocks here; `lagging_query` names a query that has not caught up.
"""

from __future__ import annotations

from collections.abc import Mapping

from headrace.contracts import TopicPartition
from headrace.control.node import Node
from headrace.engine.query import input_topics
from headrace.log.embedded import EmbeddedLog

EndOffsets = Mapping[int, int]
"""The next offset of each partition of a topic."""


class WriteTracker:
    """Tracks one write. A query's end offsets are taken once, when it is first seen to have read the write."""

    def __init__(self, node: Node, positions: Mapping[TopicPartition, int]) -> None:
        self._node = node
        self._written = positions
        self._ends_of: dict[str, EndOffsets] = {}
        self.lagging_query = ""
        """A query that has not read the write yet."""

    def position(self, topic: str, visited: frozenset[str] = frozenset()) -> EndOffsets | None:
        """The end offsets in a topic up to which all effects of the write lie; None if not known yet."""
        end_offsets = {place.partition: at for place, at in self._written.items() if place.topic == topic}
        for name, registered in list(self._node.supervisor.queries.items()):
            if registered.query.sink.topic != topic or name in visited:
                continue
            ends = self._ends_of.get(name) or self._ends(name, topic, visited | {name})
            if ends is None:
                return None
            self._ends_of[name] = ends
            end_offsets = {
                partition: max(at, end_offsets.get(partition, 0)) for partition, at in {**end_offsets, **ends}.items()
            }
        return end_offsets

    def _ends(self, query: str, topic: str, visited: frozenset[str]) -> EndOffsets | None:
        """End offsets of a query's output topic, if it has read the write; empty if the write does not reach it."""
        required: dict[str, EndOffsets] = {}
        for source in input_topics(self._node.supervisor.queries[query].query):
            position = self.position(source, visited)
            if position is None:
                return None
            if position:
                required[source] = position
        if required and not self._has_read(query, required):
            self.lagging_query = query
            return None
        return {p: bounds.end for p, bounds in self._node.log.bounds(topic).items()} if required else {}

    def _has_read(self, query: str, required: Mapping[str, EndOffsets]) -> bool:
        suspended, running = self._node.reconciler.suspended.get(query), self._node.supervisor.running.get(query)
        if running is None:
            return suspended is not None and not suspended.has_input  # it has read all its input
        position = running.position or {}
        log = self._node.log
        if isinstance(log, EmbeddedLog):
            entries = {topic: log.catalog.entry(topic) for topic in required}
            last = [
                log.reader.last_sequence_below(entries[t], p, at)
                for t, ends in required.items()
                for p, at in ends.items()
            ]
            return position.get("sequence", 0) >= max(last)
        return all(
            int(position.get(topic, {}).get(str(partition), 0)) >= at
            for topic, ends in required.items()
            for partition, at in ends.items()
        )
