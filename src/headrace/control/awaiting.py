"""Reading what one has written: who has the positions behind a write can wait until a table reflects it.

    awaiting = Awaiting(node, {TopicPartition("orders", 0): 120})
    while (position := awaiting.position("SALES")) is None: ...

A write goes on through queries: each must have read up to it, and what it has written by then must be read by the next.
Nothing is waited for here; `lacking` says who is not there yet.
"""

from __future__ import annotations

from collections.abc import Mapping

from headrace.contracts import TopicPartition
from headrace.control.node import Node
from headrace.engine.query import topics_of
from headrace.log.embedded import EmbeddedLog

Ends = Mapping[int, int]
"""By partition of a topic, the next offset."""


class Awaiting:
    """Of one write. What a query had written when it was first seen to be there counts, not what comes later."""

    def __init__(self, node: Node, written: Mapping[TopicPartition, int]) -> None:
        self._node = node
        self._written = written
        self._there: dict[str, Ends] = {}
        self.lacking = ""
        """A query that has not come so far."""

    def position(self, topic: str, behind: frozenset[str] = frozenset()) -> Ends | None:
        """Behind which, in a topic, all lies that follows from the write; None if it is not known yet."""
        found = {place.partition: at for place, at in self._written.items() if place.topic == topic}
        for name, enlisted in list(self._node.supervisor.queries.items()):
            if enlisted.query.sink.topic != topic or name in behind:
                continue
            ends = self._there.get(name) or self._ends(name, topic, behind | {name})
            if ends is None:
                return None
            self._there[name] = ends
            found = {partition: max(at, found.get(partition, 0)) for partition, at in {**found, **ends}.items()}
        return found

    def _ends(self, query: str, topic: str, behind: frozenset[str]) -> Ends | None:
        """Of the topic that a query writes, if it has read all; empty if the write does not reach it."""
        wanted: dict[str, Ends] = {}
        for source in topics_of(self._node.supervisor.queries[query].query):
            position = self.position(source, behind)
            if position is None:
                return None
            if position:
                wanted[source] = position
        if wanted and not self._has_read(query, wanted):
            self.lacking = query
            return None
        return {p: bounds.end for p, bounds in self._node.log.bounds(topic).items()} if wanted else {}

    def _has_read(self, query: str, wanted: Mapping[str, Ends]) -> bool:
        parked, running = self._node.care.parked.get(query), self._node.supervisor.running.get(query)
        if running is None:
            return parked is not None and parked.is_done  # it has read all there is
        position = running.position or {}
        log = self._node.log
        if isinstance(log, EmbeddedLog):
            entries = {topic: log.catalog.entry(topic) for topic in wanted}
            last = [
                log.reader.last_sequence_below(entries[t], p, at)
                for t, ends in wanted.items()
                for p, at in ends.items()
            ]
            return position.get("sequence", 0) >= max(last)
        return all(
            int(position.get(topic, {}).get(str(partition), 0)) >= at
            for topic, ends in wanted.items()
            for partition, at in ends.items()
        )
