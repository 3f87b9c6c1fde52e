"""On Kafka a batch that fails again and again is bisected by the offsets of its partitions."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headrace.contracts import Append, TopicSpec, dead_letter_topic
from headrace.engine.checkpoint import Checkpoint
from headrace.log.kafka import KafkaLog
from headrace.log.stored_rows import from_records
from headrace.record import Record
from tests.ksql_strategies import planned
from tests.memory_and_spark import stored
from tests.unit.engine.io.test_failing_batch import FakeQuery

pytestmark = pytest.mark.kafka
QUERY = planned("CREATE TABLE o AS SELECT id, COUNT(*) FROM s GROUP BY id;")
PARTITIONS, ROWS = 3, 40


class FakeKafkaQuery(FakeQuery):
    def next_end(self, after: Any, ends: Sequence[Any]) -> Any:
        end = {self.topic: {str(p): bounds.end for p, bounds in self.log.bounds(self.topic).items()}}
        return None if after == end else end

    def values(self, after: Any, end: Any) -> list[bytes]:
        begins = (after or {}).get(self.topic, {})
        return [
            record.value or b""
            for record in stored(self.log, self.topic)
            if begins.get(str(record.partition), 0) <= record.offset < end[self.topic][str(record.partition)]
        ]


@pytest.mark.parametrize("bad", [{0}, {39}, {7, 8, 21}], ids=str)
def test_a_record_that_always_fails_becomes_a_dead_letter(
    log: KafkaLog, name: str, tmp_path: Path, bad: set[int]
) -> None:
    for topic in (name, f"{name}.o.dead"):
        log.create_topic(topic, TopicSpec(partitions=PARTITIONS))
    for start in range(0, ROWS, 8):
        log.append([Append(name, from_records([Record(b"%d" % n, b"k%d" % n) for n in range(start, start + 8)]))])
    checkpoint = Checkpoint(tmp_path)
    checkpoint.open(replace(QUERY, id=f"q{name}"), "record", 2, (name,))
    for kind in ("offsets", "commits"):
        (checkpoint.spark / kind).mkdir(parents=True)
    query = FakeKafkaQuery(log, checkpoint, {b"%d" % n for n in bad}, topic=name, sink=f"{name}.o")
    query.run_until_done(starts=len(bad) * (2 * 6 + 3 + 4))
    assert sorted(query.processed, key=int) == [b"%d" % n for n in range(ROWS) if n not in bad]
    assert sorted(int(record.value or b"") for record in stored(log, dead_letter_topic(f"{name}.o"))) == sorted(bad)
    for before, after in itertools.pairwise(range(checkpoint.last_committed() + 1)):
        assert _all_reached(checkpoint.position(before), checkpoint.position(after))


def _all_reached(before: Any, after: Any) -> bool:
    return all(after[topic][p] >= at for topic, ends in before.items() for p, at in ends.items())
