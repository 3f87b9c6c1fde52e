"""Statements and records run twice, in memory and as a program of streaming queries on Spark; both outputs.

The streaming run gets its records in pieces, with all queries stopped and started again in between, so that state goes
through the checkpoint and batches are cut anywhere.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import timedelta
from pathlib import Path

from headrace.contracts import Append, Log
from headrace.control.program import Program
from headrace.log.stored_rows import from_records
from headrace.log.topic_spec import ensure_topic
from headrace.record import Record, StoredRecord
from headrace.settings import Settings, Size
from headrace.testing.world import World

Input = tuple[str, str | None, str | None, int]
"""Topic, key, value, time."""
Output = tuple[bytes | None, bytes | None, int]


def settings(folder: Path, **more: object) -> Settings:
    """Record by record, and every change: that is what is compared with memory."""
    base = {
        "spark_driver_memory": Size(1 << 30),
        "storage_maintenance_interval": timedelta(0),
        "query_key_groups": 2,
        "query_execution_mode": "record",
        "query_emit": "per-record",
    }
    return Settings.of(storage_data=folder / "data", **{**base, **more})  # type: ignore[arg-type]


def in_memory(statements: str, inputs: Sequence[Input]) -> dict[str, list[Output]]:
    """What every topic holds in the end that a query wrote."""
    world = World(live=True)
    world.execute(statements)
    for topic, key, value, time in inputs:
        world.produce(topic, _bytes(key), _bytes(value), time)
    sinks = [running.query.sink.topic for running in world.running.values()]
    return {topic: [(e.key, e.value, e.timestamp) for e in world.topics[topic]] for topic in sinks}


def on_spark(statements: str, pieces: Iterable[Sequence[Input]], log: Log, given: Settings) -> dict[str, list[Output]]:
    """The same from a program that is stopped after every piece."""
    sinks: list[str] = []
    for piece in pieces:
        for topic in {record[0] for record in piece}:
            ensure_topic(log, topic)
        with Program(log, given) as program:
            program.execute(statements)
            for topic, key, value, time in piece:
                append(log, topic, key, value, time)
            program.wait(until_idle=True)
            sinks = [running.query.sink.topic for running in program.running.values()]
    return {topic: written(log, topic) for topic in sinks}


def append(log: Log, topic: str, key: str | None, value: str | None, time: int) -> None:
    log.append([Append(topic, from_records([Record(_bytes(value), _bytes(key), occurred_at=time)]))])


def stored(log: Log, topic: str) -> list[StoredRecord]:
    """All that a topic holds, partition after partition."""
    found: list[StoredRecord] = []
    for partition, (start, end) in log.bounds(topic).items():
        while start < end:
            batch = log.read(topic, partition, start)
            found += batch.records()
            start = batch.next_offset
    return found


def written(log: Log, topic: str) -> list[Output]:
    return [(record.key, record.value, record.timestamp) for record in stored(log, topic)]


def by_key(records: Iterable[Output]) -> dict[bytes | None, list[Output]]:
    """Pages work side by side: only what a key went through has an order."""
    found: defaultdict[bytes | None, list[Output]] = defaultdict(list)
    for record in records:
        found[record[0]].append(record)
    return dict(found)


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()
