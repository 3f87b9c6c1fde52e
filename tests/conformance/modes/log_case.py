"""A case of the KSQL corpus over a log that many cases share: its topics are named `case.topic` there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import attrgetter

import pyarrow as pa
from tests.conformance.modes import memory
from tests.conformance.modes.memory import Planned
from tests.spark.payload_records import records_of

from headrace.contracts import Append
from headrace.engine.io.row_payloads import payload_rows, rows_payload
from headrace.engine.verify.position import OffsetRange
from headrace.engine.verify.recompute import ReadPart
from headrace.errors import QueryFailed
from headrace.log.embedded import EmbeddedLog
from headrace.log.stored_rows import from_records
from headrace.plan.chain.records import RawRecord
from headrace.plan.nodes import Node, Query, Sink, Source
from headrace.plan.rewrite import rewrite_nodes
from headrace.record import Record
from headrace.testing.memory_log import INPUT_ORIGIN, MemoryRecord
from headrace.testing.world import World


@dataclass
class CaseQuery:
    """A query of a case, over the topics of the log; its level, and its results or the reason of its failure."""

    query: Query
    level: int = 0
    parts: Sequence[ReadPart] = ()
    written: list[RawRecord] = field(default_factory=list)
    range: OffsetRange | None = None
    """Where the results are in the log."""
    failure: str | None = None


class LogCase:
    """A case whose queries run over the log. What each reads follows ksqlDB's runner: see `headrace.testing.world`."""

    def __init__(self, planned: Planned, log: EmbeddedLog) -> None:
        self.planned = planned
        self._world: World = planned.world
        self._log = log
        stated = list(self._world.topics.entries)
        memory.give(planned)
        for topic in self._world.topics:
            log.create_topic(self._name(topic))
        self._stated = self._append(stated)
        self._given = self._append([e for e in self._world.topics.entries if e.origin == INPUT_ORIGIN])
        self.queries: list[CaseQuery] = []
        for running in self._world.running.values():
            self.queries.append(CaseQuery(self._over_log(running.query)))
            self.queries[-1].level = self._level(self.queries[-1])

    def _name(self, topic: str) -> str:
        return f"{self.planned.case['id']}.{topic}"

    def _over_log(self, query: Query) -> Query:
        def renamed(node: Node) -> Node:
            return replace(node, topic=self._name(node.topic)) if isinstance(node, Source | Sink) else node

        return replace(query, sink=rewrite_nodes(query.sink, renamed))  # type: ignore[arg-type]

    def _append(self, entries: Sequence[MemoryRecord]) -> dict[str, OffsetRange]:
        """Appends records in their order; returns their range by topic."""
        found: dict[str, OffsetRange] = {}
        for topic, run in groupby(entries, attrgetter("topic")):
            rows = from_records([Record(e.value, e.key, e.headers, occurred_at=e.timestamp) for e in run])
            name = self._name(topic)
            appended = self._append_rows(name, rows)
            found[name] = appended._replace(start=found[name].start) if name in found else appended
        return found

    def _append_rows(self, topic: str, rows: pa.RecordBatch) -> OffsetRange:
        self._log.append([Append(topic, rows)])
        upto = self._log.head([topic])
        return OffsetRange(topic, 0, upto - rows.num_rows, upto)

    def _feeders(self, reader: CaseQuery) -> list[CaseQuery]:
        """The earlier queries of which it reads what they write."""
        topics = {source.topic for source in reader.query.sources} - self._given.keys()
        earlier = self.queries[: self.queries.index(reader)]
        return [query for query in earlier if query.query.sink.topic in topics]

    def _level(self, reader: CaseQuery) -> int:
        return max((feeder.level + 1 for feeder in self._feeders(reader)), default=0)

    def prepare(self, reader: CaseQuery) -> None:
        """Determines what a query reads, when the queries before it have written."""
        parts = [self._inputs(reader), *([part] for part in self._derived(reader))]
        reader.parts = [part for part in parts if part]

    def _inputs(self, reader: CaseQuery) -> list[OffsetRange]:
        """Inputs of its topics, which are read in the order in which they were produced."""
        return [self._given[topic] for topic in self._topics(reader) if topic in self._given]

    def _derived(self, reader: CaseQuery) -> list[OffsetRange]:
        """What was written to its topics where there are no inputs, topic by topic and query by query."""
        found: list[OffsetRange | None] = []
        for topic in (topic for topic in self._topics(reader) if topic not in self._given):
            writers = (feeder for feeder in self._feeders(reader) if feeder.query.sink.topic == topic)
            found += [self._stated.get(topic), *(writer.range for writer in writers)]
        return [part for part in found if part is not None]

    def _topics(self, reader: CaseQuery) -> list[str]:
        return list(dict.fromkeys(map(self._name, self._world.running[reader.query.id].topics)))

    def write(self, writer: CaseQuery, payloads: Sequence[bytes]) -> None:
        """Appends the results of a query to the log."""
        writer.written = [record for payload in payloads for record in records_of(payload)]
        if writer.written:
            rows = payload_rows(rows_payload(writer.written))
            writer.range = self._append_rows(writer.query.sink.topic, rows)

    def finish(self) -> None:
        """Copies the results into the case's world, unless a failure ends the case."""
        for query in self.queries:
            if query.failure is not None:
                raise QueryFailed(query.failure, fix="correct the record")
            topic = self._world.running[query.query.id].query.sink.topic
            for r in query.written:
                self._world.topics.append(topic, r.key, r.value, r.time, r.headers, query.query.id)
