"""Cuts on Kafka, and the ticks in them, are removed with the records that they refer to."""

from __future__ import annotations

import json

from headrace.contracts import Append
from headrace.engine.checkpoint import cuts_topic, ticks_topic
from headrace.engine.io.replay_retention import trim_cuts
from headrace.log.kafka import KafkaLog
from headrace.log.stored_rows import from_records
from headrace.record import Record


def test_cuts_are_removed_with_their_records(log: KafkaLog, name: str) -> None:
    ticks, cuts = ticks_topic(name), cuts_topic(name)
    for topic in (name, ticks, cuts):
        log.create_topic(topic)
    for _ in range(6):  # two records and a tick each
        log.append(
            [Append(name, from_records([Record(b"a"), Record(b"b")])), Append(ticks, from_records([Record(b"")]))]
        )
    ends = [bounds.end for topic in (name, ticks) for bounds in log.bounds(topic).values()]
    writer = log.writer(f"query.{name}")
    for batch in range(6):
        read, ticked = ((end * (batch + 1)) // 6 for end in ends)
        cut = {"batch": batch, "start": {}, "end": {name: {"0": read}, ticks: {"0": ticked}}}
        writer.append(batch, [Append(cuts, from_records([Record(json.dumps(cut).encode())]))])
    writer.close()

    def kept() -> list[int]:
        start, end = log.bounds(cuts)[0]
        return [json.loads(record.value or b"")["batch"] for record in log.read(cuts, 0, start).records()][
            : end - start
        ]

    trim_cuts(log, name, 5)
    assert (kept(), log.bounds(ticks)[0].start) == ([0, 1, 2, 3, 4, 5], 0)
    log.truncate(name, 0, ends[0] // 2)
    trim_cuts(log, name, 1)  # the third is not done
    assert (kept(), log.bounds(ticks)[0].start) == ([2, 3, 4, 5], ends[1] * 2 // 6)
    trim_cuts(log, name, 5)
    assert (kept(), log.bounds(ticks)[0].start) == ([3, 4, 5], ends[1] * 3 // 6)
